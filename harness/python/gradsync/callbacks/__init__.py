"""Callbacks for training libraries. Importing this imports none of them.

gradsync.callbacks.accelerate   with watching(accelerator): train()
gradsync.callbacks.lightning    Trainer(callbacks=[GradsyncCallback()])
gradsync.callbacks.loop         with watching(log): train()
gradsync.callbacks.trainer      trainer.add_callback(GradsyncCallback(trainer)), of transformers

Each prints the page at the end, logs the series (gradsync.series) by the library's own means, and
where it is asked to raises Excess: see gradsync.callbacks.watch.Watch for the options of all.
"""

from gradsync.callbacks.watch import Excess, Watch

__all__ = ["Excess", "Watch"]
