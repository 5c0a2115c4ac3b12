"""``paceline analyze`` as people run it: on good, bad, empty and missing recordings."""

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
import zstandard

from paceline import recording, topics, wire
from paceline.events import Finding
from simulator.job import Job
from simulator.spec import Spec
from simulator.truth import as_json
from streams.analyze import main as analyze_main
from streams.processor import Processor

NSIGHT = b"Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n9,1,1,1,1,1,1,0,g\n"


class Done(NamedTuple):
    """What became of a run."""

    returncode: int
    stdout: bytes
    stderr: bytes


def process(*arguments):
    return subprocess.run([sys.executable, "-m", "streams.analyze", *arguments], capture_output=True)


@pytest.fixture
def analyze(capfdbinary, monkeypatch, tmp_path):
    """Runs it in this process; ``stdin`` is what its standard input holds."""

    def run(*arguments, stdin=b""):
        (tmp_path / "stdin").write_bytes(stdin)
        with open(tmp_path / "stdin") as file:
            monkeypatch.setattr(sys, "stdin", file)
            code = analyze_main(list(arguments))
        sys.stdout.flush()
        return Done(code, *capfdbinary.readouterr())

    return run


@pytest.fixture
def events(make_training):
    return make_training(slow=2, seconds=18, slow_from_s=6)


@pytest.fixture
def lines(events):
    return [recording.render(topics.OP.name, event.job, 0, wire.encode(event)) for event in events]


@pytest.fixture
def file(lines, tmp_path):
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"".join(lines))
    return str(path)


@pytest.mark.landing
@pytest.mark.slow
def test_json_is_every_finding_of_the_processor(file, events):
    """What it prints is what the same code says on the bus, and at the end of a job, one object a line."""
    done = process(file, "--json")
    processor = Processor()
    answers = [answer for event in events for answer in processor.update(topics.OP, event)]
    answers += processor.finish()
    said = [found for _, found in answers if isinstance(found, Finding)]
    assert done.returncode == 0
    assert done.stdout == b"".join(wire.encode(found) + b"\n" for found in said)
    assert said


@pytest.mark.slow
def test_bad_lines_are_named_and_the_rest_is_analyzed(analyze, lines):
    """Each bad line is reported with its number and reason; the findings are the same."""
    bad = [
        b"nonsense\n",
        b'{"topic": "no-such", "key": null, "timestamp_ms": 0, "value": {}}\n',
        b'{"topic": "op", "key": null, "timestamp_ms": 0, "value": {"job": 1}}\n',
    ]
    good = analyze("-", "--json", stdin=b"".join(lines))
    done = analyze("-", "--json", stdin=b"".join([*lines[:5], *bad, *lines[5:]]))
    assert (done.returncode, done.stdout) == (0, good.stdout)
    assert [line.split(b":")[1].strip() for line in done.stderr.splitlines()] == [b"line 6", b"line 7", b"line 8"]


@pytest.mark.long
def test_windows_are_printed_when_asked_for(analyze, file):
    """``--windows`` adds them to what is printed."""
    kinds = {json.loads(line)["window"] for line in analyze(file, "--windows").stdout.splitlines() if line[:1] == b"{"}
    assert kinds == {"rank", "job"}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", b"is empty"),
        (b"\n\n", b"is empty"),
        (b"nonsense\n", b"no line"),
        (recording.render("paceline.finding.v1", None, 0, b"{}"), b"no line"),
    ],
)
def test_nothing_to_judge_is_said_in_a_line(analyze, content, reason):
    """Exit status 2 and the reason."""
    done = analyze("-", stdin=content)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(b"paceline analyze: nothing to judge: ")
    assert reason in done.stderr


