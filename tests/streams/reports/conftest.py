"""Derived events of a made-up job, second by second, for reports and comparisons."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from paceline.events import Event, RankPlace
from streams.reports.builder import ReportBuilder
from streams.reports.report import Report
from tests.derived_events import described, job_window, rank_window

PHASES = {"data": 0.02, "forward": 0.15, "backward": 0.3, "communication": 0.03}


def windows(
    seconds: int, ranks: int = 4, slow: int | None = None, step_s: float = 0.5, t0_s: float = 0.0
) -> Iterator[Event]:
    """A window a second with two steps; rank ``slow`` works half as long again and the others wait for it."""
    for second in range(seconds):
        common = {"start_s": t0_s + second, "length_s": 1.0, "first_step": 2 * second, "last_step": 2 * second + 1}
        for rank in range(ranks):
            own = PHASES | ({"forward": 0.375} if rank == slow else {})
            yield rank_window(rank, **common, steps=2, phase_mean_s=own)
        yield job_window(
            **common, ranks=ranks, steps=2, step_median_s=step_s, step_p95_s=step_s * 1.1, phase_median_s=PHASES
        )


@pytest.fixture
def make_windows() -> Callable[..., Iterator[Event]]:
    return windows


@pytest.fixture
def report_of() -> Callable[..., Report]:
    """The report of events."""

    def of(*events: Event, job: str | None = None) -> Report:
        builder = ReportBuilder("Report", job)
        for event in events:
            builder.update(event)
        return builder.report()

    return of


@pytest.fixture
def make_run() -> Callable[..., list[Event]]:
    """A run of ``len(steps_s)`` windows, one a second, whose steps take so long; ``tensor`` ranks share their data."""

    def of(
        steps_s: np.ndarray, ranks: int = 4, batch: int | None = None, tensor: int = 1, **labels: str
    ) -> list[Event]:
        places = [
            RankPlace(
                rank=rank, local_rank=rank, node="n", device="cpu", pid=1, dp=rank // tensor, tp=rank % tensor, pp=0
            )
            for rank in range(ranks)
        ]
        job = described(world_size=ranks, batch_size=batch, labels=labels, places=places)
        return [
            job,
            *(
                job_window(
                    start_s=float(second), length_s=1.0, first_step=2 * second + 10, last_step=2 * second + 11, steps=2,
                    ranks=ranks, step_median_s=float(step_s),
                    phase_median_s={"forward": float(step_s) * 0.6, "backward": float(step_s) * 0.4},
                )
                for second, step_s in enumerate(steps_s)
            ),
        ]  # fmt: skip

    return of
