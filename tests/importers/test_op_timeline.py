"""Generic timelines: whatever the table's form, words and dirt, the same rows come out; what cannot is counted."""

import csv
import io
import json
import math
from collections import defaultdict
from datetime import UTC, datetime

import pytest

from importers.aliases import op_of
from importers.notes import Notes, SourceError
from importers.op_rows import messages
from importers.op_timeline import OpTimeline, TimelineOptions
from paceline import wire
from paceline.events import STEP, StepTimings
from simulator.job import Job
from simulator.spec import Spec
from tests.timings import listed

HEAD = ["rank", "step", "op", "start", "duration"]


def table(rows, head=HEAD):
    """Rows as CSV."""
    text = io.StringIO()
    csv.writer(text).writerows([head, *rows])
    return io.BytesIO(text.getvalue().encode())


def load(stream, kind="csv", **options):
    """Seconds by (rank, step) and op, the messages, and the notes."""
    notes = Notes()
    timeline = OpTimeline(TimelineOptions(**options), notes)
    timeline.read(stream, kind, "table")
    found = list(messages(*timeline.rows()))
    seconds = defaultdict(lambda: defaultdict(float))
    for message in found:
        event = wire.decode(message.topic, wire.encode(message.event))
        for op, column in (*event.phases.items(), (STEP, event.step_s)):
            for rank, step, duration in zip(listed(event.rank), listed(event.step), listed(column), strict=True):
                if not math.isnan(duration):
                    seconds[rank, step][op] += duration
    return seconds, found, notes


def simulated(spec):
    """A simulated pipeline job as a table, without steps of its own: each rank does one thing after the other."""
    for message in Job(spec).messages():
        if isinstance(message.event, StepTimings):
            yield from one_by_one(spec, wire.readable(message.event))


def one_by_one(spec, event):
    split = event.get("microbatches", {})
    passes = defaultdict(list)
    for rank, step, batch, *seconds in zip(*split.values(), strict=True):
        passes[rank, step] += zip(("forward", "backward"), seconds, (batch, batch), strict=True)
    for at, (rank, step, start_s) in enumerate(zip(event["rank"], event["step"], event["start_s"], strict=True)):
        whole = [(op, took[at], -1) for op, took in event["phases"].items() if op not in ("forward", "backward")]
        at_s = event["t0_s"] + start_s
        for op, seconds, batch in [*passes[rank, step], *(one for one in whole if one[1] is not None)]:
            yield *spec.place(rank)[::2], rank, step, f"{op}-x", at_s, seconds, batch
            at_s += seconds


def test_a_job_survives_the_way_through_a_table():
    """Phases, places and micro-batches of a simulated pipeline come back from its timeline."""
    spec = Spec(ranks=8, pp=4, steps=6)
    rows = list(simulated(spec))
    stream = table(rows, ["dp_rank", "stage", "rank", "step", "optype", "start_ts", "duration", "mb_id"])
    seconds, found, notes = load(stream)
    assert not notes.dropped
    assert len(seconds) == 8 * 6
    want = sum(row[6] for row in rows if row[2] == 5 and row[3] == 3 and row[4] == "backward-x")
    assert seconds[5, 3]["backward"] == pytest.approx(want, abs=1e-4)
    assert all(parts["step"] > parts["forward"] + parts["backward"] for parts in seconds.values())
    (first, *_) = found
    who = first.event.speakers
    places = dict(zip(listed(who.ranks), zip(listed(who.dp), listed(who.pp), strict=True), strict=True))
    assert places == {rank: spec.place(rank)[::2] for rank in range(8)}
    assert set(listed(first.event.microbatches.microbatch)) == set(range(8))


def test_communication_is_what_no_work_hides():
    """A collective that runs beside compute counts only where nothing else runs; the step spans all rows."""
    rows = [[0, 0, "F", 0.0, 4.0], [0, 0, "all-reduce", 3.0, 3.0], [0, 0, "send", 5.5, 1.0], [0, 0, "opt", 6.2, 1.0]]
    seconds, *_ = load(table(rows))
    assert dict(seconds[0, 0]) == pytest.approx({"forward": 4.0, "communication": 2.2, "optimizer": 1.0, "step": 7.2})


