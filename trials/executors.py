"""The executor that a spec names, made.

Rule of this file: a door. An executor's module is imported where it is asked for, so that nobody needs what another
executor brings.
"""

import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import cast

from .executor import Executor, ExecutorError
from .spec import Spec

_CLASSES = {
    "local": ("local", "LocalExecutor"),
    "slurm": ("slurm", "SlurmExecutor"),
    "kubernetes": ("kubernetes", "KubernetesExecutor"),
}


def made(spec: Spec, folder: Path, asked: threading.Event | None = None) -> Executor:
    """The executor of ``spec``, with its options, the trial's folder and its name.

    ``asked`` is set where all is to end.

    Raises:
        ExecutorError: it is not to be had here, or its options are wrong.
    """
    module, name = _CLASSES[spec.executor_name]
    try:
        kind = getattr(import_module(f"{__package__}.{module}"), name)
    except ModuleNotFoundError as error:
        raise ExecutorError(f"executor {spec.executor_name}: {error.name} is not installed") from error
    options = dict(spec.executor_options) | {"folder": str(folder), "name": spec.name}
    try:
        return cast(Executor, kind(options, asked=asked))
    except ValueError as error:
        raise ExecutorError(f"executor {spec.executor_name}: {error}") from error


def paceline(spec: Spec) -> tuple[str, ...]:
    """How our program is called where the jobs run: by this interpreter or the one of the options, or, in an image, by
    its name."""
    if spec.executor_name == "kubernetes":
        return ("paceline",)
    return (str(spec.executor_options.get("python") or sys.executable), "-P", "-m", "paceline")
