"""For the Trainer of transformers:

trainer = Trainer(...)
trainer.add_callback(GradsyncCallback(trainer, fail_on_excess=True))
trainer.train()
"""

from transformers import TrainerCallback

from gradsync.callbacks.watch import Watch


class GradsyncCallback(TrainerCallback):
    """Logs by trainer.log, and so wherever the trainer reports to. Options: those of Watch."""

    def __init__(self, trainer, **options):
        self.watch = Watch(lambda numbers, steps: trainer.log(dict(numbers)), **options)

    def on_train_begin(self, args, state, control, **kwargs):
        self.watch.begin()

    def on_step_end(self, args, state, control, **kwargs):
        self.watch.stepped(state.global_step)

    def on_log(self, args, state, control, logs=None, **kwargs):
        if "train_runtime" in (logs or {}):  # the last one, before reporters close what they opened
            self.watch.end()

    def on_train_end(self, args, state, control, **kwargs):
        self.watch.end()
        self.watch.fail_on_excess()
