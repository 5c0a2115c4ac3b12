"""What a worker publishes of one job, and what its node says of it."""

from paceline.events import JobDescribed, JobWindow

BEGAN_S = 1.8e9


def window(second: int) -> JobWindow:
    """Two steps in a second."""
    return JobWindow(
        cluster="c", start_s=BEGAN_S + second, length_s=1.0, job="j", attempt=0, ranks=2, steps=2,
        first_step=2 * second, last_step=2 * second + 1, step_median_s=0.5, step_p95_s=0.6, own_median_s=0.4,
        own_worst_s=0.5, worst_rank=1, wait_ratio=None, phase_median_s={},
    )  # fmt: skip


def described(ended_s: float | None) -> JobDescribed:
    return JobDescribed(
        cluster="c", producer="n", sequence=0, job="j", attempt=0, node="n", world_size=2, backend="gloo",
        framework="torch", started_s=BEGAN_S, ended_s=ended_s, labels={"total_steps": "1200"}, places=[],
    )  # fmt: skip