def test_what_hides_communication_is_of_the_same_rank_and_step():
    """Steps of a rank that lie on each other, and ranks that share a clock, hide nothing of each other."""
    step = [("F", 0.0, 4.0), ("all-reduce", 3.0, 3.0), ("opt", 6.0, 1.0)]
    one_step = [[0, 7, *row] for row in step]
    want = dict(load(table(one_step))[0][0, 7])
    assert want == pytest.approx({"forward": 4.0, "communication": 2.0, "optimizer": 1.0, "step": 7.0})
    rows = [[rank, number, op, at, took] for rank in (0, 4) for number in (7, 300, 450) for op, at, took in step]
    seconds, _, notes = load(table(rows))
    assert sorted(seconds) == [(rank, number) for rank in (0, 4) for number in (7, 300, 450)]
    assert all(dict(parts) == pytest.approx(want) for parts in seconds.values())
    assert notes.lines() == ["starts go back in 2 of 3 steps: every step is laid after the one before it"]


@pytest.mark.parametrize(
    ("second", "ends"),
    [
        ([1, 0, "F", 0.0, 5.0], 5.0),  # The step is over when the last rank is done.
        ([1, 0, "F", 9000.0, 5.0], 2.0),  # Clocks that are hours apart say nothing of that,
        ([1, 1, "F", 0.0, 5.0], 2.0),  # nor does another step.
        ([0, 1, "F", 3.0, 5.0], 2.0),
    ],
)
def test_a_step_is_over_when_the_last_rank_is_done(second, ends):
    """A rank that is done sooner stands still until then, with or without a row for it."""
    seconds, *_ = load(table([[0, 0, "F", 0.0, 2.0], second]))
    assert seconds[0, 0]["step"] == pytest.approx(ends)


def test_a_rank_that_goes_on_has_waited_for_nobody():
    """In a job that does not meet at each step, a step ends where the next begins."""
    rows = [[0, 0, "F", 0.0, 2.0], [0, 1, "F", 3.0, 2.0], [1, 0, "F", 0.0, 7.0], [1, 1, "F", 7.0, 7.0]]
    seconds, *_ = load(table(rows))
    assert [seconds[0, step]["step"] for step in (0, 1)] == pytest.approx([3.0, 2.0])


def test_communication_is_counted_once_and_work_beside_work_twice():
    """Sends that run at once are one stretch of communication; what runs inside other rows hides all the same."""
    rows = [
        [0, 0, "send", 0.0, 4.0],
        [0, 0, "recv", 1.0, 1.0],
        [0, 0, "F", 2.0, 4.0],
        [0, 0, "B", 3.0, 1.0],
        [0, 0, "recv", 5.0, 2.0],
        [0, 0, "gc", 6.0, 1.0],
    ]
    seconds, *_ = load(table(rows))
    want = {"forward": 4.0, "backward": 1.0, "communication": 3.0, "gc": 1.0, "step": 7.0}
    assert dict(seconds[0, 0]) == pytest.approx(want)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_row_is_there_twice_where_all_its_columns_are_the_same(tmp_path, kind):
    """Also columns that mean nothing here, and the op as the source calls it; rows of no length stay."""
    head = [*HEAD, "peer"]
    forward = [0, 0, "forward-compute", 0.0, 2.0, None]
    once = [
        [0, 0, "forward-send", 2.0, 1.0, 1],
        [0, 0, "forward-send", 2.0, 1.0, 2],
        [0, 0, "backward-recv", 2.0, 1.0, 1],
    ]
    rows = [
        forward,
        *once,
        forward,
        [0, 0, "fwd", 0.0, 2.0, None],
        [0, 0, "gc", 3.0, 0.0, 5],
        [0, 0, "gc", 3.0, 0.0, 5],
    ]
    seconds, _, notes = load(io.BytesIO(written(tmp_path, kind, head, rows)), kind)
    assert notes.dropped == {"the same row twice": 1}
    assert seconds[0, 0] == pytest.approx({"forward": 4.0, "communication": 1.0, "gc": 0.0, "step": 3.0})


