"""The same without torch.no_grad(): DDP's forward arms the backward that comes next, whether that
is under no_sync or not.
"""

from evaluation_within import train
from training import counted


@counted
def main():
    def evaluate(model, inputs):
        model(inputs)  # to change

    train(evaluate)


if __name__ == "__main__":
    main()
