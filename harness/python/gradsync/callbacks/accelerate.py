"""For Hugging Face's Accelerate:

accelerator = Accelerator(log_with="tensorboard", project_dir="runs")
...
with watching(accelerator, fail_on_excess=True):
    train()
"""

from gradsync.callbacks.watch import Watch


def watching(accelerator, **options):
    """Returns a Watch for a `with`; it logs to the accelerator's trackers. Options: those of Watch.

    With `every`, call its stepped() behind each optimizer step.
    """
    return Watch(lambda numbers, steps: accelerator.log(numbers, step=steps), **options)
