"""The page of pipeline health: what is wrong with Paceline itself, its topics, senders, machines and dead letters."""

from . import frame, health
from .frame import Shown, Source


def show(source: Source) -> None:
    """Draw the page from ``source``."""
    frame.show(source, _draw, "Pipeline health", ranged=False)


def _draw(shown: Shown) -> None:
    health.draw(shown.snapshot, full=True)
    health.draw_machines(shown.snapshot)
