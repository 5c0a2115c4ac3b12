"""Numbers and findings in words, as page, terminal and alerts say them.

Rule of this file: pure. Names in a finding come from other people's jobs: whoever shows these words makes them safe for
the place where they are shown.
"""

from collections.abc import Iterable, Sequence

from msgspec import UNSET

from paceline.accused_units import accused_ranks, many_of, unit_of
from paceline.events import CAUSE_WORDS, Evidence, Finding
from paceline.ranges import ranges

KINDS = {
    "straggler": "Straggler",
    "stage_imbalance": "Uneven stages",
    "data_imbalance": "Uneven data",
    "load_imbalance": "Uneven load",
    "communication_bound": "Communication-bound",
    "data_bound": "Data-bound",
    "hang": "Hang",
    "device_fault": "Device fault",
    "slowdown": "Job-wide slowdown",
    "idle_device": "Idle GPU",
    "out_of_memory_risk": "Memory is filling up",
    "out_of_memory": "Out of memory",
    "balanced_straggler": "Slow rank, balanced",
    "configuration_mismatch": "Different configuration of ranks",
    "node_silent": "Silent node",
    "below_rating": "Below rated speed",
    "insufficient_data": "Not enough data",
    "died": "Died",
    "collective_mismatch": "Different collectives",
    "order_deadlock": "Deadlock of groups",
    "network": "Network fault",
    "waiting": "Waiting, no hang",
}
NONE = "not measured"
#: Whom a finding is about where it accuses nobody.
WHOLE_JOB = "the whole job"
#: The heading of the median rank's share of a step that it waits for other ranks, wherever it is a column.
WAITING = "waiting"
#: What is before 1971 counts from 0: it is a time without a date.
UNDATED_S = 365 * 86_400.0
#: Kinds that accuse no rank: what holds the job back is the job itself, or nothing can be said.
_OF_THE_JOB = (
    "communication_bound",
    "data_bound",
    "data_imbalance",
    "slowdown",
    "insufficient_data",
    "configuration_mismatch",
)
#: Kinds whose nodes are those of the accused, also where their ranks' numbers are not known.
_OF_RANKS = ("hang", "collective_mismatch", "died")
LONGEST_NAME, LONGEST_LINE = 60, 120
#: Unit -> its scales, the largest first; what is below all of them takes the last.
_SCALES = {
    "bytes": ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B")),
    "bytes/s": ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s")),
    "flop/s": ((1e12, "Tflop/s"), (1e9, "Gflop/s")),
}


def seconds(value: float | None) -> str:
    """A duration with three significant digits: 813 µs, 12.4 ms, 1.52 s, 3 min 20 s, 2 h 5 min.

    >>> seconds(0.0124), seconds(-7500.0), seconds(0.0), seconds(None)
    ('12.4 ms', '-2 h 5 min', '0 s', 'not measured')
    """
    number, unit = seconds_parts(value)
    return f"{number} {unit}".strip()


def seconds_parts(value: float | None) -> tuple[str, str]:
    """The same as number and unit, for numbers that are set large."""
    if value is None or value != value:
        return NONE, ""
    if value < 0:
        number, unit = seconds_parts(-value)
        return f"-{number}", unit
    if value >= 7200:
        return f"{int(value // 3600)} h {int(value % 3600 // 60)}", "min"
    if value >= 120:
        return f"{int(value // 60)} min {int(value % 60)}", "s"
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value >= 0.9995 * scale:  # what is below has four digits once it is rounded
            return digits(value / scale), unit
    return ("0", "s") if value == 0 else (digits(value * 1e6), "µs")


def step_time(value: float) -> str:
    """A time of each step, in a sentence: whole milliseconds, and from a second on seconds, as the tables beside it.

    >>> step_time(0.2341), step_time(0.9996), step_time(1.57)
    ('234 ms', '1.00 s', '1.57 s')
    """
    return f"{value * 1e3:.0f} ms" if value < 0.9995 else f"{value:.2f} s"


def digits(value: float) -> str:
    """Three significant digits, no exponent below a million."""
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}" if abs(value) < 100 else f"{value:.0f}"


def is_undated(then_s: float, now_s: float) -> bool:
    """Whether ``then_s`` counts from 0 and says nothing of a date: it is of 1970, and now is not."""
    return then_s < UNDATED_S <= now_s


def age(now_s: float, then_s: float | None) -> str:
    """How long ago: just now, 12 s ago. Clocks that are apart never make it negative; no time of 0 is a date.

    >>> age(1.8e9, 1.8e9 - 42.0), age(1.8e9, 1.8e9 - 601.0)
    ('42 s ago', '10 min ago')
    >>> age(1.8e9, None), age(1.8e9, 0.0), age(1.8e9, 7.5)
    ('never', 'never', 'at an unknown time')
    """
    if then_s is None or (then_s == 0.0 and now_s >= UNDATED_S):
        return "never"
    if is_undated(then_s, now_s):
        return "at an unknown time"
    gone = max(0.0, now_s - then_s)
    if 600 <= gone < 7200:
        return f"{round(gone / 60)} min ago"
    return "just now" if gone < 1.5 else f"{round(gone)} s ago" if gone < 120 else f"{seconds(gone)} ago"


