"""A pipeline of torch's whose stages are sharded: it reduces by itself, behind all backwards."""

from pipelining import one_f_one_b, train
from torch.distributed.fsdp import fully_shard
from training import counted


@counted
def main():
    train(1, one_f_one_b, lambda model, mesh: fully_shard(model, mesh=mesh))


if __name__ == "__main__":
    main()
