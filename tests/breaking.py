"""Every step of ours broken in turn: a step is a call that our code makes, found by letting it run once.

Rule of this file: nothing is listed by hand, so a step that is added is broken from then on. A call of a C function
counts as well, and is not made when it is broken; what a callee of somebody else's does inside is its own affair.
"""

import gc
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

OURS = str(Path(__file__).parents[1] / "paceline") + "/"


class Step(NamedTuple):
    """A call: where it stands, and what is called there."""

    place: str
    line: int
    callee: str


def steps(action: Callable[[], object], ours: Callable[[str], bool] = lambda path: True) -> list[Step]:
    """The steps that ``action`` takes on this thread, in the files below ``paceline`` that are ``ours``."""
    found: dict[Step, None] = {}
    was = gc.isenabled()
    gc.disable()  # Where it collects, callbacks of others are called, at a place that is another every time.
    try:
        _watched(action, lambda step: found.setdefault(step), ours)
    finally:
        if was:
            gc.enable()
    return list(found)


def broken(action: Callable[[], object], step: Step, error: BaseException, times: int = 1) -> bool:
    """Whether ``action`` came to ``step``, which raised ``error`` instead the first time."""
    met: list[Step] = []

    def look(now: Step) -> None:
        if now == step and len(met) < times:
            met.append(now)
            raise error

    _watched(action, look, lambda path: True)
    return bool(met)


def let_go() -> None:
    """Free what broken steps have left unclosed, without the warning that another test would be blamed for.

    What is left then lives on: the next call need not go through it, which takes a second once PyTorch is imported.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
    gc.freeze()


def _watched(action: Callable[[], object], look: Callable[[Step], None], ours: Callable[[str], bool]) -> None:
    def on_call(frame: FrameType, event: str, called: Any) -> None:
        caller = frame if event == "c_call" else frame.f_back if event == "call" else None
        if caller is None or not caller.f_code.co_filename.startswith(OURS):
            return
        path = caller.f_code.co_filename.removeprefix(OURS)
        if ours(path):
            name = getattr(called, "__qualname__", "") if event == "c_call" else frame.f_code.co_qualname
            look(Step(f"{path}:{caller.f_code.co_qualname}", caller.f_lineno, name))

    before = sys.getprofile()
    sys.setprofile(on_call)
    try:
        action()
    finally:
        sys.setprofile(before)
