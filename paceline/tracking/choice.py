"""Which trackers are asked for, by ``--track`` and by what the environment says.

Rule of this file: pure. ``auto`` means whichever has a run open; another word names one.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from paceline.training.tracking_words import MLFLOW, TENSORBOARD, WANDB, OpenRun, without_secret

WORDS = "mlflow, wandb, tensorboard, tensorboard=DIR or auto"


class ChoiceError(ValueError):
    """``--track`` with a word that names no tracker."""


class Choice(NamedTuple):
    """The trackers, and the folder that TensorBoard's files go to where one is named."""

    trackers: tuple[str, ...]
    folder: str = ""


def chosen(words: list[str]) -> Choice:
    """What ``--track`` asks for, given once or more.

    Raises:
        ChoiceError: a word names no tracker.

    >>> chosen(["mlflow", "tensorboard=/runs/7"])
    Choice(trackers=('mlflow', 'tensorboard'), folder='/runs/7')
    >>> chosen(["auto"]).trackers
    ('mlflow', 'wandb', 'tensorboard')
    """
    trackers: list[str] = []
    folder = ""
    for word in words:
        name, _, value = word.partition("=")
        if (value and name != TENSORBOARD) or name not in (MLFLOW, WANDB, TENSORBOARD, "auto") or word.endswith("="):
            raise ChoiceError(f"--track {word!r}: one of {WORDS}")
        trackers += [MLFLOW, WANDB, TENSORBOARD] if name == "auto" else [name]
        folder = value or folder
    return Choice(tuple(dict.fromkeys(trackers)), str(Path(folder).absolute()) if folder else "")


def opened_outside(choice: Choice, environ: Mapping[str, str]) -> list[OpenRun]:
    """Runs that are there before the script opens any: MLflow's of the environment, TensorBoard's folder."""
    runs = []
    run = environ.get("MLFLOW_RUN_ID", "")
    address = environ.get("MLFLOW_TRACKING_URI", "")
    if MLFLOW in choice.trackers and run and address:
        runs.append(OpenRun(MLFLOW, run, without_secret(address)))
    if TENSORBOARD in choice.trackers and choice.folder:
        runs.append(OpenRun(TENSORBOARD, place=choice.folder))
    return runs


def with_login(address: str, environ: Mapping[str, str]) -> str:
    """The address of a tracking server as it is to be asked: with the login that our own environment has for it.

    >>> with_login("http://host", {"MLFLOW_TRACKING_URI": "http://ada:secret@host"})
    'http://ada:secret@host'
    >>> with_login("http://other", {"MLFLOW_TRACKING_URI": "http://ada:secret@host"})
    'http://other'
    """
    own = environ.get("MLFLOW_TRACKING_URI", "")
    return own if own and without_secret(own) == address else address
