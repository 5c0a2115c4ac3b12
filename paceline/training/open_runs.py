"""Open runs: which runs of experiment trackers the script of this process has open right now.

Rule of this file: it looks at what the script has imported, brings nothing in and changes nothing. It knows insides of
others' packages, of many versions; what is not as expected counts as no run. It is called from a thread beside
training, twice a second, so it asks no server and searches no heap.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from paceline.training.tracking_words import MLFLOW, TENSORBOARD, WANDB, OpenRun

#: Where TensorBoard's own writer, which PyTorch's ``SummaryWriter`` is, has its thread.
_WRITER_MODULE = "tensorboard.summary.writer.event_file_writer"


def open_runs(modules: Mapping[str, ModuleType]) -> list[OpenRun]:
    """The runs that are open, at most one of each tracker; ``modules`` are those imported, by name."""
    runs = []
    for look in (_mlflow, _wandb, _tensorboard):
        try:
            run = look(modules)
        except Exception:  # noqa: S112 - another version's insides; no run is what the user is told
            continue
        if run is not None:
            runs.append(run)
    return runs


def _mlflow(modules: Mapping[str, ModuleType]) -> OpenRun | None:
    """The run that was started last among those that threads are in: of nested ones the inner."""
    fluent: Any = modules.get("mlflow.tracking.fluent")
    held: Any = getattr(fluent, "_active_run_stack", None)
    if held is None:
        return None
    stacks = held.get_all_thread_values().values() if hasattr(held, "get_all_thread_values") else [held]
    inner = [stack[-1] for stack in list(stacks) if stack]
    if not inner:
        return None
    newest = max(inner, key=lambda run: run.info.start_time or 0)
    address = str(modules["mlflow"].get_tracking_uri())
    return OpenRun(MLFLOW, str(newest.info.run_id), _from_here(address))


def _from_here(address: str) -> str:
    """``address`` with the folder that a relative one counts from, which may be ours alone.

    >>> _from_here("http://host:5000"), _from_here("sqlite:////a/b.db")
    ('http://host:5000', 'sqlite:////a/b.db')
    >>> _from_here("sqlite:///m.db") == "sqlite:///" + os.path.abspath("m.db")
    True
    """
    scheme, separator, rest = address.partition(":///")
    if scheme == "sqlite" and separator and not rest.startswith("/"):
        return f"sqlite:///{os.path.abspath(rest)}"
    return os.path.abspath(address) if ":" not in address and address != "databricks" else address


def _wandb(modules: Mapping[str, ModuleType]) -> OpenRun | None:
    run = wandb_run(modules)
    return None if run is None else OpenRun(WANDB, str(run.id))


def wandb_run(modules: Mapping[str, ModuleType]) -> Any:
    """The run that ``wandb.init`` has opened, None where there is none that can be logged to."""
    run: Any = getattr(modules.get("wandb"), "run", None)
    if run is None or getattr(run, "_is_finished", False) or getattr(run, "disabled", False):
        return None
    return run


def _tensorboard(modules: Mapping[str, ModuleType]) -> OpenRun | None:
    """The folder of the writer that has been open longest."""
    kind = getattr(modules.get(_WRITER_MODULE), "_AsyncWriterThread", None)
    if kind is None:
        return None
    for thread in threading.enumerate():
        if isinstance(thread, kind):
            name = thread._record_writer._writer.filename
            text = os.fsdecode(name)
            if "://" not in text:
                return OpenRun(TENSORBOARD, place=os.path.abspath(os.path.dirname(text)))
    return None
