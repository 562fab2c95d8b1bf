"""For your own training loop:

def log(numbers, steps):
    for name, value in numbers.items():
        writer.add_scalar(name, value, steps)

with watching(log, fail_on_excess=True):
    train()
"""

from gradsync.callbacks.watch import Watch


def watching(log=lambda numbers, steps: None, **options):
    """Returns a Watch for a `with`. Options: those of Watch; `log` is called on every rank.

    With `every`, call its stepped() behind each optimizer step.
    """
    return Watch(log, **options)
