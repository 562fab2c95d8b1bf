"""The same, and the first of the critic's two backwards does not synchronize."""

from adversarial_apart import train
from training import counted


@counted
def main():
    train(lambda critic: critic.no_sync())


if __name__ == "__main__":
    main()
