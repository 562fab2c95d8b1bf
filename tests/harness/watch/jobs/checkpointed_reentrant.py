"""The same by autograd within autograd."""

from checkpointed import no_sync_but_last, train
from training import counted


@counted
def main():
    train(True, no_sync_but_last)


if __name__ == "__main__":
    main()
