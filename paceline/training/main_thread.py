"""Running a function of ours on the main thread, soon, whatever Python that thread is in.

Rule of this file: CPython's pending calls, by the standard library. A signal's handler that raises meanwhile is the
script's, and its exception goes on into the script: so what is called is not a callback of ctypes, which would swallow
it, but CPython's own ``PyObject_IsTrue``.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable


class Errand:
    """A function that the main thread is to call; an errand lives as long as the process."""

    def __init__(self, function: Callable[[], None]) -> None:
        self._function = function
        self._queued = False
        _errands.append(self)

    def ask(self) -> None:
        """Have it called, once, when the main thread next runs Python; from any thread.

        Raises:
            AttributeError: this Python has no pending calls.
        """
        if self._queued:
            return
        api = ctypes.pythonapi
        add, is_true = api.Py_AddPendingCall, ctypes.cast(api.PyObject_IsTrue, ctypes.c_void_p)
        self._queued = True
        if add(is_true, ctypes.c_void_p(id(self))):  # CPython's queue is full; the next time will do.
            self._queued = False

    def __bool__(self) -> bool:
        self._queued = False
        self._function()
        return False


_errands: list[Errand] = []


def on_main_thread() -> bool:
    """Whether the calling thread is the main one."""
    return threading.get_ident() == threading.main_thread().ident
