"""The collector under what its unit of systemd leaves it, as far as that goes without systemd as the first process.

Rule of this file: what is set here is read from the unit: its user has no rights, nothing can be written but its spool,
and capabilities are the unit's or those of the drop-in. Filters of system calls and devices are systemd's alone.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from paceline import topics

from ..processes import ROOT

UNITS = ROOT / "deploy" / "systemd"
#: Whoever this is on the machine: nobody's processes are root's.
NOBODY = "65534"
#: Nothing below the root can be written but the folder $1, in namespaces of its own.
_READ_ONLY = 'mount --bind "$1" "$1" && mount -o remount,ro,bind / && shift && exec "$@"'
_WHOSE = """
import sys
from collectors.processes import ProcessOwners
print(ProcessOwners().of(int(sys.argv[1]), ("/dev/null",), str).job)
"""


def capabilities(drop_in: bool) -> str:
    """The unit's capabilities, as ``setpriv`` wants them.

    >>> capabilities(False), capabilities(True)
    ('-all', '-all,+sys_ptrace,+dac_read_search')
    """
    unit = "attribution.conf" if drop_in else "paceline-collect.service"
    (names,) = re.findall(r"^CapabilityBoundingSet=(.*)$", (UNITS / unit).read_text(), re.M)
    return ",".join(["-all", *(f"+{name.removeprefix('CAP_').lower()}" for name in names.split())])


def restricted(state: Path, drop_in: bool, *command: str) -> subprocess.CompletedProcess[str]:
    """Run ``command`` as systemd would run the collector."""
    granted = capabilities(drop_in)
    user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs"]
    user += [f"--bounding-set={granted}", f"--inh-caps={granted}", f"--ambient-caps={granted}"]
    spaces = ["unshare", "--mount", "--ipc", "--uts", "--propagation", "private"]
    words = [*spaces, "sh", "-c", _READ_ONLY, "sh", str(state), *user, *command]
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": str(state), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(words, env=environ, capture_output=True, text=True, timeout=60, check=False)


def run(require: Callable[[object, str], None]) -> None:
    """What it still measures, and whose jobs it can tell."""
    with tempfile.TemporaryDirectory(prefix="paceline-collect-") as folder:
        state = Path(folder)
        os.chown(state, int(NOBODY), int(NOBODY))
        collect = [sys.executable, "-P", "-m", "collectors", "--stdout", "--once", "--spool", folder]
        done = restricted(state, False, *collect)
        measured = [column for column in _samples(done.stdout) if column and None not in column]
        words = f"collector: under its unit it measures {len(measured)} columns of the host"
        require(len(measured) > 10, f"{words} {done.stderr[-200:] if done.returncode else ''}")
        written = restricted(state, False, "touch", "/var/tmp/paceline-touched")
        require(written.returncode != 0, "collector: it writes nowhere but into its spool")
        environ = {**os.environ, "PACELINE_JOB": "somebody-elses"}
        with subprocess.Popen(["sleep", "60"], env=environ, stdin=subprocess.DEVNULL) as other:
            for drop_in, expected in ((False, "None"), (True, "somebody-elses")):
                told = restricted(state, drop_in, sys.executable, "-c", _WHOSE, str(other.pid))
                said = told.stdout.strip()
                granted = capabilities(drop_in)
                words = f"with {granted} the job of root's process is {said}"
                require(said == expected, f"collector: {words} {told.stderr[-200:]}")
            other.kill()


def _samples(said: str) -> list[list[object]]:
    """The columns of the host's samples in a recording."""
    messages = [json.loads(line) for line in said.splitlines()]
    values = [message["value"] for message in messages if message["topic"] == topics.HOST.name]
    return [column for value in values for column in value.values() if isinstance(column, list)]
