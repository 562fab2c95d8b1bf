"""Activations are recomputed in backward; the last micro-batch alone synchronizes."""

from checkpointed import no_sync_but_last, train
from training import counted


@counted
def main():
    train(False, no_sync_but_last)


if __name__ == "__main__":
    main()
