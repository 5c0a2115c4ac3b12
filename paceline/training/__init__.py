"""Timing of PyTorch training from inside the process, at a cost of microseconds a step.

Three ways in: ``paceline run -- torchrun … train.py`` with the script unchanged; ``with watch(): …`` around the
training loop; and ``step()`` and ``phase()`` in loops that nothing else sees. They combine, and none ever fails the
script.

    from paceline import training

    with training.watch():
        for batch in batches:
            with training.phase("data"):
                batch = fetch(batch)
            train(batch)
            training.step()
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from paceline.training.phase import phase, step
from paceline.training.watching import start, stop

__all__ = ["phase", "start", "step", "stop", "watch"]


@contextmanager
def watch(*, record: str | None = None, captures: bool = False, total_steps: int | None = None) -> Iterator[None]:
    """Time the training inside the ``with``; ``record`` writes a recording there, beside what goes to Kafka.

    ``captures`` allows ``paceline capture``: PyTorch's profiler in this process, for some steps, when asked.

    ``total_steps`` says how many steps the job means to take, by which its end is forecast; give it on every rank.

    Under ``paceline run`` its options say what is recorded and where to; ``total_steps`` counts there, too, also
    where the rank has joined its group before. Enter it before wrapping the model in DDP or FSDP.
    """
    start(record=record, captures=captures, total_steps=total_steps)
    try:
        yield
    finally:
        stop()
