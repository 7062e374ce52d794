"""The tour of ``make run``: what railgun does, live, against the cluster that just started.

Every step is checked: a tour that ends well has shown what it says. It makes streams that carry a mark, and removes them at
its end and at its beginning, so that it can run again after it was interrupted.
"""

from railgun.cli.tour.command import run_tour, tour
from railgun.cli.tour.walk import MARK, TourFailed, Walk

__all__ = ["MARK", "TourFailed", "Walk", "run_tour", "tour"]