def test_of_a_run_it_says_that_no_step_was_seen(analyze):
    """Nobody who typed ``paceline run`` knows of an analyzer, and PyTorch may well have been imported."""
    done = analyze("-", "--panel", "--of-run")
    assert done.returncode == 2
    assert done.stderr.startswith(b"paceline run: nothing to judge: no training step was seen. ")
    assert b"is empty" in analyze("-", "--panel").stderr


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (
            "ops.csv",
            b"rank,step,op,duration\n0,1,forward,0.1\n",
            "a table of text; a table of ops is read by: paceline ",
        ),
        ("ops.csv.gz", gzip.compress(b"rank,step\n0,1\n", mtime=0), "paceline import timeline {} -o run.jsonl.zst"),
        ("x.parquet", b"PAR1\x15\x04\x15", "a Parquet file"),
        ("ops.jsonl", b'{"rank": 0, "step": 1, "op": "forward"}\n' * 3, "paceline import timeline {} -o"),
        ("truth.json", as_json(Job(Spec(ranks=2, steps=2)).truth()), "what `paceline simulate --truth` injected"),
        ("nccl.log", b"vm:12:12 [0] NCCL INFO Bootstrap : Using eth0\n", "paceline import nccl-log {} -o"),
        ("i.log", b'{"header": {"id": "0x7f"}, "coll_perf": {"coll_sn": 7}}\n', "paceline import nccl-inspector {} -o"),
        ("gpu.prom", b'# HELP DCGM_FI_DEV_GPU_UTIL x\nDCGM_FI_DEV_GPU_UTIL{gpu="0"} 3\n', "paceline import dcgm {} -o"),
        ("old.prom", b'dcgm_sm_clock{gpu="0",uuid="GPU-1"} 135\n', "paceline import dcgm {} -o"),
        ("x.json", b'{\n  "a": 1\n}\n', "one document of JSON"),
        ("y.json", b"[1, 2]\n", "other JSON"),
        ("i.prom", b'# TYPE nccl_bus_bandwidth_gbs gauge\nnccl_bus_bandwidth_gbs{rank="0"} 3\n', "sums, and no single"),
        ("i.prom.gz", gzip.compress(b'nccl_exec_time_us{rank="0"} 3\n', mtime=0), "NCCL_INSPECTOR_PROM_DUMP"),
        ("i.prom.zst", zstandard.compress(b"# HELP nccl_exec_time_us x\n"), "NCCL_INSPECTOR_PROM_DUMP"),
        ("node.prom", b"# HELP node_load1 1m load average.\nnode_load1 0.2\n", "only a dcgm-exporter's is read"),
        ("i.jsonl.zst", zstandard.compress(b'{"coll_perf": {"coll_sn": 7}}\n'), "paceline import nccl-inspector {} -o"),
        ("p2p.jsonl", b'{"header": {"id": "0x7f"}, "p2p_perf": {}}\n', "paceline import nccl-inspector {} -o"),
        ("gpu.prom.zst", zstandard.compress(b'DCGM_FI_DEV_GPU_UTIL{gpu="0"} 3\n'), "paceline import dcgm {} -o"),
        (
            "nccl.txt",
            "vm:12:12 [0] NCCL INFO Bootstrap : Using eth0\n".encode("utf-16"),
            "paceline import nccl-log {} -o",
        ),
        ("ops.csv.zst", zstandard.compress(b"rank,step\n0,1\n"), "paceline import timeline {} -o run.jsonl.zst"),
        ("report.sqlite", b"SQLite format 3\0", "a database of SQLite, as Nsight Systems exports"),
        ("report1.nsys-rep", b"\1\2\3\4NSYS\n", "a report of Nsight Systems"),
        ("k.ncu-rep", b"NVR\0\n", "a report of Nsight Compute"),
        ("nccl_trace_rank_0", b"\x80\x04\x95", "paceline why {}"),
        ("fr.json", b'{"version": "2.10", "pg_config": {}, "entries": []}\n', "paceline why {}"),
        ("job.log", b"[rank1]:[E1104 ProcessGroupNCCL.cpp:688] [Rank 1] Watchdog caught\n", "paceline why {}"),
        ("d.json", b'{"log": "Traceback (most recent call last):\\n", "stream": "stderr"}\n', "paceline why {}"),
        ("job.out", b"step 1\nTraceback (most recent call last):\n", "paceline why {}"),
        ("kern_sum.csv", NSIGHT, "neither ranks nor steps; record one with `paceline run`, or export"),
        ("kern_sum.csv.gz", gzip.compress(NSIGHT, mtime=0), "a summary of Nsight Systems: it has neither"),
        ("kern_sum.txt", NSIGHT.replace(b",", b"\t").decode().encode("utf-16"), "a summary of Nsight Systems: it"),
        ("stats.out", b"Processing [r 1.sqlite] with [/opt/kern_sum.py]... \n\n" + NSIGHT, "output of nsys stats"),
        ("stats.csv", b" ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):\n" + NSIGHT, "output of nsys stats"),
        ("ncu.csv", b'"ID","Process ID","Process Name","Host Name","Kernel Name"\n', "a table of Nsight Compute: it"),
        ("ops.csv", b"Processing [3/9],step,op,duration\n0,1,forward,0.1\n", "paceline import timeline {} -o"),
        ("t.zip", b"PK\x03\x04", "a zip archive; unpack it"),
        ("t.json", b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
    ],
)
def test_a_file_that_is_no_recording_is_named_with_the_command_that_reads_it(analyze, tmp_path, name, content, words):
    """One line, in place of what is wrong with each of its lines."""
    path = tmp_path / name
    path.write_bytes(content)
    done = analyze(str(path))
    (line,) = done.stderr.decode().splitlines()
    assert (done.returncode, done.stdout) == (2, b"")
    assert line.startswith(f"paceline analyze: {path} is no recording but ")
    assert words.format(path) in line


