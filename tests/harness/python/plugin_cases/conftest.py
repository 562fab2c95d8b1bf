"""Fixtures that each rank makes for itself."""

import pytest


@pytest.fixture
def place_of_rank(tmp_path):
    import torch.distributed as dist

    return dist.get_rank(), tmp_path
