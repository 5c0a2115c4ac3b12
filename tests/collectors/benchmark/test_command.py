"""The command as people type it, with real disks, matrices and ranks; small and short."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from collectors.benchmark import __main__ as program
from collectors.benchmark import disk
from collectors.benchmark.__main__ import main
from paceline import nodes_file, rated

MODULE = [sys.executable, "-m", "paceline", "benchmark"]
QUICK = ["--seconds", "2"]


@pytest.fixture
def environ(tmp_path):
    return {**os.environ, "PACELINE_RATED_FILE": str(tmp_path / "rated.json"), "PACELINE_NODE": "node-a"}


def run(environ, folder, *words, command=MODULE):
    return subprocess.run([*command, *words], env=environ, cwd=folder, capture_output=True, text=True)


def marked(environ):
    """The processes that were started with this environment's file."""
    wanted, found = f"PACELINE_RATED_FILE={environ['PACELINE_RATED_FILE']}".encode(), []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


@pytest.mark.parametrize(
    "words", [["--only", "gem"], ["--only", ""], ["--seconds", "0"], ["--device", "tpu"], ["--ranks", "1"]]
)
def test_a_wrong_option_is_one_line(words, capsys):
    """It names the value and what is allowed; exit status 2."""
    with pytest.raises(SystemExit) as ended:
        main(words)

    assert ended.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_file_that_is_not_there_is_not_shown(tmp_path, capsys):
    """The path and the reason, in one line."""
    assert main(["--show", str(tmp_path / "nodes.yaml")]) == 2
    assert "nodes.yaml: No such file" in capsys.readouterr().err


@pytest.mark.xdist_group("pytorch")
@pytest.mark.e2e
def test_a_node_is_rated_and_shown(tmp_path, environ):
    """Everything at once: ratings with intervals, reasons for the rest, both files, and the table."""
    done = run(environ, tmp_path, *QUICK, "--json", "--nodes", "nodes.yaml", "--output", "{node}.json")
    told = json.loads(done.stdout)
    names = {one["name"] for one in told["speeds"]}

    assert done.returncode in (0, 3), done.stderr
    assert (done.returncode == 3) == told["busy"]
    first, *_, last = done.stderr.splitlines()
    assert first.startswith("paceline benchmark: measures gemm, memory, pcie, disk, all_reduce: about 2 s")
    assert last == f"paceline benchmark: written: {tmp_path}/rated.json, nodes.yaml, node-a.json"
    slow = {one["name"] for one in told["not_measured"] if "more --seconds" in one["why"]}  # A machine with more to do.
    wanted = {"gemm_float32", "gemm_bfloat16", "memory_copy", "memory_triad", "all_reduce"}
    assert wanted <= names | slow
    assert names
    assert ("all_reduce" in names) == ("all_reduce_bus" in names)
    assert all(0 < one["low"] <= one["value"] <= one["high"] for one in told["speeds"])
    assert all(one["why"] for one in told["not_measured"])
    assert json.loads((tmp_path / "node-a.json").read_text()) == told
    kept = rated.read(tmp_path / "rated.json")
    assert (kept.node, {speed.name for speed in kept.speeds}) == ("node-a", names)
    assert nodes_file.read(tmp_path / "nodes.yaml")["node-a"].speeds == kept.speeds
    assert "the only one" in run(environ, tmp_path, "--show").stdout
    left = {".nodes.yaml.lock", "nodes.yaml", "node-a.json", "rated.json"}
    assert {each for each in os.listdir(tmp_path) if not each.startswith("home")} == left


@pytest.mark.xdist_group("pytorch")
@pytest.mark.e2e
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_end_before_time_leaves_nothing(tmp_path, environ, until, number):
    """Ctrl-C in the all-reduce, when ranks run: no process, no file, and the status that shells give."""
    words = [*MODULE, "--only", "disk,all_reduce", "--seconds", "600"]
    with subprocess.Popen(words, env=environ, cwd=tmp_path, stderr=subprocess.PIPE) as process:
        until(lambda: len(marked(environ)) >= 2)
        process.send_signal(number)
        said = process.stderr.read().decode()

    assert process.returncode == 128 + number
    assert "nothing was written" in said
    assert marked(environ) == []
    assert os.listdir(tmp_path) == []


@pytest.mark.xdist_group("pytorch")
@pytest.mark.e2e
def test_a_rank_that_dies_costs_the_sweep_and_no_more(tmp_path, environ, until):
    """The others are ended, it is named, the rest is kept; exit status 1."""
    words = [*MODULE, "--only", "memory,all_reduce", "--seconds", "24", "--json"]
    with subprocess.Popen(words, env=environ, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        ranks = until(lambda: [pid for pid in marked(environ) if b"benchmark.rank" in cmdline(pid)][1:])
        os.kill(ranks[0], signal.SIGKILL)
        told = json.loads(process.stdout.read())
        process.stderr.read()

    assert process.returncode == 1
    assert "killed by SIGKILL" in next(one["why"] for one in told["not_measured"] if one["failed"])
    slow = {one["name"] for one in told["not_measured"] if "more --seconds" in one["why"]}  # A machine with more to do.
    assert {"memory_copy", "memory_triad"} <= {one["name"] for one in told["speeds"]} | slow
    assert marked(environ) == []


def cmdline(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.xdist_group("pytorch")
@pytest.mark.e2e
def test_the_ranks_of_a_launcher_are_measured(tmp_path, environ):
    """One of them speaks for the node; what a busy machine's status means to a launcher is no failure of a rank."""
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    words = ["-m", "paceline", "benchmark", "--only", "all_reduce", *QUICK, "--json"]
    done = run(environ, tmp_path, *words, command=launcher)
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("{")]

    assert done.returncode == 0, done.stderr
    assert "exit status 3" not in done.stderr
    assert {one["ranks"] for one in json.loads(line)["speeds"]} == {2}


@pytest.mark.landing
@pytest.mark.e2e
def test_without_pytorch_a_disk_is_measured(tmp_path, environ):
    """As in the collector's image; for the rest it says what to install."""
    hidden = "import sys; sys.modules['torch'] = None; from collectors.benchmark.__main__ import main; sys.exit(main())"
    done = run(environ, tmp_path, *QUICK, "--json", command=[sys.executable, "-c", hidden])
    told = json.loads(done.stdout)

    assert {one["name"] for one in told["speeds"]} <= {"disk_write", "disk_read"}
    assert {one["name"] for one in told["not_measured"]} >= {"gemm", "memory", "pcie", "all_reduce"}
    assert all("install it here" in one["why"] for one in told["not_measured"] if one["name"] != "disk")


def test_an_end_while_results_are_written_names_those_that_are(tmp_path, monkeypatch, capsys):
    """A shared file may be locked for long: the node's own ratings are there by then, and Ctrl-C does not deny it."""

    def locked(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(program, "LOOK_S", 0.0)
    monkeypatch.setattr(program, "_torch", lambda: None)
    monkeypatch.setattr(disk, "measure", lambda *_: [("disk_write", [1e9] * 6, "ext4")])
    monkeypatch.setattr(nodes_file, "put", locked)
    monkeypatch.setenv("PACELINE_RATED_FILE", str(tmp_path / "rated.json"))

    assert main(["--only", "disk", "--nodes", str(tmp_path / "nodes.yaml")]) == 130
    assert f"ended before time; written: {tmp_path}/rated.json\n" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["rated.json"]
