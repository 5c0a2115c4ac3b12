"""What a trial found: a table, a document, and the command of the winner.

Rule of this file: pure. Placements that cannot be told apart are called so.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from paceline.events.findings import CAUSE_WORDS
from paceline.visible import visible

from .candidates import Candidates
from .estimate import Interval
from .halving import Halving
from .jobs import by_hand
from .outcomes import OUTCOMES
from .placement import Placement
from .result import Told, Verdict
from .spec import NODE_WORDS

#: A phase is worth a word from this share of a step on.
WORTH_SHARE = 0.15
_PHASE_WORDS = {
    "data": "data loading",
    "prepare": "preparing batches",
    "communication": "communication",
    "evaluation": "evaluation",
    "checkpoint": "checkpoints",
    "idle": "an idle device",
    "other": "work between the phases",
}
COLUMNS = ("placement", "", "95 % interval", "relative", "steps", "rung", "ended", "what Paceline says")


def document(
    name: str, candidates: Candidates, halving: Halving, runs: Sequence[Told], command: tuple[str, ...]
) -> dict[str, Any]:
    """All that was found, for ``--json`` and ``result.json``."""
    order = [number for number, _ in halving.ranking()]
    rates = {one.number: halving.estimate(one.number) for one in candidates.possible if one.number not in order}
    order += sorted(rates, key=lambda number: -rate.value if (rate := rates[number]) is not None else 0.0)
    by_number = {one.number: one for one in candidates.possible}
    first = halving.estimate(candidates.possible[0].number) if candidates.possible else None
    rows = [_row(by_number[number], candidates, halving, runs, command, first) for number in order]
    winners = halving.winners() if halving.done else []
    return {
        "schema_version": 1,
        "trial": name,
        "complete": halving.done,
        "unit": "samples/s" if halving.counts_samples else "steps/s",
        "baseline": candidates.possible[0].number if candidates.possible else None,
        "winners": winners,
        "placements": rows,
        "impossible": [
            {"placement": candidates.label(one.placement), "reason": one.reason} for one in candidates.impossible
        ],
        "command": by_hand(by_number[winners[0]], command) if winners else None,
        "notes": _notes(candidates, runs),
    }


def _row(
    placement: Placement,
    candidates: Candidates,
    halving: Halving,
    runs: Sequence[Told],
    command: tuple[str, ...],
    first: Interval | None,
) -> dict[str, Any]:
    number = placement.number
    interval = halving.estimate(number)
    mine = [one for one in runs if one.placement == number]
    failed = [one for one in mine if one.outcome != "measured"]
    return {
        "number": number,
        "placement": candidates.label(placement),
        "values": placement.values() | placement.environ,
        "rate": None if interval is None else interval._asdict(),
        "relative": None if interval is None or first is None else interval.value / first.value,
        "steps": sum(one.steps for one in mine if one.outcome == "measured"),
        "runs": len(mine) - len(failed),
        "rungs": halving.reached(number) + 1 if mine else 0,
        "out": halving.out(number) or None,
        "failures": [
            {"outcome": one.outcome, "reason": one.reason, "said": one.said.splitlines()[-10:]} for one in failed
        ],
        "phases": mine[-1].phases if mine else {},
        "findings": [_told(one) for run in mine[-1:] for one in run.findings],
        "says": says(mine),
        "command": by_hand(placement, command),
    }


def _told(verdict: Verdict) -> dict[str, Any]:
    return {name: getattr(verdict, name) for name in verdict.__struct_fields__}


def says(runs: Sequence[Told]) -> str:
    """What Paceline says of a placement, in a few words: its worst finding, and what else takes of a step."""
    measured = [one for one in runs if one.outcome == "measured"]
    if not measured:
        return ""
    last = measured[-1]
    parts = [_finding(one) for one in last.findings[:1]]
    shares = sorted(((last.phases.get(name, 0.0), name) for name in _PHASE_WORDS), reverse=True)
    parts += [f"{_PHASE_WORDS[name]} takes {share:.0%} of a step" for share, name in shares[:1] if share >= WORTH_SHARE]
    return "; ".join(parts)


def _finding(verdict: Verdict) -> str:
    count = max(verdict.rank_count, len(verdict.ranks))
    ranks = f"rank {verdict.ranks[0]} " if count == 1 and verdict.ranks else f"{count:,} ranks " * bool(count)
    cause = "" if verdict.cause == "unknown" else f": {CAUSE_WORDS.get(verdict.cause, verdict.cause)}"
    kind = "slow" if verdict.kind == "straggler" else verdict.kind.replace("_", " ")
    return f"{ranks}{kind}{cause}"


def _notes(candidates: Candidates, runs: Sequence[Told]) -> list[str]:
    """What a reader should doubt."""
    asked = {one.number: one.batch_size for one in candidates.possible}
    seen = {(asked[run.placement], run.batch_size) for run in runs if run.batch_size is not None}
    notes = [
        f"a batch_size of {wanted} was asked for, and the recording saw batches of {got}: does the script use it?"
        for wanted, got in sorted((pair for pair in seen if None not in pair and pair[0] != pair[1]), key=str)
    ]
    versions = {tuple(sorted(run.versions.items())) for run in runs if run.versions}
    if len(versions) > 1:
        notes.append(
            "runs had different versions: " + "; ".join(" ".join(map(" ".join, one)) for one in sorted(versions))
        )
    return notes[:8]


def table(found: Mapping[str, Any]) -> str:
    """The rows of ``found`` for a person, with what they come to."""
    rows = [(COLUMNS[0], found["unit"], *COLUMNS[2:]), *(_cells(row) for row in found["placements"])]
    widths = [max(len(row[at]) for row in rows) for at in range(len(COLUMNS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([*lines, "", *conclusion(found)])


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    rate = row["rate"]
    return (
        row["placement"],
        "" if rate is None else f"{rate['value']:.4g}",
        "" if rate is None else f"{rate['low']:.4g} to {rate['high']:.4g}",
        "" if row["relative"] is None else f"{row['relative']:.2f}",
        str(row["steps"]),
        str(row["rungs"]),
        _ended(row),
        row["says"],
    )


def _ended(row: Mapping[str, Any]) -> str:
    failures: dict[str, int] = {}
    for one in row["failures"]:
        failures[one["outcome"]] = failures.get(one["outcome"], 0) + 1
    told = [f"{OUTCOMES[outcome]} {count}x" for outcome, count in failures.items()]
    out = [] if row["out"] is None else ["out: slower" if row["out"] == "slower" else "out"]
    return ", ".join([*told, *out])


def conclusion(found: Mapping[str, Any]) -> list[str]:
    """The sentences under the table."""
    names = {row["number"]: row["placement"] for row in found["placements"]}
    lines = [f"note: {note}" for note in found["notes"]]
    for row in found["placements"]:
        if row["failures"]:
            last = row["failures"][-1]
            lines.append(f"{row['placement']}: {OUTCOMES[last['outcome']]}: {last['reason']}")
            lines += [f"    {line}" for line in last["said"][-3:]]
    winners = found["winners"]
    if not found["complete"]:
        lines.append("not complete: no winner yet")
    elif not winners:
        lines.append("no placement could be measured")
    else:
        lines += _winner(names, winners, str(found["command"]))
    return lines


def _winner(names: Mapping[int, str], winners: Sequence[int], command: str) -> list[str]:
    best = f"fastest: {names[winners[0]]}"
    if len(winners) > 1:
        others = ", ".join(names[number] for number in winners[1:6]) + (" and others" if len(winners) > 6 else "")
        best = (
            f"no difference larger than the noise between {names[winners[0]]} and {others}; "
            f"of these {names[winners[0]]} occupies least"
        )
    left = [word for word in (f"{{{name}}}" for name in NODE_WORDS) if word in command]
    each_node = f"run it on each node, with that node's values for {', '.join(left)}:"
    return [best, *([each_node] if left else []), f"  {command}"]


def markdown(found: Mapping[str, Any]) -> str:
    """The report as a page."""
    head = (COLUMNS[0], found["unit"], *COLUMNS[2:])
    rows = [head, ("---",) * len(head), *(_cells(row) for row in found["placements"])]
    lines = ["| " + " | ".join(visible(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]
    left_out = [f"- {one['placement']}: {one['reason']}" for one in found["impossible"]]
    said = "\n".join(f"    {visible(line)}" for line in conclusion(found))
    parts = [f"# Trial {found['trial']}", "\n".join(lines), said]
    return "\n\n".join([*parts, *(["Impossible placements:", "\n".join(left_out)] if left_out else [])]) + "\n"
