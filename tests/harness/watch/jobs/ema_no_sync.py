"""The same, and the last micro-batch alone synchronizes."""

from checkpointed import no_sync_but_last
from ema import train
from training import counted


@counted
def main():
    train(no_sync_but_last)


if __name__ == "__main__":
    main()
