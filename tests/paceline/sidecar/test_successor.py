"""A sidecar that takes over from one that died: told what was not safe, it tells what the dead one would have told.

The marks are those of a real run, and made-up ones whose steps end otherwise; the death comes after any message.
"""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from paceline.sidecar.decode import MarkDecoder
from paceline.sidecar.rank_rows import PARTS, CollectiveRow, Report
from paceline.training import marks
from paceline.training.messages import Marks
from paceline.training.unsettled import Unsettled
from tests.paceline.sidecar.recorded_messages import recorded_messages

MS = 1_000_000
WAITED = PARTS.index("cpu_wait")


def recorded(connection: int) -> list[Marks]:
    return [told for of, told in recorded_messages() if of == connection and isinstance(told, Marks)]


def explicit() -> list[Marks]:
    """Two optimizers a step with work between them; it ends where the script says so."""
    spans = [(0, 30, marks.FORWARD), (30, 60, marks.BACKWARD), (60, 70, marks.OPTIMIZER)]
    spans += [(72, 80, marks.FORWARD), (82, 90, marks.OPTIMIZER)]
    return messages(spans, (95, marks.STEP, None))


def compiled() -> list[Marks]:
    """An optimizer that is not heard, after a second backward, which alone exchanges gradients."""
    spans = [(0, 20, marks.FORWARD), (20, 40, marks.BACKWARD), (40, 60, marks.FORWARD), (60, 80, marks.BACKWARD)]
    said = messages(spans, (70, marks.ISSUED, ("world", 2, 0, "all_reduce", 64, marks.REDUCER)))
    first = replace(said[0], marks=[(0, marks.COMPILED, None), *said[0].marks])
    return [first, *said[1:]]


def measured() -> list[Marks]:
    """The probe is off in every other four steps."""
    spans = [(0, 30, marks.FORWARD), (30, 60, marks.BACKWARD), (60, 90, marks.OPTIMIZER)]
    found: list[tuple[int, int, object]] = []
    for number in range(120):
        begin, off = number * 100, number % 8 >= 4
        for start, end, kind in () if off else spans:
            found += [(begin + start, kind, None), (begin + end, marks.LEAVE + kind, None)]
        found.append((begin + 90, marks.STEPPED, None))
        if number % 4 == 3:
            found.append((begin + 90, marks.WINDOW_ON if off else marks.WINDOW_OFF, number + 1))
    return chunked([(at * MS, kind, payload) for at, kind, payload in found])


def messages(spans: list[tuple[int, int, int]], instant: tuple[int, int, object]) -> list[Marks]:
    """Steps of 100 ms of these spans and instants, and a message every step and a half or so."""
    edges = [edge for begin, end, kind in spans for edge in ((begin, kind, None), (end, marks.LEAVE + kind, None))]
    step = sorted([*edges, instant], key=lambda mark: mark[0])
    return chunked([((number * 100 + at) * MS, kind, payload) for number in range(30) for at, kind, payload in step])


def chunked(found: list[tuple[int, int, object]]) -> list[Marks]:
    chunks = [found[at : at + 13] for at in range(0, len(found), 13)]
    return [Marks(marks=[*one, (one[-1][0], marks.QUEUED, None)], offset_ns=0) for one in chunks]  # type: ignore[list-item]


def gathered(reports: list[Report | None]) -> tuple[Counter[object], Counter[object]]:
    """The rows, but for waits for a processor, whose reading begins anew with the process."""
    steps = Counter(
        (row.step, round(row.step_s, 9), row.seconds[:WAITED], row.seconds[WAITED + 1 :], row.microbatches)
        for report in reports
        if report
        for row in report.steps
    )
    return steps, Counter(row for report in reports if report for row in report.collectives)


@pytest.mark.long
@pytest.mark.parametrize(
    "said",
    [recorded(0), recorded(1), explicit(), compiled(), measured()],
    ids=["rank 0", "rank 1", "explicit", "compiled", "measured"],
)
def test_killed_after_any_message_no_row_is_lost_or_told_twice(said: list[Marks]) -> None:
    """What was decoded by some message is safe, what came after it died with the sidecar."""
    whole = MarkDecoder()
    expected = gathered([*map(whole.decode, said), whole.end()])
    assert sum(expected[0].values()) > 30
    taken_over = 0
    for safe in range(1, len(said), 3):
        first, kept = MarkDecoder(), Unsettled()
        reports = [first.decode(one) for one in said[:safe]]
        for one in said[: safe + 2]:
            kept.add(list(one.marks), one.lost)
        if (settled := first.settled()) is None:
            continue
        kept.settle(settled)
        place, again, lost = kept.again()
        assert (lost, place is not None) == (settled.open, True)
        second = MarkDecoder(place)
        for begin in range(0, len(again), 11):
            reports.append(second.decode(Marks(marks=again[begin : begin + 11], offset_ns=said[0].offset_ns)))
        reports += [second.decode(one) for one in said[safe + 2 :]]
        ops, collectives = gathered([*reports, second.end()])
        assert without_offset(ops) == without_offset(expected[0])
        assert without_offset(collectives) - without_offset(expected[1]) == Counter()
        assert (without_offset(expected[1]) - without_offset(collectives)).total() == settled.open
        taken_over += 1
    assert taken_over > 5


