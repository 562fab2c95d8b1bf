"""For Lightning:

trainer = Trainer(strategy="ddp", callbacks=[GradsyncCallback(fail_on_excess=True)])
trainer.fit(module)
"""

from lightning.pytorch import Callback

from gradsync.callbacks.watch import Watch


class GradsyncCallback(Callback):
    """Logs to the loggers of the trainer. Options: those of Watch."""

    def __init__(self, **options):
        self.watch = Watch(self.log_numbers, **options)
        self.loggers = []

    def log_numbers(self, numbers, steps):
        for logger in self.loggers:
            logger.log_metrics(numbers, step=steps)

    def on_train_start(self, trainer, pl_module):
        self.loggers = trainer.loggers
        self.watch.begin()

    def on_train_batch_end(self, trainer, *args):
        self.watch.stepped(trainer.global_step)

    def on_train_end(self, trainer, pl_module):
        self.watch.end()
        self.watch.fail_on_excess()

    def on_exception(self, trainer, pl_module, exception):
        self.watch.end(has_succeeded=False)