@pytest.mark.long
def test_a_damaged_recording_is_still_read(analyze, lines, tmp_path):
    """Whatever it begins with, or says inside."""
    path = tmp_path / "run.csv"
    path.write_bytes(b'{"step": 1}\n[1]\nDCGM_FI_ NCCL INFO a,b\n' + b"".join(lines))
    done = analyze(str(path))
    assert done.returncode == 0
    assert b"no recording" not in done.stderr


@pytest.mark.slow
def test_each_line_names_its_job(analyze, make_training, tmp_path):
    """Those of several jobs come as they were recorded, one among the other."""
    runs = [make_training(job=job, slow=1, seconds=18, slow_from_s=6) for job in ("a", "b")]
    path = tmp_path / "night.jsonl"
    mixed = [event for row in zip(*runs, strict=True) for event in row]
    path.write_bytes(b"".join(recording.render(topics.OP.name, one.job, 0, wire.encode(one)) for one in mixed))
    said = analyze(str(path)).stdout.decode().splitlines()
    assert {line.split("  ")[0] for line in said} == {"a", "b"}
    assert all(line.split("  ")[1].startswith("step ") for line in said)


def test_a_missing_file_is_said_in_a_line(analyze, tmp_path):
    """No trace, one line, exit status 2."""
    done = analyze(str(tmp_path / "nowhere.jsonl"))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.long
def test_live_the_panel_is_preceded_by_what_is_confirmed(analyze, lines):
    """Reading standard input, a confirmed finding is told once on standard error as it comes."""
    done = analyze("-", "--panel", stdin=b"".join(lines))
    assert done.returncode == 0
    assert done.stdout
    assert len([line for line in done.stderr.splitlines() if b"Rank 2" in line]) == 1


@pytest.mark.long
def test_quiet_leaves_the_panel_alone(analyze, lines):
    """For whoever tells the findings himself: nothing before the panel."""
    done = analyze("-", "--panel", "--quiet", stdin=b"".join(lines))
    assert b"rank 2" in done.stdout
    assert done.stderr == b""