def written(folder, kind, head, rows):
    """The table's bytes."""
    if kind == "csv":
        return table(rows, head).getvalue()
    objects = [dict(zip(head, row, strict=True)) for row in rows]
    if kind == "jsonl":
        return b"".join(json.dumps(one).encode() + b"\n" for one in objects)
    pyarrow = pytest.importorskip("pyarrow", reason="comes with the page's extra")
    parquet = pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pyarrow.Table.from_pylist(objects), folder / "t")
    return (folder / "t").read_bytes()


def test_other_columns_may_hold_anything(tmp_path):
    """Numbers that are none, lists and mappings are compared as they stand."""
    pyarrow = pytest.importorskip("pyarrow", reason="comes with the page's extra")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {
        **dict(zip(HEAD, ([0] * 3, [0] * 3, ["f"] * 3, [0.0] * 3, [1.0] * 3), strict=True)),
        "loss": [float("nan")] * 3,
        "shape": [[1, 2], [1, 2], [2, 1]],
        "at": [datetime(2026, 1, 1, tzinfo=UTC)] * 3,
    }
    parquet.write_table(pyarrow.table(columns), tmp_path / "t")
    seconds, _, notes = load(io.BytesIO((tmp_path / "t").read_bytes()), "parquet")
    assert notes.dropped == {"the same row twice": 1}
    assert seconds[0, 0]["forward"] == 2.0


def test_rows_without_starts_may_repeat():
    """Where no start tells rows apart, each of them counts."""
    seconds, _, notes = load(table([[0, 0, "f", 1.0]] * 3, ["rank", "step", "op", "duration"]))
    assert seconds[0, 0]["forward"] == 3.0
    assert not notes.dropped


def test_a_start_of_another_day_is_left_out():
    """A start that was lost and written as 0 does not make its step last for years."""
    rows = [[0, s, op, 1.7e9 + s + at, 0.5] for s in range(3) for op, at in (("f", 0.0), ("b", 0.5))]
    rows[3][3] = 0
    seconds, _, notes = load(table(rows))
    assert notes.dropped == {"start a day or more from the rest of the step": 1}
    assert [parts["step"] for _, parts in sorted(seconds.items())] == pytest.approx([1.0, 0.5, 1.0])


def test_steps_that_cannot_be_laid_on_one_clock_are_left_out():
    """Starts that go back and forth by centuries, as no job's do, end in no time beyond what can be told."""
    rows = [[0, s, "f", 9e10 * (s % 2), 1.0] for s in range(6)]
    seconds, _, notes = load(table(rows))
    assert notes.dropped == {"impossible start": 3}
    assert len(seconds) == 3


@pytest.mark.parametrize("local", [lambda dp, stage: dp, lambda dp, stage: stage, lambda dp, stage: 0])
def test_ranks_that_count_within_a_group_are_no_ranks_of_the_job(local):
    """A rank that stands for several workers, as its places tell, is not taken for one; that is said."""
    rows = [[dp, stage, local(dp, stage), s, "f", s, 1.0] for s in range(9) for stage in range(2) for dp in range(3)]
    seconds, _, notes = load(table([*rows, ["", "", 0, 0, "f", 0, 1.0]], ["dp", "stage", *HEAD]))
    assert {rank for rank, _ in seconds} == set(range(6))
    assert all(parts["forward"] == 1.0 for parts in seconds.values())
    assert any("ranks count within a group only" in line for line in notes.lines())


@pytest.mark.parametrize("rank", [lambda dp, stage: 4 * dp, lambda dp, stage: 8 * stage + dp])
def test_one_rank_may_have_several_stages(rank):
    """Where stages are virtual, or one row is wrong about its place, the column is what it says it is."""
    rows = [[dp, stage, rank(dp, stage % 2), s, "f", s, 1.0] for s in range(9) for stage in range(4) for dp in range(3)]
    rows[0][0] = 2
    seconds, *_ = load(table(rows, ["dp", "stage", *HEAD]))
    assert {rank for rank, _ in seconds} == {rank(dp, stage) for stage in range(2) for dp in range(3)}


