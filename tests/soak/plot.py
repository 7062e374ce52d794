"""The samples of a soak as a picture: one small plot a measure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from tests.soak.samples import Sample


def draw(samples: Sequence[Sample], file: Path) -> None:
    """Every measure over the minutes of the run; each axis begins at zero, so that flat looks flat."""
    names = [name for name in samples[0] if name != "seconds" and "of shard" not in name]
    rows = -(-len(names) // 3)
    figure, axes = plt.subplots(rows, 3, figsize=(15, 3.2 * rows), squeeze=False)
    minutes = [one["seconds"] / 60 for one in samples]
    for axis, name in zip(axes.flat, names, strict=False):
        axis.plot(minutes, [one[name] for one in samples], marker=".", linewidth=1)
        axis.set_title(name, fontsize=10)
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
    for axis in list(axes.flat)[len(names) :]:
        axis.set_visible(False)
    for axis in axes[-1]:
        axis.set_xlabel("minutes")
    figure.tight_layout()
    figure.savefig(file, dpi=90)
    plt.close(figure)
