"""Tests as users write them; pytest_plugin_test.py says how each of them must end."""

import os
import sys
import time

import pytest


def test_nothing_is_imported_for_others():
    assert "torch" not in sys.modules
    assert "gradsync.testing.runs" not in sys.modules


@pytest.mark.gradsync(ranks=2, syncs_per_step=1, max_bytes_per_step="4KiB")
def test_wrong():
    from jobs import train

    train(properly=False)


@pytest.mark.gradsync(ranks=1, max_peak=5999)
def test_peak():
    import torch

    kept = [torch.empty(1000), torch.empty(500)]
    del kept[0]
    kept.append(torch.empty(900))


@pytest.mark.gradsync(ranks=2, account=True)
@pytest.mark.parametrize("clears", [False, True])
def test_account(clears):
    from jobs import train_on_others

    train_on_others(clears)


@pytest.mark.gradsync(ranks=1, account=True)
def test_account_of_nothing():
    pass


@pytest.mark.gradsync(ranks=2)
def test_one_rank_fails(place_of_rank):
    rank, place = place_of_rank
    place.joinpath("is_its_own").mkdir()
    print("before, of", os.environ["WORLD_SIZE"])
    print("to stderr", file=sys.stderr)
    value = [1, 2, rank]
    assert value == [1, 2, 0]


@pytest.mark.gradsync(ranks=2)
def test_one_rank_dies():
    import torch
    import torch.distributed as dist

    if dist.get_rank() == 1:
        os._exit(3)
    dist.all_reduce(torch.ones(1))


@pytest.mark.gradsync(ranks=2, timeout_s=15)
def test_hangs():
    hang_here()


def hang_here():
    time.sleep(600)


class TestMethods:
    @pytest.fixture(autouse=True)
    def number(self):
        self.number = 3

    @pytest.mark.gradsync(ranks=1)
    @pytest.mark.parametrize("expected", [3])
    def test_method(self, expected):
        assert self.number == expected


@pytest.mark.gradsync(ranks=1)
def test_skipped_inside():
    pytest.skip("for a reason")


@pytest.mark.gradsync(ranks=1)
@pytest.mark.xfail(strict=True, reason="known")
def test_expected_to_fail():
    raise KeyError("known")


def peaks_of_trainings(rank, value, more):
    """Watched, each with what is held before; and something else."""
    from gradsync import watching
    from gradsync.testing.memory import TensorMemory
    from jobs import train

    memory, seen = TensorMemory(), []
    with watching() as watched:
        for _ in range(6):
            memory.reset_peak()
            held = memory.held_bytes()
            train()
            seen.append((held, memory.peak_bytes()))
    return seen, watched.steps, 2 * value + rank + more


def broken(rank):
    if rank == 1:
        raise KeyError("of rank 1")


def test_two_ranks_and_their_peaks(gradsync_two_ranks):
    of_ranks = gradsync_two_ranks(peaks_of_trainings, 10, more=1)
    assert [value for *_, value in of_ranks] == [21, 22]
    assert all(steps == {0: 24, 1: 24} for _, steps, _ in of_ranks)
    [(held, peak)] = {peaks for seen, *_ in of_ranks for peaks in seen}  # all are alike
    # Parameters, gradients and, while it is rebuilt, a bucket and its successor; a micro-batch.
    assert held == 0 and 4 * 2080 + 512 <= peak < 5 * 2080


def test_two_ranks_of_which_one_fails(gradsync_two_ranks):
    gradsync_two_ranks(broken)


def test_a_local_function(gradsync_two_ranks):
    gradsync_two_ranks(lambda rank: rank)


def links_seen(rank):
    import socket
    import subprocess

    import torch
    import torch.distributed as dist

    total = torch.ones(1000)
    dist.all_reduce(total)
    queue = subprocess.run(["tc", "qdisc", "show", "dev", "eth0"], capture_output=True, text=True)
    return total.sum().item(), sorted(name for _, name in socket.if_nameindex()), queue.stdout


def test_link(gradsync_shaped_link):
    for total, interfaces, queue in gradsync_shaped_link("200Mbps")(links_seen):
        assert total == 2000
        assert interfaces == ["eth0", "lo"]
        assert "tbf" in queue and "rate 200Mbit" in queue


def test_link_of_no_rate(gradsync_shaped_link):
    gradsync_shaped_link("fast")


@pytest.mark.gradsync(ranks=2, syncs_per_step=1)
def test_ledger(gradsync_ledger):
    import torch
    import torch.distributed as dist
    from jobs import train

    with gradsync_ledger() as ledger:
        dist.all_reduce(torch.ones(25))
        dist.broadcast(torch.ones(10), 0)
    assert ledger["all_reduce"] == (1, 100) and ledger["broadcast"] == (1, 40)
    assert ledger["all_gather"].count == 0
    train()
    with gradsync_ledger() as ledger:
        dist.all_reduce(torch.ones(5))
    assert ledger.counts == {"all_reduce": 1} and ledger["all_reduce"].bytes == 20


def test_ledger_of_nothing_else(gradsync_ledger):
    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    with gradsync_ledger() as ledger:
        dist.all_reduce(torch.ones(25))
    dist.all_reduce(torch.ones(25))
    dist.destroy_process_group()
    assert ledger.counts == {"all_reduce": 1}
