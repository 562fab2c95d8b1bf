"""with_speechbrain.py ddp feature: grad_accumulation_factor of its Brain."""

import torch
from account_of_steps import MICRO_BATCHES, RATE, SAMPLES, told
from spy import Spy, of_this_rank


@told
def main(wrapper, policy):
    import speechbrain

    class Brain(speechbrain.Brain):
        def compute_forward(self, batch, stage):
            return self.modules.model(batch[0])

        def compute_objectives(self, predictions, batch, stage):
            return torch.nn.functional.mse_loss(predictions, batch[1])

    torch.distributed.init_process_group("gloo")
    spy = Spy()
    brain = Brain(
        modules={"model": spy.model},
        opt_class=lambda parameters: torch.optim.SGD(parameters, lr=RATE),
        run_opts={
            "device": "cpu",
            "distributed_backend": "gloo",
            "grad_accumulation_factor": MICRO_BATCHES,
            "noprogressbar": True,
        },
    )
    brain.fit(range(1), of_this_rank(SAMPLES))
    spy.close()


if __name__ == "__main__":
    main()