def without_offset(rows: Counter[object]) -> Counter[object]:
    """Messages that are sent again carry the present offset of the clock: starts may differ by what that drifted."""
    found: Counter[object] = Counter()
    for row, times in rows.items():
        found[row._replace(start_s=0.0) if isinstance(row, CollectiveRow) else row] += times
    return found


def test_a_death_after_a_death() -> None:
    """The second sidecar says how far it is in numbers of its own; the third begins there."""
    said = explicit()
    whole = MarkDecoder()
    expected = gathered([*map(whole.decode, said), whole.end()])
    kept, decoder = Unsettled(), MarkDecoder()
    reports = []
    for number, one in enumerate(said):
        kept.add(list(one.marks), 0)
        reports.append(decoder.decode(one))
        if settled := decoder.settled():
            kept.settle(settled)
        if number in (5, 6, 15):
            place, again, lost = kept.again()
            assert lost == 0
            decoder = MarkDecoder(place)
            reports.append(decoder.decode(Marks(marks=again, offset_ns=0)))
    assert gathered([*reports, decoder.end()]) == expected


def test_marks_that_had_to_go_are_counted_and_their_steps_too() -> None:
    """A sidecar that settles nothing for long and then dies: the next begins at the right step."""
    said = explicit()
    kept, decoder = Unsettled(most=60), MarkDecoder()
    for one in said[:6]:
        decoder.decode(one)
        kept.add(list(one.marks), 0)
    settled = decoder.settled()
    assert settled is not None
    kept.settle(settled)
    for one in said[6:]:
        kept.add(list(one.marks), 0)
    place, again, lost = kept.again()
    assert place is not None
    assert settled.marks + lost + len(again) == sum(len(one.marks) for one in said)
    reports = [MarkDecoder(place).decode(Marks(marks=again, offset_ns=0))]
    told = [row for report in reports if report for row in report.steps]
    whole = MarkDecoder()
    last = [row.step for one in said if (report := whole.decode(one)) for row in report.steps]
    assert max(row.step for row in told) == max(last)
    assert kept.again()[2] == lost


def test_steps_that_were_left_out_among_marks_that_had_to_go_count() -> None:
    """The next sidecar begins at the right step, though nobody can send it what says so."""
    kept, sent = Unsettled(most=10), list[Any]()
    for number in range(0, 40, 4):
        begin = number * 100
        found: list[Any] = [(begin, marks.FORWARD, None), (begin + 10, marks.LEAVE + marks.FORWARD, None)]
        found += [(begin + 20, marks.STEP, None), (begin + 20, marks.SAMPLE_OFF, 3)]
        found += [(begin + 400, marks.SAMPLE_ON, 3), (begin + 400, marks.QUEUED, None)]
        kept.add(found, 0)
        sent += found
    place, again, _ = kept.again()
    assert place is not None
    rows = [MarkDecoder(one).decode(Marks(marks=told, offset_ns=0)) for one, told in ((None, sent), (place, again))]
    last = [report.steps[-1] for report in rows if report is not None]
    assert len(last) == 2
    assert last[1].step == last[0].step


@pytest.mark.parametrize("said", [recorded(0), explicit(), compiled()], ids=["rank 0", "explicit", "compiled"])
def test_a_step_whose_collectives_were_not_summed_is_collected_again(said: list[Marks]) -> None:
    """Its row was told, and comes no second time; its collectives are told again, for the sums alone."""
    whole = MarkDecoder()
    reports = [report for one in [*map(whole.decode, said), whole.end()] if (report := one)]
    steps = [row.step for report in reports for row in report.steps]
    expected = Counter((row.step, row.seq) for report in reports for row in report.collectives)
    first, kept = MarkDecoder(), Unsettled()
    before = [report for one in said[:-4] if (report := first.decode(one))]
    for one in said[:-2]:
        kept.add(list(one.marks), one.lost)
    held_from = max(row.step for report in before for row in report.steps) - 3
    settled = first.settled(held_from)
    assert settled is not None
    assert settled.place.step == held_from
    kept.settle(settled)
    place, again, _ = kept.again()
    second = MarkDecoder(place)
    after = [second.decode(Marks(marks=again[at : at + 7], offset_ns=0)) for at in range(0, len(again), 7)]
    after += [*map(second.decode, said[-2:]), second.end()]
    found = [report for report in after if report]
    assert [row.step for report in [*before, *found] for row in report.steps] == steps
    summed = Counter(
        (row.step, row.seq) for report in before for row in report.collectives if row.step < held_from
    ) + Counter((row.step, row.seq) for report in found for row in [*report.again, *report.collectives])
    assert (expected - summed).total() == settled.open
    assert summed - expected == Counter()
