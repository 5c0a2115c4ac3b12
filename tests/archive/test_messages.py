"""Every event that was ever released, and every number that a raw column can hold, comes to rows that can be read."""

import contextlib
import io
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from archive import row_files
from archive.column_buffers import schema
from archive.messages import rows_of
from paceline import columns, events, topics, wire
from paceline.columns import SIZES
from paceline.events import Column
from paceline.history import tables
from paceline.history.rows import event_of, row_of
from paceline.history.table import Table
from paceline.history.tables import ARCHIVED, BY_EVENT, BY_NAME, TABLES
from paceline.topics import TOPICS
from tests.archive.conftest import buffered
from tests.derived_events import HOSTILE, described, finding, job_window, rank_window, suggestion

GOLDEN = Path(__file__).parents[1] / "paceline" / "golden"
TOPIC_OF = {event.__name__: topic for topic in TOPICS for event in (get_args(topic.event) or (topic.event,))}
FILES = sorted(path for path in GOLDEN.glob("v*/*") if not path.name.endswith(".readable.json"))
ARCHIVED_FILES = [path for path in FILES if TOPIC_OF[path.stem] in ARCHIVED]
WHOLE_FILES = [path for path in ARCHIVED_FILES if getattr(events, path.stem) in BY_EVENT]


def stored(made: list[Any]) -> Iterator[tuple[Table, pa.Table]]:
    """What a file holds of ``made``, read again."""
    for _, table, rows in buffered(made).finish():
        data = row_files.packed(row_files.ordered(table, rows))
        again = pq.read_table(io.BytesIO(data))
        assert again.column_names == schema(table).names
        yield table, again


def read(path: Path) -> Any:
    return wire.decode(TOPIC_OF[path.stem], path.read_bytes())