def many(number: int, word: str) -> str:
    """A number with its noun.

    >>> many(1, "rank"), many(2048, "rank")
    ('1 rank', '2,048 ranks')
    """
    return f"{number:,} {word if number == 1 else word + 's'}"


def ranks(numbers: Iterable[int], most: int = 6, count: int = 0) -> str:
    """Ranks in words: no rank, rank 2, ranks 1, 5 and 3 more; ``count`` where there are more than ``numbers``.

    >>> ranks([5, 1]), ranks(range(256), most=2, count=300)
    ('ranks 1, 5', 'ranks 0, 1 and 298 more')
    """
    held = sorted(numbers)
    count = max(count, len(held))
    if not held:
        return "no rank"
    if count == 1:
        return f"rank {held[0]}"
    shown = held[:most]
    listed = ", ".join(map(str, shown))
    return f"ranks {listed}" + (f" and {count - len(shown):,} more" if count > len(shown) else "")


def subject(finding: Finding) -> str:
    """Whom or what a finding is about: the ranks accused, or the node or switch that they make up, else the stage,
    group, GPU or node, else the whole job; of a finding for many, their number."""
    held = many_of(finding)
    if held is not None and held.what != "ranks":
        return held.words
    if unit := unit_of(finding):
        return f"{unit} (rank{'s' if len(finding.ranks) > 1 else ''} {ranges(finding.ranks)})"
    if finding.ranks:
        return ranks(finding.ranks, count=accused_ranks(finding))
    if finding.kind in _OF_RANKS and finding.nodes:
        return _few(finding.nodes)
    if finding.stage is not None:
        return f"stage {finding.stage}"
    if finding.group:
        return f"group {finding.group}"
    if finding.kind in _OF_THE_JOB:
        return WHOLE_JOB
    if finding.kind == "network" and finding.nodes and finding.devices:
        return f"{_few(finding.nodes)} ({_few(finding.devices)})"
    return _few(finding.devices or finding.nodes) or WHOLE_JOB


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def verdict(finding: Finding) -> str:
    """A finding in one line: its kind, whom it is about and the cause, where it has a name, else the line of code."""
    why = cause(finding) if has_cause(finding) or finding.kind == "straggler" else line_of(finding)
    return f"{kind(finding)}: {subject(finding)}{f', {why}' if why else ''}"


def kind(finding: Finding) -> str:
    """A finding's kind in a few words; of a newer Paceline's, its name."""
    return KINDS.get(finding.kind) or _plain(finding.kind).capitalize()


def state_words(kind: str, state: str) -> str:
    """A finding's state as it is shown: with too little data nothing is confirmed or suspected.

    >>> state_words("straggler", "confirmed"), state_words("insufficient_data", "confirmed")
    ('confirmed', 'no verdict')
    """
    return "no verdict" if kind == "insufficient_data" and state != "recovered" else state


def is_confirmed(finding: Finding) -> bool:
    """Whether it is a confirmed verdict."""
    return state_words(finding.kind, finding.state) == "confirmed"


def line_of(finding: Finding) -> str:
    """Where in the code its ranks are, where that is known: ``train.py:45 evaluate``; and where the worker of a data
    loader is, if they wait for that: ``train.py:9 step, loader worker at dataset.py:54 read``."""
    worker = f"loader worker at {finding.worker_line[:LONGEST_LINE]}" if finding.worker_line else ""
    return ", ".join(filter(None, [(finding.line or "")[:LONGEST_LINE], worker]))


def has_cause(finding: Finding) -> bool:
    """Whether its cause has a name, as of many findings alike; one of ``paceline why`` is a sentence, its summary."""
    return finding.cause != "unknown" and " " not in finding.cause


def cause(finding: Finding) -> str:
    """A finding's cause in a few words; of a newer Paceline's, its name."""
    return CAUSE_WORDS.get(finding.cause) or _plain(finding.cause)


def label(finding: Finding) -> str:
    """A finding in very few words, beside the ranks that it is about: its cause; without one its kind and line."""
    if has_cause(finding):
        return cause(finding)
    where = cause(finding) if finding.kind == "straggler" else line_of(finding)
    return ", ".join(filter(None, [kind(finding), where]))


def cost(finding: Finding) -> str:
    """What a finding has cost so far; what cannot be told is left out."""
    parts = []
    if finding.cost.lost_s > 0 or finding.first_step >= 0:
        parts.append(seconds(finding.cost.lost_s))
    if finding.cost.gpu_hours > 0 or finding.first_step >= 0:
        parts.append(f"{digits(finding.cost.gpu_hours)} device-hours")
    return "cost " + ", ".join(parts) if parts else "cost not estimated"