def test_rank_from_place_in_a_tensor_group():
    """Where the tensor dimension has more than one place, ranks differ by it, too."""
    rows = [[dp, stage, tp, 0, "f", 0.0, 1.0] for stage in range(2) for dp in range(3) for tp in range(4)]
    seconds, found, notes = load(table(rows, ["dp rank", "ppRank", "tp-rank", *HEAD[1:]]))
    assert sorted(rank for rank, _ in seconds) == list(range(24))
    assert any("(stage x 3 + dp) x 4 + tp" in line for line in notes.lines())
    (event,) = (message.event for message in found)
    assert listed(event.speakers.tp) == [0, 1, 2, 3] * 6


def test_every_form_of_table_gives_the_same(tmp_path):
    """CSV with semicolons, JSON Lines and Parquet of the same rows give the same messages."""
    pyarrow = pytest.importorskip("pyarrow", reason="comes with the page's extra")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [[r, s, "fwd", s + r / 100, 0.5] for s in range(3) for r in range(2)]
    want = load(table(rows))[0]
    semicolons = io.BytesIO("\n".join(";".join(map(str, row)) for row in [HEAD, *rows]).encode())
    lines = io.BytesIO(b"".join(json.dumps(dict(zip(HEAD, row, strict=True))).encode() + b"\n" for row in rows))
    parquet.write_table(pyarrow.table(dict(zip(HEAD, map(list, zip(*rows, strict=True)), strict=True))), tmp_path / "t")
    assert load(semicolons)[0] == want
    assert load(lines, "jsonl")[0] == want
    assert load(io.BytesIO((tmp_path / "t").read_bytes()), "parquet")[0] == want


def test_starts_may_be_dates_and_categories_words(tmp_path):
    """Parquet with timestamps, dictionary-encoded ops and missing micro-batches, and ISO times in CSV, are read."""
    pyarrow = pytest.importorskip("pyarrow", reason="comes with the page's extra")
    parquet = pytest.importorskip("pyarrow.parquet")
    when = [datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC) for second in range(4)]
    columns = {
        "rank": [0] * 4,
        "step": [0, 0, 1, 1],
        "optype": pyarrow.array(["forward-compute", "forward-send"] * 2).dictionary_encode(),
        "mb_id": pyarrow.array([0, None, 1, None]),
        "start_ts": when,
        "duration": [500.0] * 4,
    }
    parquet.write_table(pyarrow.table(columns), tmp_path / "t")
    seconds, found, _ = load(io.BytesIO((tmp_path / "t").read_bytes()), "parquet", unit="ms")
    assert dict(seconds[0, 1]) == pytest.approx({"forward": 0.5, "communication": 0.5, "step": 1.5})
    assert found[0].event.t0_s == pytest.approx(when[0].timestamp())
    assert {number for message in found for number in listed(message.event.microbatches.microbatch)} == {0, 1}
    rows = [[0, s, "f", when[s].isoformat(), 0.5] for s in range(4)]
    assert load(table(rows))[1][0].event.t0_s == pytest.approx(when[0].timestamp())


def test_columns_are_mapped_and_times_scaled():
    """Columns with names of their own are mapped; times in milliseconds become seconds."""
    head = ["who", "n", "kind", "began", "took"]
    chosen = {"rank": "who", "step": "n", "op": "kind", "start": "began", "duration": "took"}
    seconds, *_ = load(table([[3, 7, "f", 1000, 250]], head), columns=chosen, unit="ms", ops={})
    assert seconds[3, 7]["forward"] == pytest.approx(0.25)


def test_columns_of_the_whole_job_come_first():
    """Beside a step of the epoch, a rank of the node and a stage of another kind."""
    head = ["step", "global_step", "rank", "global rank", "stage", "pp_rank", *HEAD[2:]]
    seconds, found, _ = load(table([[0, 70 + s, 1, 9, "warmup", 3, "f", s, 1.0] for s in range(2)], head))
    assert sorted(seconds) == [(9, 70), (9, 71)]
    assert listed(found[0].event.speakers.pp) == [3]


