"""A sidecar beside ranks whose NCCL is inspected: NCCL's own times on the topic of collectives, of the right step."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paceline import columns, topics, wire
from paceline.events import CollectiveCalls, StepTimings
from paceline.nccl_inspector.calls import Call
from paceline.recording import Line, RecordingError, read
from paceline.sidecar.batch import Batcher, Origin
from paceline.sidecar.nccl_files import NcclFiles
from paceline.sidecar.nccl_inspector import NcclInspector
from tests.paceline.sidecar import plugin as writer
from tests.paceline.training import rank

#: When step 0 of ``rank.step`` begins (Unix time), and how long a step takes.
BEGAN_S, STEP_S = (rank.START_NS + rank.OFFSET_NS) / 1e9, rank.STEP_NS / 1e9


class Inspected:
    """A running sidecar that records and follows the files in ``folder``, and ranks that speak to it."""

    def __init__(self, until: Callable[..., Any], own: Path, folder: Path) -> None:
        self._until = until
        self.folder = folder
        self.recording = own / "run.jsonl"
        self.socket = own / "own" / "ranks"
        self.process = self.start(self.recording)
        self.speakers: list[Any] = []
        self.plugins: list[Any] = []

    def start(self, recording: Path) -> "subprocess.Popen[bytes]":
        options = ["--socket", str(self.socket), "--record", str(recording), "--quiet", "--job", "made-up"]
        process = subprocess.Popen(
            [sys.executable, "-m", "paceline.sidecar", *options, "--nccl-inspector", str(self.folder)],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PACELINE_NODE": "n1"},
        )
        self._until(lambda: self.socket.exists() or process.poll() is not None)
        self.folder.mkdir(exist_ok=True)
        return process

    def rank(self, number: int, pid: int, ranks: int = 2, *, plugin: bool = True, version: str = "v4.3") -> Any:
        """A rank in the process ``pid`` says hello; what speaks for it, and its plugin."""
        speaker = rank.Speaker(str(self.socket))
        speaker.say(replace(rank.hello(number, ranks), pid=pid))
        self.speakers.append(speaker)
        if plugin:
            self.plugins.append(writer.Plugin(self.folder, pid, version))
        return speaker, self.plugins[-1] if plugin else None

    def events(self, recording: Path | None = None) -> list[Any]:
        try:
            lines = [line for line in read(str(recording or self.recording)) if isinstance(line, Line)]
        except RecordingError:  # It is made with the first event.
            return []
        return [wire.decode(topics.resolve(line.topic), line.value) for line in lines]

    def calls(self, recording: Path | None = None) -> list[tuple[int, int, int, str, float]]:
        """Rank, step, number, group and duration of NCCL's own rows."""
        told = [one for one in self.events(recording) if isinstance(one, CollectiveCalls) and one.by_nccl]
        assert all(one.summed for one in told)
        return [row for one in told for row in rows_of(one)]

    def end(self) -> str:
        """Hang up, and what it said."""
        for one in [*self.speakers, *self.plugins]:
            one.close()
        self.speakers, self.plugins = [], []
        _, said = self.process.communicate()
        return said.decode()


def rows_of(told: CollectiveCalls) -> list[tuple[int, int, int, str, float]]:
    names = [told.groups[int(place)] for place in columns.numbers(told.group)]
    return [
        (int(one), int(step), int(seq), name, round(took, 6))
        for one, step, seq, name, took in zip(
            columns.numbers(told.rank),
            columns.numbers(told.step),
            columns.numbers(told.seq),
            names,
            columns.numbers(told.duration_s),
            strict=True,
        )
    ]


@pytest.fixture(params=["ours", "theirs"])
def inspected(request: pytest.FixtureRequest, tmp_path: Path, until: Callable[..., Any]) -> Iterator[Inspected]:
    """With a folder beside the socket, and with one of the user's."""
    made = Inspected(until, tmp_path, tmp_path / ("own" if request.param == "ours" else "") / "nccl")
    yield made
    made.end()


def dump(plugin: Any, seq: int, step: float, took_s: float = 0.002, **how: Any) -> None:
    """A collective that began at ``step``: 3.5 is in the middle of step 3."""
    start_s = BEGAN_S + step * STEP_S
    verbose = how.pop("verbose", True)
    about = {"rank": 0, "ranks": 2} | how
    plugin.dump([writer.performed(seq, start_s, took_s, verbose=verbose)], start_s + took_s + 0.0005, **about)


GROUP = "0x7f8c496ae9f661 all_reduce"


@pytest.mark.slow
def test_nccls_times_are_told_of_the_rank_and_its_step(inspected: Inspected, until: Callable[..., Any]) -> None:
    """Live. A header's rank is its communicator's: here they count the other way round."""
    ranks = [inspected.rank(number, pid=4000 + number) for number in (0, 1)]
    for step in range(5):
        for number, (speaker, plugin) in enumerate(ranks):
            dump(plugin, step, step + 0.3, 0.002 + number / 1000, rank=1 - number)
            speaker.say(rank.step(step))
    until(lambda: len(inspected.calls()) == 10)
    wanted = [(number, step, step, GROUP, 0.002 + number / 1000) for number in (0, 1) for step in range(5)]
    assert sorted(inspected.calls()) == wanted
    assert inspected.end() == ""
    assert len(inspected.calls()) == 10


