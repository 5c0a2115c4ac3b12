"""``paceline up --detach``: starts the stack in a session of its own, and waits until it is ready or has ended.

Rule of this file: whoever types it waits for an answer, never longer than ``READY_S``; what the stack says meanwhile
is shown, and kept in its log.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from paceline.commands import stack_state
from paceline.commands.stack_state import Machine, Stack
from paceline.commands.stack_status import END_S, shown, waits
from paceline.patience import patient
from paceline.terminal import Progress, say

#: How long a stack may take until it is ready.
READY_S = 120.0
#: What is shown of its log where it ends at once.
_TAIL_BYTES, _TAIL_LINES = 8192, 20


def start(argv: list[str], folder: Path, environ: Mapping[str, str], command_for: Callable[[str], str]) -> int:
    """Start ``paceline up`` with ``argv``, its logs in ``folder``; 0 once it is ready, 1 where it does not get so.

    ``command_for`` is what to type next, by the broker's address.
    """
    log, place = folder / "up.log", stack_state.folder(environ)
    command = [sys.executable, "-P", "-m", "paceline", "up", *argv, "--logs", str(folder), "--in-background"]
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - our own program
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, env=dict(environ)
        )
    try:
        return _await(process, log, place, patient(READY_S, environ), command_for)
    except KeyboardInterrupt:
        _end(process)
        raise


def _await(
    process: "subprocess.Popen[bytes]", log: Path, place: Path, patience_s: float, command_for: Callable[[str], str]
) -> int:
    began_s, progress, stack = time.monotonic(), Progress(quiet_s=5.0), None
    while (waited_s := time.monotonic() - began_s) < patience_s:
        if (status := process.poll()) is not None:
            progress.end()
            say(_last(log) or f"paceline up ended with status {status}; its log is {log}")
            return status or 1
        stack = _of(process.pid, place) or stack
        if stack is not None and stack.ready:
            progress.end()
            say(f"ready after {waited_s:.0f} s: {shown(stack.addresses)}")
            say(f"logs in {stack.logs}; `paceline status` says how it is, `paceline down` ends it")
            say(f"now: {command_for(stack.addresses['broker'])}")
            return 0
        progress.tell(f"waiting for the stack, {waited_s:.0f} s")
        time.sleep(0.2)
    progress.end()
    waiting = waits(stack.addresses) if stack else {"paceline up": "it has started no service"}
    causes = "; ".join(f"{name}: {cause}" for name, cause in waiting.items()) or "see its log"
    say(f"not ready after {patience_s:.0f} s ({causes}); it runs on: `paceline status`, `paceline down`; log: {log}")
    return 1


def _of(pid: int, place: Path) -> Stack | None:
    return next((stack for stack in stack_state.running(place, Machine()) if stack.process.pid == pid), None)


def _last(log: Path) -> str:
    """The last lines of ``log``, as its writer said them."""
    with log.open("rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
        lines = file.read().decode(errors="replace").splitlines()[-_TAIL_LINES:]
    return "\n".join(line.removeprefix("paceline: ") for line in lines)


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
