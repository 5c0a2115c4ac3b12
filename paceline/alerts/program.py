"""A door: a program that gets a message on its standard input.

Rule of this file: no shell; what comes from outside is on standard input alone, never an argument. The program gets
none of our secrets, may take ``TIMEOUT_S``, and is ended then with all that it started in its session.
"""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence

from paceline.settings import SETTINGS

from .outcome import NotDeliveredError

TIMEOUT_S = 30.0


def run(command: Sequence[str], body: bytes, environ: Mapping[str, str]) -> None:
    """Run ``command`` with ``body`` on its standard input; what it prints on standard error goes to ours.

    Raises:
        NotDeliveredError: it cannot be started, hangs, or ends with a status other than 0.
    """
    secrets = {setting.name for setting in SETTINGS if setting.secret}
    kept = {name: value for name, value in environ.items() if name not in secrets}
    try:
        process = subprocess.Popen(  # noqa: S603 - the operator's own command, run as it is
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=kept, start_new_session=True
        )
    except OSError as error:
        raise NotDeliveredError(f"cannot be started: {error.strerror}") from None
    with process:
        try:
            process.communicate(body, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            raise NotDeliveredError(f"did not end within {TIMEOUT_S:g} s", reached=True) from None
    if process.returncode:
        raise NotDeliveredError(f"ended with status {process.returncode}", reached=True)