@pytest.mark.slow
def test_what_the_ranks_tell_themselves_stays_as_it_is(inspected: Inspected, until: Callable[..., Any]) -> None:
    """The same collectives by the host's clock are summed once; NCCL's rows are marked and never summed."""
    speaker, plugin = inspected.rank(0, pid=4000, ranks=1)
    for step in range(5):
        dump(plugin, step, step + 0.5, ranks=1)
        speaker.say(rank.step(step))
    assert inspected.end() == ""
    events = inspected.events()
    sums = [one.collectives for one in events if isinstance(one, StepTimings) and one.collectives is not None]
    assert sum(sum(columns.numbers(one.count)) for one in sums) == 5
    assert {name for one in sums for name in one.groups} == {"world"}
    calls = [one for one in events if isinstance(one, CollectiveCalls)]
    assert [(one.by_nccl, one.summed) for one in calls] == [(True, True)] * len(calls)
    starts = [one.t0_s + offset for one in calls for offset in columns.numbers(one.start_s)]
    assert starts == pytest.approx([BEGAN_S + (step + 0.5) * STEP_S for step in range(5)], abs=1e-4)


@pytest.mark.slow
def test_files_without_starts_are_bounded_by_their_dumps(inspected: Inspected, until: Callable[..., Any]) -> None:
    """Of each version that has none. A collective that may have begun in either of two steps has no step."""
    versions = ["v4.0", "v4.2"]
    for number, version in enumerate(versions):
        speaker, plugin = inspected.rank(number, pid=4000 + number, version=version)
        for seq, step in enumerate((0.5, 0.6, 2.2, 2.3)):
            dump(plugin, seq, step, verbose=False, rank=number)
        for step in range(6):
            speaker.say(rank.step(step))
    until(lambda: len(inspected.calls()) == 4 * len(versions))
    for number, version in enumerate(versions):
        told = sorted((seq, step) for one, step, seq, *_ in inspected.calls() if one == number)
        assert told == [(0, -1), (1, 0), (2, -1), (3, 2)], version


@pytest.mark.slow
def test_files_come_late_and_in_any_order(inspected: Inspected, until: Callable[..., Any]) -> None:
    """Steps are long told; communicators are dumped one after the other, each with its own order."""
    speaker, _ = inspected.rank(0, pid=4000, plugin=False)
    for step in range(8):
        speaker.say(rank.step(step))
    until(lambda: any(isinstance(one, StepTimings) for one in inspected.events()))
    plugin = writer.Plugin(inspected.folder, 4000)
    inspected.plugins.append(plugin)
    for seq, (step, comm) in enumerate([(5.5, "0xa"), (1.5, "0xb"), (6.1, "0xa"), (0.1, "0xb")]):
        dump(plugin, seq, step, comm=comm)
    until(lambda: len(inspected.calls()) == 4)
    found = {(seq, step, group[:3]) for _, step, seq, group, _ in inspected.calls()}
    assert found == {(0, 5, "0xa"), (1, 1, "0xb"), (2, 6, "0xa"), (3, 0, "0xb")}


@pytest.mark.slow
def test_who_is_no_rank_of_this_node_is_not_heard(inspected: Inspected, until: Callable[..., Any]) -> None:
    """A process that is none, another node's file in a shared folder, and lines of a third in a rank's file."""
    speaker, plugin = inspected.rank(0, pid=4000)
    stranger = writer.Plugin(inspected.folder, 4001)
    elsewhere = writer.Plugin(inspected.folder, 4000, host="another-node")
    inspected.plugins += [stranger, elsewhere]
    for one in (stranger, elsewhere):
        dump(one, 66, 0.5)
    plugin.pid = 4001
    dump(plugin, 67, 0.5)
    plugin.pid = 4000
    dump(plugin, 1, 0.5)
    for step in range(3):
        speaker.say(rank.step(step))
    until(lambda: inspected.calls())
    assert inspected.end().splitlines() == [
        "paceline: NCCL Inspector: left out 1 collectives of another process than the file's"
    ]
    assert [row[2] for row in inspected.calls()] == [1]


@pytest.mark.slow
def test_two_processes_of_one_rank_are_kept_apart(inspected: Inspected) -> None:
    """The one that was started again counts its own steps."""
    first, first_plugin = inspected.rank(0, pid=4000, ranks=1)
    first.say(rank.step(0))
    first.say(rank.step(1))
    dump(first_plugin, 1, 0.5, ranks=1)
    second, second_plugin = inspected.rank(0, pid=4001, ranks=1)
    for step in range(4):
        second.say(rank.step(step))
    dump(second_plugin, 2, 2.5, ranks=1)
    assert inspected.end() == ""
    assert sorted(row[:3] for row in inspected.calls()) == [(0, 0, 1), (0, 2, 2)]


