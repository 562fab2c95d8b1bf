"""The questions that six public projects ask of their synchronization, in at most five lines each.

README.md has their addresses. pytest_plugin_test.py runs each with the bug and with the fix.
"""

import jobs
import pytest


@pytest.mark.gradsync(ranks=2, fail_on_excess=False)
def test_veomni_1026(fixed, gradsync_ledger):
    with gradsync_ledger() as ledger:
        jobs.replicas_of_shards(fixed)
    assert ledger["all_reduce"].count == 2 * jobs.STEPS


@pytest.mark.gradsync(ranks=2)
def test_skyrl_2146(fixed):
    jobs.growing_windows(fixed)


@pytest.mark.gradsync(ranks=2, syncs_per_step=1)
def test_verl_omni_614(fixed):
    jobs.timesteps(fixed)


def test_areal_1273(fixed, gradsync_two_ranks):
    for whole, in_parts in gradsync_two_ranks(jobs.grad_norms, fixed):
        assert in_parts == pytest.approx(whole, rel=1e-3)


@pytest.mark.gradsync(ranks=2, max_peak="3.5MiB")
def test_megatron_lm_6551(fixed):
    jobs.eight_layers(fixed)


@pytest.mark.gradsync(ranks=2, max_bytes_per_step="32KiB")
def test_fairscale_470(fixed):
    jobs.kept_parameters(fixed)