def test_rank_from_place():
    """Without a rank it follows from stage and dp, and that is said."""
    rows = [[dp, stage, 0, "f", 0.0, 1.0] for stage in range(2) for dp in range(3)]
    seconds, _, notes = load(table(rows, ["dp", "stage", *HEAD[1:]]))
    assert sorted(rank for rank, _ in seconds) == list(range(6))
    assert any("stage x 3 + dp" in line for line in notes.lines())


def test_without_starts_the_order_of_the_file_counts():
    """Without starts, rows of a rank follow each other, ranks meet at each step, and that is said."""
    rows = [[r, s, op, d] for r in range(2) for s in range(2) for op, d in (("f", 1.0 + r), ("b", 2.0))]
    seconds, found, notes = load(table(rows, ["rank", "step", "op", "duration"]))
    assert seconds[0, 0]["step"] == seconds[1, 1]["step"] == pytest.approx(4.0)
    starts = {
        (rank, step): event.t0_s + start
        for event in (message.event for message in found)
        for rank, step, start in zip(*map(listed, (event.rank, event.step, event.start_s)), strict=True)
    }
    assert starts == pytest.approx({(0, 0): 0.0, (1, 0): 0.0, (0, 1): 4.0, (1, 1): 4.0})
    assert any("no start" in line for line in notes.lines())


def test_dirt_is_left_out_and_counted():
    """Missing, negative, absurd, double and torn rows are counted by what is wrong; the rest is imported."""
    good = [0, 0, "forward", 0.0, 1.0]
    bad = [
        ["", 0, "forward", 1, 1],
        [0, "nan", "forward", 2, 1],
        [0, 0, "", 3, 1],
        [0, 0, "forward", 4, "NaN"],
        [0, 0, "forward", 5, -1],
        [0, 0, "forward", 6, 1e9],
        [-1, 0, "forward", 7, 1],
        [0.5, 0, "forward", 8, 1],
        [0, -3, "forward", 9, 1],
        [2**40, 0, "forward", 9, 1],
        [0, 0, "forward", "", 1],
        good,
        [0, 0, "forward"],
    ]
    seconds, _, notes = load(table([good, *bad]))
    assert {key: dict(parts) for key, parts in seconds.items()} == {(0, 0): {"forward": 1.0, "step": 1.0}}
    assert sum(notes.dropped.values()) == len(bad)


def test_zero_durations_and_pauses_stay():
    """Durations of 0 and a checkpoint of half a minute are rows like others."""
    rows = [[0, 0, "recv", 0.0, 0.0], [0, 0, "f", 0.0, 1.0], [0, 0, "checkpoint", 1.0, 30.0]]
    seconds, _, notes = load(table(rows))
    assert seconds[0, 0]["step"] == pytest.approx(31.0)
    assert not notes.dropped


def test_rows_of_no_length_do_not_stretch_the_step():
    """A collection that took no time may stand anywhere; without any other, the step reaches from first to last."""
    rows = [[0, 0, "f", 600.0, 1.0], [0, 0, "gc", 0.0, 0.0], [0, 0, "gc", 900.0, 0.0]]
    seconds, *_ = load(table([*rows, [0, 1, "gc", 1000.0, 0.0], [0, 1, "recv", 1002.0, 0.0]]))
    assert seconds[0, 0] == {"forward": 1.0, "gc": 0.0, "step": 1.0}
    assert seconds[0, 1] == {"gc": 0.0, "communication": 0.0, "step": 2.0}


@pytest.mark.parametrize(("unit", "scale", "likely"), [("s", 1e4, "us"), ("ns", 1.0, "s")])
def test_a_wrong_unit_is_said(unit, scale, likely):
    """Steps of hours or nanoseconds bring a remark that names a likelier unit."""
    rows = [[0, s, "f", s * scale * 0.9, 0.9 * scale] for s in range(4)]
    notes = load(table(rows), unit=unit)[2]
    assert any(f"--time-unit {likely}" in line or f" {likely}?" in line for line in notes.lines())