@pytest.mark.slow
def test_a_clock_that_is_off_costs_the_step_alone(inspected: Inspected) -> None:
    """A start of tomorrow, and one of 1970, are in no step."""
    speaker, plugin = inspected.rank(0, pid=4000)
    for seq, start_s in ((1, time.time() + 86_400), (2, 5.0)):
        plugin.dump([writer.performed(seq, start_s, 0.001)], start_s + 1, rank=0, ranks=2)
    for step in range(3):
        speaker.say(rank.step(step))
    assert inspected.end() == ""
    assert sorted(row[1:3] for row in inspected.calls()) == [(-1, 1), (-1, 2)]


@pytest.mark.slow
def test_garbage_in_a_file_ends_nobodys_timing(inspected: Inspected, until: Callable[..., Any]) -> None:
    """It is counted, said at the end, and what is sound beside it is told."""
    speaker, plugin = inspected.rank(0, pid=4000)
    for garbage in ("\x00\x01\x02\n", "[" * 50_000 + "\n", '{"coll_perf": []}\n', "x" * 400_000 + "\n"):
        plugin.write(garbage)
    huge = writer.performed(2**60, BEGAN_S, 0.001)
    plugin.dump([huge], BEGAN_S, rank=0, ranks=2, comm="z" * 10_000)
    dump(plugin, 1, 0.5)
    for step in range(3):
        speaker.say(rank.step(step))
    until(lambda: inspected.calls())
    said = inspected.end().splitlines()
    assert [line.startswith("paceline: NCCL Inspector: left out") for line in said] == [True] * 5
    assert [row[1:3] for row in inspected.calls()] == [(0, 1)]
    assert any(isinstance(one, StepTimings) for one in inspected.events())


@pytest.mark.slow
def test_a_file_that_is_not_read_is_told(inspected: Inspected, until: Callable[..., Any]) -> None:
    """Once, by name."""
    speaker, _ = inspected.rank(0, pid=4000, plugin=False)
    name = f"{writer.socket.gethostname()}-pid4000.log"
    (inspected.folder / name).symlink_to("/etc/passwd")
    for step in range(3):
        speaker.say(rank.step(step))
    until(lambda: any(isinstance(one, StepTimings) for one in inspected.events()))
    assert inspected.end() == f"paceline: NCCL Inspector: {name} is not read: a link\n"


@pytest.mark.slow
def test_a_plugin_that_writes_nothing_is_told(inspected: Inspected, until: Callable[..., Any]) -> None:
    """At the end, with what to do; the ranks were timed."""
    speaker, _ = inspected.rank(0, pid=4000, plugin=False)
    for step in range(3):
        speaker.say(rank.step(step))
    until(lambda: any(isinstance(one, StepTimings) for one in inspected.events()))
    (said,) = inspected.end().splitlines()
    assert "NCCL Inspector wrote nothing beside the ranks of this node" in said
    assert "NCCL_DEBUG=INFO" in said


def test_an_error_that_nobody_foresaw_ends_the_reading_alone() -> None:
    """In one line; nothing is looked at any more, and what was left out is told."""

    class Broken(NcclFiles):
        looks = 0

        def look(self, pids: Sequence[int]) -> list[Call]:
            self.looks += 1
            raise RuntimeError("odd")

    said: list[str] = []
    files = Broken(Path("/nowhere"), "n1", ours=True)
    inspector = NcclInspector(files, Batcher(Origin("c", "n1", "p")), said.append)
    for now_s in range(10):
        inspector.tick(float(now_s))
    inspector.close(now_s=111.0)
    assert said == ["NCCL Inspector is no longer read: RuntimeError: odd; training goes on"]
    assert files.looks == 1


@pytest.mark.slow
def test_a_second_sidecar_goes_on_where_the_first_died(
    inspected: Inspected, tmp_path: Path, until: Callable[..., Any]
) -> None:
    """What a file held then may be told again where the folder is ours; in the user's it is not."""
    speaker, plugin = inspected.rank(0, pid=4000)
    for step in range(4):
        speaker.say(rank.step(step))
    dump(plugin, 1, 0.5)
    until(lambda: len(inspected.calls()) == 1)
    inspected.process.kill()
    inspected.process.communicate()
    inspected.socket.unlink()
    second = tmp_path / "second.jsonl"
    inspected.process = inspected.start(second)
    again, _ = inspected.rank(0, pid=4000, plugin=False)
    for step in range(8):
        again.say(rank.step(step))
    dump(plugin, 2, 6.5)
    assert inspected.end() == ""
    found = [row[1:3] for row in inspected.calls(second)]
    assert found[-1] == (6, 2)
    assert found[:-1] == ([(0, 1)] if inspected.folder.parent == inspected.socket.parent else [])
