"""Where a machine gives little, the command runs as it would have run without us: real processes, real surroundings."""

import os
import subprocess
import sys
from pathlib import Path
from shutil import which

import pytest

from paceline import columns, topics, wire
from paceline.events import StepTimings
from paceline.recording import Line, read

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
RANK = Path(__file__).parents[1] / "training" / "rank.py"
RAN = [sys.executable, "-c", "import os; os.write(1, b'ran\\n'); raise SystemExit(7)"]
#: What a shell puts before a command, and whether that command's standard output can be read.
SITUATIONS = {
    "closed standard input": "exec {} 0<&-",
    "closed standard error": "exec {} 2>&-",
    "closed standard input and error": "exec {} 0<&- 2>&-",
    "no file may grow": "ulimit -f 0; exec {}",
    "6 descriptors": "ulimit -n 6; exec {}",
    "9 descriptors": "ulimit -n 9; exec {}",
    "12 descriptors": "ulimit -n 12; exec {}",
    "little address space": "ulimit -v 60000; exec {}",
    "64 MB of address space left": "ulimit -v 95000; exec {}",
    "no HOME": "unset HOME; exec {}",
    "no surroundings": "exec env -i PACELINE_BROKERS=none {}",
    "TMPDIR absent": "TMPDIR=/none/of/these exec {}",
    "TMPDIR a file": "TMPDIR=/dev/null exec {}",
    "a working folder that has gone": 'mkdir gone && cd gone && rmdir "$PWD" && exec {}',
}
#: ... in a namespace of mounts, which only root may make.
MOUNTS = {
    "a full /tmp": "mount -t tmpfs -o size=4k none /tmp; head -c 99999 /dev/zero >/tmp/f; unset TMPDIR; exec {}",
    "no room for a folder in /tmp": "mount -t tmpfs -o nr_inodes=1 none /tmp; unset TMPDIR; cd /; exec {}",
    "a read-only root": "for one in /tmp /var/tmp /dev/shm; do mount -t tmpfs -o ro none $one; done; "
    "mount --bind / /; mount -o remount,ro,bind /; unset TMPDIR XDG_RUNTIME_DIR; cd /; exec {}",
    "no /dev/shm": "mount -t tmpfs none /mnt; for one in null zero random urandom; do touch /mnt/$one; "
    "mount --bind /dev/$one /mnt/$one; done; mount --rbind /mnt /dev; exec {}",
}


def shell(
    words: str, *options: str, folder: Path, before: tuple[str, ...] = (), root: Path = ROOT
) -> "subprocess.CompletedProcess[str]":
    """The command where a shell has said ``words`` before; ``root``: where it sees this checkout."""
    ours = [sys.executable, "-m", "paceline", "run", *options, "--", *RAN]
    return subprocess.run(
        [*before, "sh", "-c", words.format('"$@"'), "sh", *(word.replace(str(ROOT), str(root)) for word in ours)],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder), "PYTHONPATH": str(root)},
    )


def check(done: "subprocess.CompletedProcess[str]") -> None:
    """The command's own words and status; what is missing is said, and no traceback."""
    assert (done.returncode, done.stdout) == (7, "ran\n"), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("panel", [(), ("--no-panel",)], ids=["panel", "no panel"])
@pytest.mark.parametrize("situation", SITUATIONS)
def test_the_command_runs(tmp_path: Path, situation: str, panel: tuple[str, ...]) -> None:
    """With the status of its own, where anything at all is missing."""
    check(shell(SITUATIONS[situation], *panel, folder=tmp_path))
    assert list(tmp_path.glob("paceline-*")) == []


