"""A test that only its runner's end ends."""

import os
import time
from pathlib import Path

import pytest


@pytest.mark.gradsync(ranks=2, timeout_s=600)
def test_endless():
    Path(os.environ["STARTED"], os.environ["RANK"]).touch()
    time.sleep(600)
