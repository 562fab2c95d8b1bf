"""A pipeline of torch's whose ranks have two stages each, which take turns."""

from pipelining import train
from torch.distributed.pipelining import ScheduleInterleaved1F1B
from training import counted


@counted
def main():
    train(2, ScheduleInterleaved1F1B)


if __name__ == "__main__":
    main()