@pytest.mark.parametrize("situation", MOUNTS)
def test_the_command_runs_whatever_is_mounted(tmp_path: Path, situation: str) -> None:
    """One line where there is no place for a folder of ours, none where another place takes it."""
    apart = ("unshare", "-m")
    if subprocess.run([*apart, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False).returncode:
        pytest.skip(f"{situation}: needs root, and a kernel that lets it mount")
    words, root = MOUNTS[situation], ROOT
    if ROOT.is_relative_to("/tmp") and "/tmp" in words:  # ... which would be hidden, and is seen at another place.
        words, root = f"mount --bind {ROOT} /mnt; {words}", Path("/mnt")
    done = shell(words, "--no-panel", folder=tmp_path, before=apart, root=root)
    check(done)
    said = [line for line in done.stderr.splitlines() if line.startswith("paceline")]
    assert len(said) == (situation == "a read-only root")
    assert all("Read-only file system" in line and "runs without Paceline" in line for line in said)


@pytest.mark.parametrize(("closed", "open_ones"), [("0<&- 1>&- 2>&-", ""), ("1>&-", "02"), ("2>&-", "01")])
def test_the_command_finds_standard_streams_as_closed_as_they_were(tmp_path: Path, closed: str, open_ones: str) -> None:
    """Nothing of ours has taken their place."""
    code = """
import os
def is_open(number):
    try:
        return os.fstat(number) is not None
    except OSError:
        return False
found = [str(number) for number in range(3) if is_open(number)]
open("found", "w").write("".join(found))
raise SystemExit(7)"""
    ours = [sys.executable, "-m", "paceline", "run", "--no-panel", "--", sys.executable, "-c", code]
    done = subprocess.run(["sh", "-c", f'exec "$@" {closed}', "sh", *ours], cwd=tmp_path, check=False)
    assert (done.returncode, (tmp_path / "found").read_text()) == (7, open_ones)


def test_a_uid_without_a_name(tmp_path: Path) -> None:
    """As containers have it; with no home either."""
    tmp_path.chmod(0o777)
    nobody = ["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups"]
    nobody += ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]  # Our environment may be root's alone.
    if which("setpriv") is None or subprocess.run([*nobody, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs setpriv, and root to become another user")
    done = shell("unset HOME; exec {}", folder=tmp_path, before=tuple(nobody))
    check(done)
    assert "runs without" not in done.stderr


def test_a_long_path_takes_no_timing_away(tmp_path: Path) -> None:
    """A socket's address has room for 107 bytes; the folder of TMPDIR has more than 200 here."""
    folder, recording = tmp_path / ("d" * 200), tmp_path / "run.jsonl"
    folder.mkdir()
    ours = [sys.executable, "-m", "paceline", "run", "--no-panel"]
    done = subprocess.run(
        [*ours, "--record", str(recording), "--", sys.executable, str(RANK), "0", "30", "7"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TMPDIR": str(folder)},
    )
    assert (done.returncode, done.stderr) == (7, "")
    events = [
        wire.decode(topics.resolve(line.topic), line.value) for line in read(str(recording)) if isinstance(line, Line)
    ]
    steps = [step for event in events if isinstance(event, StepTimings) for step in columns.numbers(event.step)]
    assert steps == list(range(30))


#: Breaks the step of that number of `paceline run` in a process of its own; without a number, prints how many.
BREAK = """
import sys
from paceline.__main__ import main
from tests.breaking import broken, steps
import paceline.commands.run  # The net itself.
words = ["run", "--no-panel", "--", *sys.argv[2:]]
if sys.argv[1] == "count":
    places = {}
    for step in steps(lambda: main(words), lambda path: path != "__main__.py"):
        if step.place.startswith("commands/") or not step.place.endswith("<module>"):
            places.setdefault(step.place, step)
    print(*map(repr, map(tuple, places.values())), sep="\\n")
else:
    from tests.breaking import Step
    ended = []
    broken(lambda: ended.append(main(words)), Step(*eval(sys.argv[1])), MemoryError())
    sys.exit(ended[0])
"""


def test_every_step_breaks_in_a_real_process(tmp_path: Path) -> None:
    """The first call of each function of ours; what has been started by then is ended."""
    root = str(Path(__file__).parents[3])

    def run(what: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-c", BREAK, what, *RAN],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": root},
        )

    # What the command itself prints comes first.
    every = [line for line in run("count").stdout.splitlines() if line.startswith("(")]
    assert len(every) > 20
    for step in every:
        done = run(step)
        assert (done.returncode, done.stdout) == (7, "ran\n"), (step, done.stderr)
        assert "Traceback" not in done.stderr, step
        assert list(tmp_path.glob("paceline-*")) == [], step