def _plain(name: str) -> str:
    """A name that this version has no words for; names are of other processes, and may be of any length."""
    return name.replace("_", " ")[:LONGEST_NAME]


def scale(value: float, unit: str) -> tuple[float, str]:
    """What numbers of ``unit``, of which ``value`` is typical, are divided by to be read, and their unit then.

    >>> scale(3 * 2.0**20, "bytes"), scale(2e9, "bytes/s"), scale(5.0, "W")
    ((1048576.0, 'MiB'), (1000000000.0, 'GB/s'), (1.0, 'W'))
    """
    scales = _SCALES.get(unit, ((1.0, unit),))
    return next((one for one in scales if abs(value) >= 0.9995 * one[0]), scales[-1])


def quantity(value: float | None, unit: str) -> str:
    """A number of evidence with its unit; seconds and ratios as people read them.

    >>> quantity(0.67, "ratio"), quantity(0.0005, "ratio"), quantity(0.003, "s/step"), quantity(None, "ratio")
    ('67.0 %', '0.05 %', '3.00 ms a step', '-')
    """
    if value is None or value != value:
        return "-"
    if unit in ("s", "seconds", "s/step"):
        each = " a step" if unit == "s/step" else ""
        return (seconds(value) if value >= 0 else "-" + seconds(-value)) + each
    if unit in _SCALES:
        divisor, name = scale(value, unit)
        return f"{value:.0f} B" if name == "B" else f"{digits(value / divisor)} {name}"
    if unit == "ratio":
        return f"{digits(100.0 * value)} %"
    if unit == "":
        return digits(value)
    if unit in ("XID", "number"):
        return f"{value:.0f}"
    if float(value).is_integer():
        return f"{value:,.0f} {unit}"
    return f"{digits(value)} {unit}".strip()


#: What people read in place of a name that says too little by itself; events keep their names.
EVIDENCE = {
    ("own_time", "s/step"): "work time",
    ("excess", "ratio"): "extra time per step",
    ("lateness", "s/step"): "arrives late by",
    ("spread", "ratio"): "variation between micro-batches",
    ("alike", "correlation"): "forward and backward agree",
    ("held_back", "ratio"): "time lost per step",
    ("pace", "s/step"): "step time",
    ("nodes_speaking", "nodes"): "nodes reporting",
    ("peers_steps", "steps"): "steps completed by its peers",
    ("ranks_heard", "ranks"): "ranks reporting",
    ("missing_reached", "number"): "last collective of the missing ranks",
}
#: How names begin that end with a part of the step.
_PARTS = {"excess_": "extra time in", "grown_": "growth in"}


def evidence_name(item: Evidence) -> str:
    """What a number of evidence measures, without its unit; and whose it is, if one rank's.

    >>> evidence_name(Evidence(name="excess_other", value=0.1, unit="s/step", peers=0.0, rule=""))
    'extra time in other work'
    """
    name = EVIDENCE.get((item.name, item.unit)) or item.name.removesuffix(f"_{item.unit}").replace("_", " ")
    for start, words in _PARTS.items():
        if item.name.startswith(start):
            part = item.name.removeprefix(start).replace("_", " ")
            name = f"{words} {part}{' work' if part == 'other' else ''}"
    return name if item.rank is UNSET else f"{name} of rank {item.rank}"


def measured(item: Evidence) -> str:
    """A number of evidence on one line, with the peers' beside it."""
    peers = "" if item.peers is None else f", peers {quantity(item.peers, item.unit)}"
    return f"{evidence_name(item)}: {quantity(item.value, item.unit)}{peers}"


#: Names that one sentence lists.
MOST_LISTED = 8


def listed(kind: str, names: Sequence[str]) -> str:
    """Which there are of a ``kind``, in one clause: the end of a refusal of a name that there is not.

    >>> listed("running job", []), listed("running job", ["a", "b"])
    ('there is no running job', 'running jobs: a, b')
    """
    if not names:
        return f"there is no {kind}"
    more = f" and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
    return f"{kind}{'s' * (len(names) > 1)}: {', '.join(name[:100] for name in names[:MOST_LISTED])}{more}"


def joined(names: Sequence[str]) -> str:
    """Names in a sentence, of one or more.

    >>> joined(["a"]), joined(["a", "b", "c"]), joined([str(number) for number in range(10)])
    ('a', 'a, b and c', '0, 1, 2, 3, 4, 5, 6, 7 and 2 more')
    """
    shown = [name[:100] for name in names[:MOST_LISTED]]
    last = f"{len(names) - len(shown)} more" if len(names) > len(shown) else shown.pop()
    return f"{', '.join(shown)} and {last}" if shown else last
