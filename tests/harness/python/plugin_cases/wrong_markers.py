"""Markers that cannot be meant."""

import unittest

import pytest


@pytest.mark.gradsync(ranks=0)
def test_no_rank():
    pass


@pytest.mark.gradsync()
def test_no_ranks():
    pass


@pytest.mark.gradsync(ranks=2, max_peak="50 megs")
def test_unknown_unit():
    pass


@pytest.mark.gradsync(ranks=2, sync_per_step=1)
def test_unknown_argument():
    pass


@pytest.mark.gradsync(ranks=2, account=True, max_peak="1MiB")
def test_peak_of_an_account():
    pass


@pytest.mark.gradsync(2)
def test_without_a_name():
    pass


class Case(unittest.TestCase):
    @pytest.mark.gradsync(ranks=2)
    def test_of_unittest(self):
        pass


def test_of_nobody():
    pass