@pytest.mark.slow
def test_help_has_examples():
    """The help page shows how it is used."""
    assert b"paceline analyze run.jsonl" in process("--help").stdout


@pytest.mark.long
@pytest.mark.parametrize("options", [["--panel"], ["--json"], ["--json", "--windows"], []])
def test_a_jobs_name_does_nothing_to_the_terminal(analyze, make_training, options):
    """Escapes, C1, marks of direction and lines in a name are written out; JSON tells the very name."""
    hostile = "job\x1b[2J\r\nVerdict forged\x9b2J\u202e\u2029"
    events = [
        msgspec.structs.replace(event, job=hostile, node=f"{event.node} {hostile}")
        for event in make_training(slow=2, seconds=18)
    ]
    lines = b"".join(recording.render(topics.OP.name, "k", 0, wire.encode(event)) for event in events)
    done = analyze("-", *options, stdin=lines)
    said = (done.stdout + done.stderr).decode()
    assert "job" in said
    assert not {letter for letter in said if letter != "\n" and (letter < " " or letter in "\x9b\u202e\u2029")}
    assert not any(line.startswith("Verdict forged") for line in said.splitlines())
    if "--json" in options:
        assert {json.loads(line)["job"] for line in done.stdout.splitlines()} == {hostile}


def test_a_few_steps_are_not_enough_to_find_nothing(analyze, make_training, tmp_path):
    """It says so, with what can be said, and accuses nobody."""
    path = tmp_path / "short.jsonl"
    events = make_training(slow=2, seconds=3, slow_from_s=0, step_s=1.0)
    path.write_bytes(b"".join(recording.render(topics.OP.name, one.job, 0, wire.encode(one)) for one in events))
    said = analyze(str(path)).stdout.decode()
    assert "Received: 3 steps of 4 ranks." in said
    assert "no findings" not in said
    assert "step 2  no verdict  Too short to judge" in said
    (found,) = [json.loads(line) for line in analyze(str(path), "--json").stdout.splitlines()]
    assert (found["kind"], found["ranks"]) == ("insufficient_data", [])
    assert {one["rank"] for one in found["evidence"] if one["name"] == "compute_s"} == {0, 1, 2, 3}


@pytest.mark.parametrize(("seconds", "said"), [(10, "not enough to judge: "), (150, "nothing found in ")])
def test_a_few_samples_of_a_node_are_not_enough_to_find_nothing(analyze, make_device_samples, tmp_path, seconds, said):
    """What is wrong with a GPU shows over minutes."""
    path = tmp_path / "node.jsonl"
    events = make_device_samples(seconds=seconds)
    path.write_bytes(b"".join(recording.render(topics.DEVICE.name, one.node, 0, wire.encode(one)) for one in events))
    assert analyze(str(path)).stdout.decode().startswith(said)


@pytest.mark.slow
def test_suggestions_are_what_to_do_about_it(capsys):
    """In place of findings: title, reason, gain, risk, steps and commands; as JSON every revision."""
    name = str(Path(__file__).parents[1] / "regression" / "gc.jsonl.zst")
    assert analyze_main([name, "--suggestions"]) == 0
    text = capsys.readouterr().out
    title = "warning: Next run: Keep Python's collector out of the steps of rank 2 on node-0000  [tune_host-"
    assert text.startswith(title)
    assert "device-hours a day (" in text
    assert analyze_main([name, "--suggestions", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (lines[0]["revision"], lines[0]["state"]) == (1, "new")
    assert {line["action"] for line in lines} == {"tune_host"}


@pytest.mark.long
def test_where_nothing_is_wrong_there_is_nothing_to_suggest(capsys):
    name = str(Path(__file__).parents[1] / "regression" / "healthy.jsonl.zst")
    assert analyze_main([name, "--suggestions"]) == 0
    assert capsys.readouterr().out == "nothing to suggest\n"
