"""Where the thread that trains is right now, in a few words of bounded length.

Rule of this file: it runs on the thread that ships, only when the sidecar asks, and reads stack frames and nothing
else: no source file is opened, no value of the script is touched, and no thread is stopped or signalled.
"""

from __future__ import annotations

import os
import sys
import time
from types import FrameType
from typing import TYPE_CHECKING

from paceline.training.look_messages import LONGEST_FRAME, MOST_FRAMES, MOST_OTHERS, Looked
from paceline.visible import visible

if TYPE_CHECKING:
    from paceline.training.probe import Probe

#: Frames walked at most: deep recursion must not cost more than that.
MOST_WALKED = 400
#: Samples after the look, and seconds between them: whoever sleeps between two short pieces of work is seen at one.
SAMPLES, SAMPLE_S = 40, 0.005
_STANDARD = os.path.dirname(os.__file__) + os.sep
_OURS = os.path.dirname(os.path.dirname(__file__)) + os.sep
_INSTALLED = ("site-packages", "dist-packages")


def look(probe: Probe, number: int) -> Looked:
    """What look ``number`` sees of the thread that trains."""
    frames: list[str] = []
    known: set[tuple[str, str]] = set()
    line = ""
    frame: FrameType | None = sys._current_frames().get(probe.thread)
    for _ in range(MOST_WALKED):
        if frame is None or (line and len(frames) == MOST_FRAMES):
            break
        own = not line and is_users(frame)
        if own or len(frames) < MOST_FRAMES:
            text = place_of(frame, frame.f_lineno)
            line = text if own else line
            if len(frames) < MOST_FRAMES:
                frames.append(text)
                known.add(_function(frame))
        frame = frame.f_back
    return Looked(number, probe.task, not probe.off, line, frames, _others(probe.thread, known))


def _others(thread: int, known: set[tuple[str, str]]) -> list[str]:
    """Functions that samples show ``thread`` in, and that are not ``known`` yet."""
    others: list[str] = []
    for _ in range(SAMPLES):
        time.sleep(SAMPLE_S)
        frame = sys._current_frames().get(thread)
        for _ in range(MOST_FRAMES):
            if frame is None or len(others) == MOST_OTHERS:
                break
            if _function(frame) not in known:
                known.add(_function(frame))
                others.append(place_of(frame, frame.f_lineno))
            frame = frame.f_back
    return others


def _function(frame: FrameType) -> tuple[str, str]:
    """Whose frame it is. Two code objects are equal wherever their files read the same."""
    return frame.f_code.co_filename, frame.f_code.co_name


def is_users(frame: FrameType) -> bool:
    """Whether ``frame`` is in the user's own code: not the standard library's, an installed package's, or ours.

    The script itself is the user's wherever it lies.
    """
    if frame.f_globals.get("__name__") == "__main__":
        return True
    path = frame.f_code.co_filename
    if path.startswith("<"):
        return False
    return not (path.startswith((_STANDARD, _OURS)) or any(f"{os.sep}{name}{os.sep}" in path for name in _INSTALLED))


def place_of(frame: FrameType, line: int | None) -> str:
    """Where ``line`` of ``frame`` is: file:line function."""
    code = frame.f_code
    place = f":{line or code.co_firstlineno} {code.co_name}"[-LONGEST_FRAME:]
    # Of a long path the end tells more; half a character, as a file's name may hold, must not fail the answer.
    path = visible(_short(code.co_filename).encode("utf-8", "replace").decode())
    return path[-(LONGEST_FRAME - len(place)) :] + place if len(place) < LONGEST_FRAME else place


def _short(path: str) -> str:
    """``path`` from the current folder on, if it lies in there."""
    try:
        here = os.getcwd() + os.sep
    except OSError:
        return path
    return path[len(here) :] if path.startswith(here) else path
