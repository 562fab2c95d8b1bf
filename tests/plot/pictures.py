"""What the tests of plots share: they start a program that draws, and look at what it drew."""

import subprocess
import sys

import matplotlib.colors
import matplotlib.image


def plot(program, path, timeout_s=120):
    return subprocess.run(
        [sys.executable, str(program), str(path)],
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )


def share_of(colour, path):
    """Returns the share of the picture's pixels that have this colour."""
    pixels = matplotlib.image.imread(path)[..., :3]
    return (abs(pixels - matplotlib.colors.to_rgb(colour)).max(axis=2) < 0.02).mean()
