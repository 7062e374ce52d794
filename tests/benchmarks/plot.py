"""A report as a picture: how many times better than its peer railgun is in each row."""

from __future__ import annotations

from pathlib import Path

from tests.benchmarks.results import Report


def draw(report: Report, file: Path) -> None:
    """Write an SVG. Bars to the right of 1 are better than the peer, for rates and for costs alike."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot

    rows = list(reversed(report.results))
    labels = [f"{result.name}\nvs {result.peer_name}" for result in rows]
    advantages = [result.advantage for result in rows]
    settings = {"svg.hashsalt": "railgun", "svg.fonttype": "none", "font.size": 9}
    with pyplot.rc_context(settings):
        figure, axes = pyplot.subplots(figsize=(9.5, 0.5 * len(rows) + 1.2), layout="constrained")
        colours = ["#2a7f62" if advantage >= 1 else "#b5523b" for advantage in advantages]
        # Bars start at 1: equal to the peer.
        axes.barh(labels, [advantage - 1 for advantage in advantages], left=1, color=colours, height=0.6)
        for place, advantage in enumerate(advantages):
            side = "left" if advantage >= 1 else "right"
            axes.annotate(
                f"{advantage:.2f} ×",
                (advantage, place),
                xytext=(4 if advantage >= 1 else -4, 0),
                textcoords="offset points",
                va="center",
                ha=side,
            )
        axes.set_xscale("log")
        axes.axvline(1, color="black", linewidth=0.8)
        axes.margins(x=0.15)
        axes.set_xlabel("times better than the peer (log scale; 1 = equal)")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.spines[["top", "right"]].set_visible(False)
        figure.savefig(file, metadata={"Date": None})
        pyplot.close(figure)
