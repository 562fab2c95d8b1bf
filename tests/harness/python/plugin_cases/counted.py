"""Tests whose counts are kept in a file."""

import os

import pytest


def train(**options):
    import jobs

    jobs.train(**options)


@pytest.mark.gradsync(ranks=1, fail_on_excess=False)
def test_training():
    train(properly="IMPROPERLY" not in os.environ)


@pytest.mark.gradsync(ranks=1)
def test_steady():
    train()


@pytest.mark.gradsync(ranks=1, counts=True)
@pytest.mark.skipif("GROWN" not in os.environ, reason="not written yet")
def test_that_must_be_there():
    train()


@pytest.mark.gradsync(ranks=1, counts=False)
def test_that_is_never_counted():
    train()
