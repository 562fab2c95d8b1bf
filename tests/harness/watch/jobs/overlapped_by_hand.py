"""No wrapper: each gradient is reduced as soon as it is there, while backward goes on."""

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from training import SlowModel, batches, counted


@counted
def main():
    model = SlowModel()
    works = []

    def reduce(parameter):
        works.append(dist.all_reduce(parameter.grad, async_op=True))

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(reduce)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for inputs, targets in batches(8):
        mse_loss(model(inputs), targets).backward()
        while works:
            works.pop().wait()
        for parameter in model.parameters():
            parameter.grad /= dist.get_world_size()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