@pytest.mark.parametrize("path", ARCHIVED_FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_released_message_becomes_rows(path: Path):
    """A message of which nothing is kept is one without rows, or a window too short to be kept."""
    event = read(path)
    kept = list(stored([event]))
    short = getattr(event, "length_s", 60.0) < 60.0
    assert kept or short
    for _, rows in kept:
        assert rows.num_rows > 0


@pytest.mark.parametrize("path", WHOLE_FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_events_that_are_a_row_each_come_back_whole(path: Path):
    event = read(path)
    if hasattr(event, "length_s"):
        event = msgspec.structs.replace(event, length_s=60.0)
    [(table, rows)] = stored([event])
    [row] = rows.to_pylist()
    assert event_of(table, row) == event


def test_what_is_archived_are_all_topics_but_those_that_nobody_should_miss():
    left_out = {topic.short for topic in TOPICS} - {topic.short for topic in ARCHIVED}
    assert left_out == {"capture", "deadletter"}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_table_is_sorted_and_timed_by_columns_that_it_has(table: Table):
    assert {*table.order, *table.key, table.time, "cluster"} <= set(table.columns)


def test_steps_keep_every_phase_and_those_that_no_one_knows():
    event = step_timings(phases={"forward": [0.1, 0.2], "tokenise": [0.3, math.nan]})
    [(table, rows)] = stored([event])
    assert table is tables.OP
    kept = rows.select(["rank", "step", "start_s", "step_s", "forward_s", "phases_other", "backward_s"]).to_pylist()
    assert [row["rank"] for row in kept] == [0, 1]
    assert (kept[0]["step"], kept[0]["start_s"], kept[0]["step_s"], kept[0]["backward_s"]) == (7, 1000.5, 1.0, None)
    assert kept[0]["forward_s"] == pytest.approx(0.1)
    assert msgspec.json.decode(kept[0]["phases_other"])["tokenise"] == pytest.approx(0.3)
    assert msgspec.json.decode(kept[1]["phases_other"])["tokenise"] is None


def step_timings(phases: dict[str, list[float]]) -> events.StepTimings:
    whole = columns.whole
    return events.StepTimings(
        cluster="c", producer="p", sequence=0, job="train", attempt=0, node="n", t0_s=1000.0,
        speakers=events.Speakers(ranks=whole([0, 1]), world_sizes=whole([2, 2]), devices=["", ""]),
        rank=whole([0, 1]), step=whole([7, 7]), start_s=columns.offsets([0.5, 0.5]),
        step_s=columns.durations([1.0, 1.0]),
        phases={word: columns.durations(values) for word, values in phases.items()},
    )  # fmt: skip


def test_what_is_not_measured_is_null_and_zero_is_a_value():
    event = read(GOLDEN / "v1" / "DeviceSamples.json")
    rows = len(event.device)
    changed = msgspec.structs.replace(event, power_w=[None] * rows, utilization_ratio=[0.0] * rows)
    [(_, kept)] = stored([changed])
    assert kept.column("power_w").null_count == rows
    assert kept.column("utilization_ratio").to_pylist() == [0.0] * rows


@pytest.mark.parametrize("length_s", [1.0, 10.0])
def test_short_windows_of_ranks_and_the_shortest_of_jobs_are_not_kept(length_s: float):
    assert list(rows_of(rank_window(0, length_s=length_s), 0.0)) == []
    assert len(list(rows_of(job_window(length_s=length_s), 0.0))) == (length_s == 10.0)


def test_words_that_mean_harm_are_words():
    made = [finding(job=HOSTILE, nodes=[HOSTILE], summary=HOSTILE), suggestion(title="\0'; DROP TABLE finding; --")]
    made.append(described(job="\0", labels={HOSTILE: HOSTILE}))
    for table, rows in stored(made):
        [row] = rows.to_pylist()
        assert event_of(table, row) in made


def test_numbers_at_the_bounds_of_events_are_kept():
    made = finding(
        first_step=-(2**63),
        last_step=2**63 - 1,
        cost=events.Cost(lost_s=1e11, gpu_hours=1e30, throughput_lost_ratio=-1e30),
    )
    [(table, rows)] = stored([made])
    [row] = rows.to_pylist()
    assert (row["first_step"], row["last_step"], row["cost_gpu_hours"]) == (-(2**63), 2**63 - 1, 1e30)
    assert event_of(table, row) == made


RAW = {"StepTimings": topics.OP, "CollectiveCalls": topics.COLLECTIVE}
EXTREME = {
    **{f"u{size}": [2 ** (8 * size) - 1] for size in (1, 2, 4, 8)},
    **{f"i{size}": [2 ** (8 * size - 1) - 1, -(2 ** (8 * size - 1)), -1] for size in (1, 2, 4, 8)},
    "f4": [3e38, -1.0, float("nan"), float("inf"), float("-inf")],
    "f8": [1e308, -1e308, float("nan"), float("inf"), float("-inf")],
}


@pytest.mark.long
@pytest.mark.parametrize("kind", SIZES)
@pytest.mark.parametrize("name", RAW)
def test_any_number_in_any_raw_column_is_refused_or_stored(name: str, kind: Any):
    """Beside a message that is sound, for columns are joined over messages."""
    sound = wire.decode(RAW[name], (GOLDEN / "v2" / f"{name}.msgpack").read_bytes())
    read = []
    for odd in odd_ones(sound, kind):
        with contextlib.suppress(wire.WireError):
            read += [sound, wire.decode(RAW[name], wire.encode(odd))]
    assert all(rows.num_rows for _, rows in stored([*read, sound]))


def odd_ones(event: Any, kind: Any) -> Iterator[Any]:
    """``event`` with an extreme number at the head of one column of it or of its parts, column by column."""
    for field in event.__struct_fields__:
        value = getattr(event, field)
        if type(value) is Column:
            for number in EXTREME[kind]:
                numbers = np.frombuffer(value.data, "<" + value.type)
                with np.errstate(all="ignore"):
                    numbers = numbers.astype("<" + kind)
                numbers[:1] = number
                yield msgspec.structs.replace(event, **{field: Column(kind, numbers.tobytes())})
        elif isinstance(value, dict) and value and all(type(one) is Column for one in value.values()):
            for word, one in value.items():
                yield msgspec.structs.replace(
                    event, **{field: value | {word: Column(kind, bytes(SIZES[kind] * columns.rows(one)))}}
                )
        elif isinstance(value, msgspec.Struct):
            for changed in odd_ones(value, kind):
                yield msgspec.structs.replace(event, **{field: changed})


def test_rows_of_events_that_are_none_of_a_table_are_refused():
    with pytest.raises(TypeError, match="finding: no table of JobWindow"):
        row_of(BY_NAME["finding"], job_window())
    with pytest.raises(TypeError, match="op: its rows are parts"):
        event_of(BY_NAME["op"], {})
