"""The exception that ends this process: its type, text and line, noted while the process still runs.

Rule of this file: it prints nothing and changes no hook's behaviour. The main thread's exception is where Python keeps
it; only that of another thread needs a hook, which calls the one before it, whatever happens. What an exception says of
itself is cut, and logins in it are left out.
"""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import Any

from paceline.training.failure_messages import LONGEST_TEXT, Failed
from paceline.training.looking import is_users, place_of
from paceline.visible import visible, without_logins

#: Exceptions followed from one to the one before it, and frames of a traceback.
MOST_LINKS, MOST_FRAMES = 20, 4000
LONGEST_NAME = 200


class ThreadFailures:
    """The first exception that ended a thread other than the main one."""

    def __init__(self) -> None:
        self.first: Failed | None = None
        self._before: Any = None

    def follow(self) -> None:
        """Note them from now on."""
        if self._before is None:
            self._before, threading.excepthook = threading.excepthook, self._hook

    def leave(self) -> None:
        """Note them no longer, where no other hook has come after ours."""
        if self._before is not None and threading.excepthook == self._hook:
            threading.excepthook, self._before = self._before, None

    def _hook(self, args: Any) -> Any:
        try:
            if self.first is None and args.exc_value is not None and not isinstance(args.exc_value, SystemExit):
                name = args.thread.name if args.thread is not None else "unknown"
                self.first = failed(args.exc_value, args.exc_traceback, thread=name)
        except Exception:
            self.first = None
        return self._before(args)


def at_exit() -> Failed | None:
    """The exception that ends this process, if one does: called while Python exits."""
    return _noted(_culprit(sys.exc_info()[1] or getattr(sys, "last_value", None)), handled=False)


def while_handled() -> Failed | None:
    """The exception that the calling code handles, if any: it may end the process, or not."""
    return _noted(_culprit(sys.exc_info()[1]), handled=True)


def _noted(error: BaseException | None, *, handled: bool) -> Failed | None:
    try:
        return None if error is None else failed(error, error.__traceback__, handled=handled)
    except Exception:
        return None


def _culprit(error: BaseException | None) -> BaseException | None:
    """``error``; of ``sys.exit`` with a failure, the exception that it was called for."""
    for _ in range(MOST_LINKS):
        if not isinstance(error, SystemExit):
            break
        error = error.__context__ if error.code not in (None, 0, False) else None
    return None if isinstance(error, (SystemExit, GeneratorExit)) else error


def failed(error: BaseException, traceback: TracebackType | None, *, thread: str = "", handled: bool = False) -> Failed:
    """What is sent of ``error``."""
    first, seen = error, {id(error)}
    for _ in range(MOST_LINKS):
        before = first.__cause__ or first.__context__
        if before is None or id(before) in seen:
            break
        first = before
        seen.add(id(first))
    return Failed(
        raised_s=time.time(),
        error=_cut(_name(error), LONGEST_NAME),
        message=_cut(_text(error), LONGEST_TEXT),
        first="" if first is error else _cut(f"{_name(first)}: {_text(first)}", LONGEST_TEXT),
        line=_line(traceback),
        thread=_cut(thread, LONGEST_NAME),
        handled=handled,
    )


def _name(error: BaseException) -> str:
    kind = type(error)
    return (
        kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__qualname__}"
    )


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return ""


def _cut(text: str, most: int) -> str:
    # Twice: escapes make it longer, and what is far behind the end need not be read.
    return visible(without_logins(text[: 2 * most]))[:most]


def _line(traceback: TracebackType | None) -> str:
    """The innermost line of the user's own code."""
    line = ""
    for _ in range(MOST_FRAMES):
        if traceback is None:
            break
        if is_users(traceback.tb_frame):
            line = place_of(traceback.tb_frame, traceback.tb_lineno)
        traceback = traceback.tb_next
    return line
