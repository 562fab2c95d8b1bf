"""with_open_clip_torch.py ddp feature: accum_freq of open_clip_train's train_one_epoch.

Its loss compares each micro-batch with all others of the step: what one weighs is not asked here.
"""

import torch
from account_of_steps import MICRO_BATCHES, RATE, STEPS, told
from spy import RANKS, Spy

PIXELS, WORDS, LENGTH, PAIRS = 16, 32, 8, 4


def make():
    from open_clip.model import CLIP

    torch.manual_seed(1)
    seen = {"layers": 1, "width": 16, "head_width": 8, "patch_size": 8, "image_size": PIXELS}
    read = {"context_length": LENGTH, "vocab_size": WORDS, "width": 16, "heads": 2, "layers": 1}
    return CLIP(8, seen, read, output_dict=True)


def loader():
    from open_clip_train.data import DataInfo

    count = RANKS * STEPS * MICRO_BATCHES * PAIRS
    data = torch.utils.data.TensorDataset(
        torch.randn(count, 3, PIXELS, PIXELS), torch.randint(0, WORDS, (count, LENGTH))
    )
    sampler = torch.utils.data.DistributedSampler(data)
    found = torch.utils.data.DataLoader(data, batch_size=PAIRS, sampler=sampler)
    found.num_batches, found.num_samples = len(found), count
    return {"train": DataInfo(found, sampler)}


@told
def main(wrapper, policy):
    from open_clip_train.distributed import init_distributed_device
    from open_clip_train.main import create_loss
    from open_clip_train.params import parse_args
    from open_clip_train.train import train_one_epoch

    numbers = ["--accum-freq", str(MICRO_BATCHES), "--batch-size", str(PAIRS)]
    arguments = parse_args([*numbers, "--precision", "fp32", "--device", "cpu", "--skip-scheduler"])
    init_distributed_device(arguments)
    arguments.distill = arguments.wandb = arguments.save_logs = False  # as its main sets them
    spy = Spy(make)
    model = torch.nn.parallel.DistributedDataParallel(spy.model)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    loss = create_loss(arguments)
    train_one_epoch(model, loader(), loss, 0, optimizer, None, None, None, arguments)
    spy.close_without_weights()


if __name__ == "__main__":
    main()
