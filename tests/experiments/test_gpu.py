"""The GPU suite without a GPU: its runner, its comparisons and its pages, and the cases' forms for a processor."""

import doctest
import importlib
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from experiments.gpu import bundle, driver, report, runner
from experiments.gpu.case import BROKEN, HOLDS, NOT_RUN, Case, Reading
from experiments.gpu.compared import differences
from experiments.gpu.recorded import Row
from experiments.gpu.table import CASES, TWO_RANKS

#: The table of cases imports PyTorch, which takes seconds of a processor.
pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "gpu.md").read_text(encoding="utf-8")
FACTS = {
    "date": "2026-11-22",
    "device": "a GPU",
    "torch": "2.15",
    "cuda": "13.2",
    "nccl": "2.30",
    "cores": 2,
    "processor": "x",
}
#: Runs made-up cases as the suite runs its own; each is a name and what its process does.
RUNNER = """
import json, sys
from pathlib import Path
from experiments.gpu import runner
from experiments.gpu.case import Case
wanted, folder, total_s = json.loads(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])
cases = [Case(name, 5 if name == "hangs" else 300, "", "", None, name != "cuda") for name in wanted]
def command(case, device, folder, backend):
    return [*(["sh"] if case.name == "hangs" else [sys.executable]), "-c", wanted[case.name], str(folder), backend]
runner.ON_CPU = 1
found = runner.run(cases, sys.argv[4], folder, lambda outcome: None, total_s, command)
print(json.dumps({each.case.name: [each.reading.outcome, each.reading.words] for each in found}))
"""
#: A process that leaves its reading and says by whom its backend is.
READS = """
import json, sys
open(sys.argv[1] + "/reading.json", "w").write(json.dumps({"words": sys.argv[2], "holds": True}))
"""
#: One for a shell, which is there at once: a Python may take longer to start than a case that hangs is given here.
HANGS = 'setsid sleep 600 & echo $! > "$0/child"; sleep 600'


def run(tmp_path, cases, total_s=900, device="cpu"):
    command = [sys.executable, "-c", RUNNER, json.dumps(cases), str(tmp_path), str(total_s), device]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return json.loads(done.stdout)


@pytest.mark.slow
def test_a_case_that_aborts_loses_itself_alone(tmp_path):
    """Its status is told, and the next case is run."""
    found = run(tmp_path, {"aborts": "import os; os.abort()", "reads": READS})
    assert found == {"aborts": [BROKEN, "ended with status -6"], "reads": [HOLDS, "gloo"]}


@pytest.mark.slow
def test_a_case_that_hangs_is_ended_with_all_it_started(tmp_path):
    """A child in a session of its own ends, too."""
    found = run(tmp_path, {"hangs": HANGS, "reads": READS})
    assert found == {"hangs": [BROKEN, "ended after 5 s"], "reads": [HOLDS, "gloo"]}
    assert not Path("/proc", (tmp_path / "hangs" / "child").read_text()).exists()


@pytest.mark.slow
def test_what_cannot_be_run_is_told_as_such(tmp_path):
    """A case that needs CUDA, and one that the time does not suffice for."""
    assert run(tmp_path / "a", {"cuda": READS}) == {"cuda": [NOT_RUN, "needs CUDA"]}
    assert run(tmp_path / "b", {"reads": READS}, total_s=0.5) == {"reads": [NOT_RUN, "the 0 s were over"]}


@pytest.mark.slow
def test_two_ranks_talk_through_nccl_where_it_lets_them(tmp_path):
    """The cases after that one are told what it found."""
    assert run(tmp_path, {TWO_RANKS: READS, "after": READS}, device="cuda")["after"] == [HOLDS, "nccl"]


def test_every_case_is_explained():
    """The page has a row a case, with what is predicted, and no row more."""
    rows = [line.split(" | ") for line in PAGE.splitlines() if line.startswith("| `")]
    told = {row[0].strip("| `"): (row[1], row[2], row[3].rstrip(" |")) for row in rows}
    assert told == {case.name: (case.proves, case.predicted, "yes" if case.on_cpu else "needs CUDA") for case in CASES}


def test_the_table_of_a_run_has_every_case():
    """A bar in a reading breaks no column."""
    case = Case("a", 1.0, "20 ms", "", lambda bench: Reading("", True))
    outcomes = [runner.Outcome(case, Reading("20 | 21 ms", True), 1.0), runner.Outcome(case, Reading("x", None), 1.0)]
    page = report.page(report.found(FACTS, "cuda", outcomes, 61.0))
    assert "a GPU, PyTorch 2.15, CUDA 13.2, NCCL 2.30, 2 cores of x; 61 s: 1 hold" in page
    assert page.splitlines()[-2:] == ["| a | 20 ms | 20 / 21 ms | holds |", "| a | 20 ms | x | not run |"]


