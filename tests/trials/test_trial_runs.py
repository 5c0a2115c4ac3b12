"""Whole trials with real torchrun: ended at any moment nothing is left of them, and they go on where they were."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from trials import leftovers
from trials.journal import NAME
from trials.local import LocalExecutor

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("pytorch")]
SCRIPT = Path(__file__).parent / "scripts" / "steps.py"
TRAIN = ["torchrun", "--standalone", "--nproc-per-node={ranks}", str(SCRIPT), "--mood={mood}"]


class Trial:
    """A trial in a folder, started as a person would."""

    def __init__(self, folder: Path, moods: str, more: str) -> None:
        self.folder, self.spec = folder / "state", folder / "trial.yaml"
        self.spec.write_text(
            f"name: moods\nwarm_up: 3\nrungs: 1\nrepeats: 1\nstart_s: 200\n{more}\n"
            f"placements: {{ranks: 2, arguments: {{mood: {moods}}}}}\n"
        )
        self.stepping, self.hold, self.children = folder / "stepping", folder / "hold", folder / "children"
        self.environ = {**os.environ, "STEPPING": str(self.stepping), "HOLD": str(self.hold)}
        self.environ["CHILDREN"] = str(self.children)
        self.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.said = folder / "said"

    def start(self, *words: str, train: Sequence[str] = TRAIN) -> "subprocess.Popen[bytes]":
        self.stepping.unlink(missing_ok=True)
        command = [sys.executable, "-m", "paceline", "trial", str(self.spec), "--folder", str(self.folder), *words]
        with self.said.open("wb") as said:
            return subprocess.Popen([*command, "--", *train], env=self.environ, cwd=self.folder.parent, stderr=said)

    def marked(self, word: str = "") -> list[int]:
        """Processes of the trial's jobs, whose command line has that word."""
        return [pid for pid in leftovers.marked(self.mark) if word.encode() in _command(pid)]

    @property
    def mark(self) -> str:
        return LocalExecutor({"folder": str(self.folder)})._mark

    def alive(self) -> list[int]:
        """The children with sessions of their own that are still there."""
        started = self.children.read_text().split() if self.children.exists() else []
        return [int(pid) for pid in started if b"3600" in _command(int(pid))]

    def runs(self) -> list[dict[str, object]]:
        path = self.folder / NAME
        lines = path.read_bytes().splitlines()[1:] if path.exists() else []
        return [json.loads(line) for line in lines]


def _command(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


@pytest.fixture
def trial(tmp_path, request):
    made: list[Trial] = []

    def make(moods: str, more: str) -> Trial:
        made.append(Trial(tmp_path, moods, more))
        return made[-1]

    yield make
    for one in made:
        leftovers.end(one.mark)


def ended(trial: Trial, process: "subprocess.Popen[bytes]", number: int) -> None:
    """The trial is asked to end by a signal: it says how to go on, and nothing is left of it."""
    process.send_signal(number)
    assert process.wait() == 130
    said = trial.said.read_text()
    assert "the same command goes on where it was" in said
    assert (trial.marked(), trial.alive()) == ([], [])


def test_ended_at_any_moment_it_goes_on_to_its_winner(trial, until):
    """Before the first step, while it measures, while it analyses, and by SIGKILL."""
    mine = trial("[slow, fast]", "seconds: 2\nhang_s: 200")

    process = mine.start("--run")
    until(lambda: mine.marked("steps.py"))
    ended(mine, process, signal.SIGINT)
    assert mine.runs() == []

    mine.hold.touch()
    process = mine.start("--run")
    until(mine.stepping.exists)
    ended(mine, process, signal.SIGTERM)
    assert mine.runs() == []
    mine.hold.unlink()

    process = mine.start("--run")
    until(lambda: mine.marked("analyze"))
    ended(mine, process, signal.SIGHUP)

    process = mine.start("--run")
    until(lambda: mine.runs() and mine.marked("steps.py") and mine.alive())
    process.kill()
    process.wait()
    assert len(mine.runs()) == 1

    process = mine.start("--run", "--json")
    until(lambda: process.poll() is not None)
    assert (mine.marked(), mine.alive(), process.returncode) == ([], [], 0)
    assert "goes on after 1 run" in mine.said.read_text()
    found = json.loads((mine.folder / "result.json").read_text())
    told = {row["placement"]: row for row in found["placements"]}
    assert (found["complete"], found["unit"]) == (True, "samples/s")
    assert told["mood=fast"]["number"] == found["winners"][0]
    assert told["mood=fast"]["rate"]["value"] > told["mood=slow"]["rate"]["value"]
    assert found["command"].endswith("--nproc-per-node=2 " + f"{SCRIPT} --mood=fast")
    assert "# Trial moods" in (mine.folder / "report.md").read_text()


@pytest.mark.landing
def test_a_command_that_fails_at_once_is_tried_twice_and_told(trial, until):
    """The program from spec to table, without a launcher: its last words, both tries, and nothing left."""
    mine = trial("[bad]", "seconds: 2")
    failing = [sys.executable, "-c", "import sys; sys.exit('KeyError: ' + sys.argv[1])", "{mood}", "{ranks}"]

    process = mine.start("--run", train=failing)
    until(lambda: process.poll() is not None)

    assert (mine.marked(), process.returncode) == ([], 1), mine.said.read_text()
    (row,) = json.loads((mine.folder / "result.json").read_text())["placements"]
    assert (row["out"], [one["said"][-1] for one in row["failures"]]) == ("crashed", ["KeyError: bad"] * 2)


def test_what_crashes_or_hangs_is_tried_twice_and_told(trial, until):
    """Each with its last lines; and nothing is left of what hung."""
    mine = trial("[crash, hang]", "seconds: 300\nhang_s: 6")

    process = mine.start("--run")
    until(lambda: process.poll() is not None)

    assert (mine.marked(), mine.alive(), process.returncode) == ([], [], 1)
    found = json.loads((mine.folder / "result.json").read_text())
    told = {row["placement"]: row for row in found["placements"]}
    assert {name: row["out"] for name, row in told.items()} == {
        "mood=crash": "crashed",
        "mood=hang": "hung",
    }
    assert {len(row["failures"]) for row in told.values()} == {2}
    assert "(hang_s)" in told["mood=hang"]["failures"][0]["reason"]
    assert "no such mood" in told["mood=crash"]["failures"][0]["said"][-1]
    assert not any("SignalException" in line for line in told["mood=hang"]["failures"][0]["said"])
    assert (found["winners"], found["command"]) == ([], None)
    assert "tried once more" in mine.said.read_text()