@pytest.mark.parametrize(
    ("unit", "said"),
    [("", "the median step takes 460 s if its times are seconds: no unit is named; is it --time-unit ms?"),
     ("s", "the median step takes 460 s in --time-unit s; is it --time-unit ms?"), ("ms", None)],
)  # fmt: skip
def test_whole_milliseconds_without_a_unit_are_read_as_seconds_and_said_to_be(unit, said):
    """Decimal commas in one column, whole numbers in the other, and nothing that names a unit: said once."""
    rows = [[step, rank, "forward", f"{step * 500},0", 460] for step in range(25) for rank in range(2)]
    text = "\n".join(";".join(map(str, row)) for row in [["step", "rank", "op", "start", "duration"], *rows])
    seconds, _, notes = load(io.BytesIO(text.encode()), unit=unit)
    assert seconds[0, 0]["forward"] == pytest.approx(0.46 if unit == "ms" else 460.0)
    assert [line for line in notes.lines() if "the median step" in line] == ([said] if said else [])


def test_rows_of_many_days_are_refused_with_the_likely_unit():
    """Microseconds read as seconds leave no row, and the error says which unit it may be."""
    rows = [[0, s, "f", s * 1e6, 2e5] for s in range(4)]
    with pytest.raises(SourceError, match=r"is it --time-unit .*us"):
        load(table(rows))


def test_named_ranks_are_numbered():
    """Ranks that are names get numbers, and that is said."""
    seconds, _, notes = load(table([["gpu-a", 0, "f", 0, 1], ["gpu-b", 0, "f", 0, 1]]))
    assert sorted(seconds) == [(0, 0), (1, 0)]
    assert any("gpu-a" in line for line in notes.lines())


def test_unknown_ops_are_other_and_said():
    """An op that no table knows counts as other, with a remark; the user's own word wins."""
    seconds, _, notes = load(table([[0, 0, "frobnicate", 0, 1], [0, 0, "zap", 1, 1]]), ops={"zap": "data"})
    assert (seconds[0, 0]["other"], seconds[0, 0]["data"]) == (1.0, 1.0)
    assert any("frobnicate" in line and "zap" not in line for line in notes.lines())


@pytest.mark.parametrize(
    ("head", "says"),
    [
        (["rank", "step", "duration"], "which column is the op"),
        (["step", "op", "duration"], "no rank, dp or stage"),
        (["rank", "op", "duration"], "which column is the step"),
    ],
)
def test_a_missing_column_is_named(head, says):
    """What is not there is named with the option that mends it and the columns there are."""
    with pytest.raises(SourceError, match=says):
        load(table([[0] * len(head)], head))


def test_nothing_usable_is_an_error():
    """A table of nothing but dirt says so."""
    with pytest.raises(SourceError, match="no row can be used"):
        load(table([["", "", "", "", ""]]))


@pytest.mark.parametrize("data", [b"", b"\xff\xfe\x00garbage", b'{"a": 1}\n[1]\n'])
def test_no_table_is_an_error(data):
    """Bytes that are no such table raise the error that is shown, whatever the form."""
    for kind in ("csv", "jsonl", "parquet"):
        with pytest.raises(SourceError):
            load(io.BytesIO(data), kind)


@pytest.mark.parametrize(
    ("name", "op"),
    [
        ("forward-compute", "forward"),
        ("FWD", "forward"),
        ("backward_recv", "communication"),
        ("params-all-gather", "communication"),
        ("AllReduce", "communication"),
        ("fwd_irecv", "communication"),
        ("pipeline bubble", "communication"),
        ("layernorm-grads-all-reduce", "communication"),
        ("optimizer-clip-main-grad", "optimizer"),
        ("B", "backward"),
        ("DataLoader.next", "data"),
        ("data_wait", "data"),
        ("dataloader-wait", "data"),
        ("wait_for_batch", "data"),
        ("Input Wait", "data"),
        ("checkpoint_wait", "checkpoint"),
        ("wait", "communication"),
        ("wait_backward", "communication"),
        ("wait_data_parallel", "communication"),
        ("grad_allreduce_wait_batch", "communication"),
        ("ckpt_save", "checkpoint"),
        ("train_step", "step"),
        ("cpu_wait", "cpu_wait"),
    ],
)
def test_words(name, op):
    """Names of ops as tools write them mean what they should."""
    assert op_of(name, {}) == op