def test_a_phase_is_measured_against_its_own_length():
    """A short one against a twentieth of its step, or a microsecond would count as much as the truth."""
    rows = [Row(0, step, 0.0, 1.0, {"forward": 0.5, "optimizer": 0.002}) for step in range(4)]
    truth = [{"step": 1.0, "forward": 0.4, "optimizer": 0.001}] * 4
    wanted = {"forward": ("forward",), "optimizer": ("optimizer",)}
    assert [round(each.error, 3) for each in differences(rows, truth, wanted, range(1, 4))] == [0.25, 0.02]


def columns(**told):
    return {field.column: told.get(field.column, [None]) for field in driver.FIELDS}


def answers(**values):
    return [[values.get(field.column, "[N/A]") for field in driver.FIELDS]]


def test_columns_are_compared_in_our_units():
    """A slip of a unit shows; what the card does not tell is not compared."""
    ours = columns(fb_used_bytes=[2 * 2**30], power_w=[300.0, None])
    assert driver.compare(ours, answers(fb_used_bytes="2048", power_w="310.5")) == ([], 2)
    assert driver.compare(ours, answers(fb_used_bytes="2", power_w="[N/A]")) == (
        ["fb_used_bytes 2.147e+09, nvidia-smi 2.097e+06"],
        1,
    )


def test_bits_that_were_ever_set_count():
    """A reason that comes and goes has no median."""
    ours = columns(throttle_reasons=[0, 4, 0, 32])
    theirs = [*answers(throttle_reasons="0x0000000000000004"), *answers(throttle_reasons="0x0000000000000020")]
    assert driver.compare(ours, theirs) == ([], 1)
    assert driver.compare(ours, theirs[:1]) == (["throttle_reasons 36, nvidia-smi 4"], 1)


def test_the_bundle_brings_what_fits_this_python(tmp_path, monkeypatch):
    """Wheels for other Pythons may lie beside."""
    this, (wheels, folder) = f"cp{sys.version_info[0]}{sys.version_info[1]}", (tmp_path / "a", tmp_path / "b")
    wheels.mkdir()
    for tag, module in ((f"{this}-{this}", "carried_here"), ("cp39-cp39", "carried_elsewhere")):
        with zipfile.ZipFile(wheels / f"x-1-{tag}-manylinux_2_28_x86_64.whl", "w") as wheel:
            wheel.writestr(f"{module}.py", "")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "before")
    bundle.unpack(wheels, folder)
    assert [path.name for path in folder.iterdir()] == ["carried_here.py"]
    assert sys.path[-1] == str(folder)
    assert bundle.os.environ["PYTHONPATH"] == f"before:{folder}"


@pytest.mark.parametrize("name", ["bundle", "case", "compared", "nvidia", "report"])
def test_examples_are_right(name):
    found = doctest.testmod(importlib.import_module(f"experiments.gpu.{name}"))
    assert found.attempted > 0
    assert found.failed == 0


def suite(*words):
    command = [sys.executable, "-m", "experiments.gpu", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


#: Cases of every family that trains, and whether the reading is no matter of speed; ARGS=--cpu runs the others, too.
ON_CPU = {
    "workers": True,
    "in-backward": True,
    "ddp-legacy": False,
    "fsdp2": False,
    "1f1b": False,
    "async-save": False,
    "marks": False,
    "phases": False,
    "kineto": False,
}


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What the suite reads here, by case."""
    kept = tmp_path_factory.mktemp("gpu")
    done = suite("--cpu", "--seconds=1500", f"--folder={kept}", f"--json={kept}.json", "--only", *ON_CPU)
    assert done.returncode in (0, 1), done.stderr
    return {row["case"]: row for row in json.loads(Path(f"{kept}.json").read_text())["cases"]}


@pytest.mark.e2e
@pytest.mark.parametrize("name", ON_CPU)
def test_a_case_runs_on_a_processor(told, name):
    """It reads what it wants to; that is as predicted where no busy neighbour can change it."""
    row = told[name]
    assert row["outcome"] != BROKEN, row["read"]
    assert row["outcome"] == HOLDS or not ON_CPU[name], row["read"]


@pytest.mark.e2e
def test_without_a_gpu_it_says_so():
    """One line and status 2, and nothing is run."""
    done = suite()
    if "no GPU" not in done.stderr:
        pytest.fail("there is a GPU here: run `make test-gpu`")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""
