"""A comparison in words, and as JSON.

Rule of this file: pure words over a ``Comparison``.
"""

import msgspec

from paceline.visible import visible
from paceline.words import many

from ..comparison import EQUAL, FASTER, SLOWER, UNSURE, Comparison, Row, Side
from .document import Block, Bullets, Document, Heading, Notice, Paragraph, Table, Tile, Tiles
from .finding_words import cause_words, kind_words
from .quantities import count, seconds

_WORDS = {"communication": "waiting for others", "data": "data loading", "gc": "in it: garbage collector"}
_MORE_WORDS = {"cpu_wait": "in it: waiting for a processor", "host_bound": "in it: device waiting for its host"}
#: Rows of more than one phase.
_NO_PHASES = ("median step", "work", "by the clock")
_MOST_FACTS = 60


def comparison_document(comparison: Comparison, first: str, second: str) -> Document:
    """The comparison of the run in ``second`` with that in ``first``."""
    unit = "a sample" if comparison.a_sample else "a step"
    head = ("time " + unit, "first", "second", "difference", "95 % interval", "")
    rows = tuple(map(_row, (comparison.step, *comparison.rows)))
    slow = tuple(at for at, row in enumerate((comparison.step, *comparison.rows)) if row.is_slower)
    return Document(
        "Comparison of two runs",
        f"first: {first}, job {comparison.first.name}; second: {second}, job {comparison.second.name}",
        (
            _verdict(comparison),
            Tiles(tuple(_tiles(comparison))),
            Heading("What changed"),
            Table(head, rows, right=(1, 2, 3, 4), slow=slow),
            Paragraph(
                "The step decides; with so many rows below it, one may be wrong. Intervals are of block bootstraps, "
                "because neighbouring steps are alike. The job is compared as a whole: its pace is its slowest rank's, "
                "so a phase of the median rank is called slower or faster only where the slowest rank's is, too.",
                quiet=True,
            ),
            *_changes(comparison),
            *_facts(comparison),
            Heading("Data used"),
            Bullets(tuple(_rests(comparison))),
        ),
    )


def _verdict(comparison: Comparison) -> Notice:
    step = comparison.step
    span = f"95 % interval {_percent(step.low)} to {_percent(step.high)}"
    limit = f"{comparison.fail_over * 100:g} %"
    if comparison.verdict == SLOWER:
        worst = max(
            (row for row in comparison.rows if row.is_slower and row.name not in _NO_PHASES),
            key=lambda row: row.second_s - row.first_s,
            default=None,
        )
        where = "" if worst is None else f" Most of it: {_name(worst)}, {seconds(worst.second_s - worst.first_s)} more."
        return Notice(f"The second run is slower ({_percent(step.ratio)})", f"{span}, beyond {limit}.{where}", "slow")
    if comparison.verdict == FASTER:
        return Notice(f"The second run is faster ({_percent(step.ratio)})", f"{span}.", "good")
    if comparison.verdict == EQUAL:
        return Notice("The second run is not slower", f"{_percent(step.ratio)}, {span}, within {limit}.", "good")
    text = f"{_percent(step.ratio)}, {span}; more than {limit} is neither shown nor ruled out. Compare longer runs."
    return Notice("Not certain that the second run is no slower", text, "caution")


def _tiles(comparison: Comparison) -> list[Tile]:
    step = comparison.step
    unit = "a sample" if comparison.a_sample else "a step"
    tone = {SLOWER: "slow", FASTER: "good", EQUAL: "", UNSURE: ""}[comparison.verdict]
    return [
        Tile(f"first, {unit}", seconds(step.first_s), many(comparison.first.steps, "step")),
        Tile(f"second, {unit}", seconds(step.second_s), many(comparison.second.steps, "step")),
        Tile("difference", _percent(step.ratio), f"{_percent(step.low)} to {_percent(step.high)}", tone),  # type: ignore[arg-type]
    ]


def _row(row: Row) -> tuple[str, ...]:
    word = "slower" if row.is_slower else "faster" if row.is_faster else ""
    span = f"{_percent(row.low)} to {_percent(row.high)}"
    return _name(row), seconds(row.first_s), seconds(row.second_s), _percent(row.ratio), span, word


def _name(row: Row) -> str:
    name = (_WORDS | _MORE_WORDS).get(row.name, row.name)
    return f"{name}, {row.rank} rank" if row.rank else name


def _percent(ratio: float) -> str:
    if abs(ratio) >= 10:
        return f"{ratio + 1:,.0f} times"
    # Zero has no sign.
    return f"{ratio * 100:+.1f} %" if round(ratio, 3) else "0.0 %"


def _changes(comparison: Comparison) -> list[Block]:
    lines = [
        f"{title}: from about step {count(one.step)} on a step took {_percent(one.ratio)}"
        for title, side in _sides(comparison)
        for one in side.changes
    ]
    lines += [
        f"{title}: {kind_words(kind)} since about step {count(first)}, {cause_words(cause)}, {seconds(lost_s)} lost"
        for title, side in _sides(comparison)
        for kind, cause, first, lost_s in side.findings
    ]
    return [Heading("Since when"), Bullets(tuple(lines))] if lines else []


def _facts(comparison: Comparison) -> list[Block]:
    blocks: list[Block] = [Heading("What else is different")]
    if not comparison.facts:
        return [*blocks, Paragraph("Nothing of what both runs reported.")]
    rows = tuple(tuple(fact) for fact in comparison.facts[:_MOST_FACTS])
    blocks.append(Table(("fact", "first", "second"), rows))
    if len(comparison.facts) > _MOST_FACTS:
        blocks.append(Paragraph(f"{len(comparison.facts) - _MOST_FACTS} more are not listed.", quiet=True))
    return blocks


def _rests(comparison: Comparison) -> list[str]:
    lines = [
        f"{title}: {many(side.steps, 'step')} in {many(side.windows, 'window')}, after "
        f"{many(side.warm_up_steps, 'step')} that were left out: the first allocate, compile and connect"
        for title, side in _sides(comparison)
    ]
    return [*lines, *comparison.notes]


def _sides(comparison: Comparison) -> tuple[tuple[str, Side], tuple[str, Side]]:
    return ("first", comparison.first), ("second", comparison.second)


def as_json(comparison: Comparison) -> bytes:
    """The same as one JSON object; times in seconds, differences as ratios."""
    rows = [row._asdict() for row in (comparison.step, *comparison.rows)]
    sides = {
        title: {**side._asdict(), "changes": [one._asdict() for one in side.changes]}
        for title, side in _sides(comparison)
    }
    shown = comparison._asdict() | {"step": rows[0], "rows": rows[1:], **sides}
    shown["facts"] = [fact._asdict() for fact in comparison.facts]
    return visible(msgspec.json.encode(shown).decode()).encode() + b"\n"
