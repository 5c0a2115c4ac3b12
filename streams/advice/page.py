"""The advice as a page to read: docs/suggestions.md is made from the tables.

Rule of this file: pure text. What the page says of a rule is what the code does with it.
"""

from collections.abc import Iterable

from .config import CHANGEABLE, AdviceConfig
from .finding_table import BALANCE_LINES, FINDING_TABLE, POWER_CAP, FindingRow
from .lifecycle import FINAL, TRANSITIONS
from .precedence import PRECEDENCE
from .trial import MEASURES
from .use_rules import USE_RULES

_HEAD = """\
# Suggestions: what to do about what was found

Made from the tables in `streams/advice/` by `make docs`. A suggestion says what to do, for whom, what it rests on,
its expected gain (with an interval), its risk, how to do it (steps, and commands to copy), until when
it is valid, and its outcome. It travels on the topic `paceline.suggestion.v1` ([events.md](events.md)), key id,
compacted: a reader that keeps the newest revision of each id knows all.

- `paceline analyze FILE --suggestions [--json]` prints those of a recording, by the same code as on the bus.
- Only confirmed findings count. A finding that is over withdraws a new suggestion, unless the same node was slow in
  other jobs, too.
- A healthy, well-used cluster gets none. Training that fills its GPUs is as it should be.
- There is one of an action on a target at a time; more findings of the same add to it as a new revision.
- Ids are the same in every replay of the same events: a function of cluster, action, target, what began it, and how
  often it was reported before.
"""
_GAIN = """\
## What it should bring

- **A finding with a cost**: steps lose a share of their time, so the job would be 1 / (1 - share) times as fast,
  and the share times its GPUs times 24 are device-hours a day, *were it to last a day*. The interval is as wide as the
  finding is unsure (its `confidence`); the low end of the device-hours takes it to be there for no larger share of the
  time than so far. Where 95 % of the time or more would be lost, no end of the throughput is given: it reads
  *at least*, or nothing. A hang costs all of its GPUs.
- **GPUs that are idle or little used**: as many as the same work leaves free when those that remain are as busy as
  `aimed_use`; the interval is of the least and the most busy ten minutes of the hour.
- **A larger batch, 16 bits**: from nothing, or from little, to what is published; the interval says how little is
  known.
- **A risk** (a faulty device, memory that fills up, versions that differ) has no number: `basis` says so.
- **Money** where `gpu_hour_price` is set.
"""
_STATES = """\
## States

| from | by | to |
|---|---|---|
"""
_SIGNALS = {
    "tell": "reported",
    "accept": "somebody accepts",
    "dismiss": "somebody dismisses",
    "seen": "the data show that it was done",
    "helped": "measured: better",
    "not_helped": "measured: no better",
    "late": "no decision or no measurement in time",
    "gone": "what it rests on is over, or a stronger one replaces it",
}
_SEEN = """
**When the job ends**, what can be done only while it runs (`free_devices`, and what an hour of its GPUs asked for) is
withdrawn. Other suggestions about the job stay open, also on what ended it or what it hung in: their titles begin with
*Next run:*. Those about a node stay as they are. A job that was ended from outside gets none for that.

**Seen in the data** are: the finding recovers after somebody accepted; a new attempt of the job runs without the
node (draining, moving, replacing), with a larger or smaller batch, with fewer ranks (consolidating, freeing), or at
all (what else a job is asked for: the measurement decides); no job uses the node's GPUs for three minutes
(draining); the job has fewer GPUs; an hour of its GPUs is on the other side of the threshold; a balancer reports that
slow ranks take less work (balancing), accepted or not. A finding that ends because another takes its place
(`replaced_by`), as one for many does, shows nothing: what it asked for stays until that one ends.

**Before and after** are in `effect`: the median step time of so many windows of ten seconds as `pace_windows`
says, the first one after left out (samples a second, where the batch changed); how busy its GPUs are, over `use_s`;
or, where neither is measured, whether a finding comes back within `calm_s`. Better by `helped_ratio` is *verified*.
What was not dismissed may come again after `rest_s`, and so may `start_later` after its moment; what was dismissed,
has not helped or has expired after `dismissed_rest_s`.
"""
_LIMITS = """\
## What it cannot know

- **Queues.** No scheduler is asked, so waiting jobs are not known. So `scale_out` is for jobs that serve somebody,
  and `start_later` says when GPUs come free, not who should start.
- **What was done.** A finding that ends after somebody accepted counts as done, by any person. Before and after
  are measured, not compared with a twin: what else changed at that time is in the number.
- **Whose GPUs.** A window of a GPU names the job of the processes there. Where the collector cannot tell, hours of
  GPUs say nothing; and a job that names no attempt is one job, however often it starts.
- **Which kind.** Jobs that step are training; of others the forecaster says the kind. Where it is not sure there is
  no `scale_out`, `larger_batch` or `mixed_precision`.
- **Names.** A command is offered for names that hosts, pods and Slurm jobs have (letters, digits, `.`, `_`, `-`);
  for others there are the steps alone.
- **Time.** Findings hold no time: the cluster's is used, by the windows. Between topics and subjects no
  order is assumed; one that lies far behind the others (more than 15 minutes) looks as if it had left its GPUs, and
  is withdrawn.
- **Sizes.** 1,000 cases, 2,000 jobs, 8,192 jobs on nodes, 10,000 findings and 4,096 slow nodes are remembered of a
  cluster; the oldest go first.
"""


def page() -> str:
    """The whole page."""
    parts = [_HEAD, "## From findings\n", _table(("finding", "cause", "action", "of", "does", "risk"), _findings())]
    parts += [f"`device_fault`: {_repeated()}\n"]
    parts += [f"With `rebalance` of a straggler comes what its script adds:\n\n```python\n{BALANCE_LINES}```\n"]
    parts += ["## From an hour of GPUs, and from forecasts\n", _table(("action", "when", "does", "risk"), _hours())]
    parts += [_GAIN, _STATES + "".join(_transitions()) + _SEEN]
    parts += ["## Contradictions\n", "The first replaces the others, which are held back or withdrawn.\n"]
    parts += [_table(("stronger", "replaces", "about the same", "because"), _precedence())]
    parts += ["## Measured by\n", _table(("action", "before and after"), _measures())]
    parts += [
        "## Thresholds\n",
        "`PACELINE_ADVICE` sets them: `low_use=0.25,gpu_hour_price=2.5`; `PACELINE_CURRENCY` names the currency.\n",
        _table(("name", "default", "from", "to", "what it is"), _thresholds()),
        _LIMITS,
    ]
    return "\n".join(parts).rstrip() + "\n"


def _table(head: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _findings() -> Iterable[tuple[object, ...]]:
    for (kind, cause), row in FINDING_TABLE.items():
        words = "throttling at the power cap" if cause == POWER_CAP else cause or "any"
        yield f"`{kind}`", f"{words}{', critical' if row.critical else ''}", f"`{row.action}`", row.on, *_texts(row)


def _texts(row: FindingRow) -> tuple[str, str]:
    names = {"job": "the job", "where": "the rank or device", "nodes": "the node"}
    return (
        f"{row.title.format(**names)}. {row.steps[0]}",
        f"{row.risk}{': ' + row.risk_reason if row.risk_reason else ''}",
    )


def _repeated() -> str:
    config = AdviceConfig()
    return (
        f"critical fault number {config.repeated_faults} of a GPU is `replace_device`. `straggler`: a node that was "
        f"slow in {config.repeated_jobs} jobs by its own computing, throttling or its link is `cordon_node`, where "
        "each of them had ranks on other nodes, or the same device was slow in both, and jobs run elsewhere, too. "
        "`out_of_memory_risk` of a host is `tune_host`. Every other finding gives nothing."
    )


def _hours() -> Iterable[tuple[object, ...]]:
    config = AdviceConfig()
    when = {
        "scale_out": f"inference or interactive: GPUs more than {config.full_use:.0%} busy",
        "consolidate": f"GPUs idle in more than {config.idle_share:.0%} of the minutes, or under {config.low_use:.0%} "
        "busy on average",
        "mixed_precision": f"training: tensor cores active for less than {config.tensor_ratio:.1%}, multiprocessors "
        f"for {config.tensor_sm_ratio:.0%} and more",
        "larger_batch": f"training: {config.low_use:.0%} to {config.batch_use:.0%} busy, at most "
        f"{config.batch_memory:.0%} of memory used",
    }
    for rule in USE_RULES:
        title = rule.title.format(job="the job")
        yield f"`{rule.action}`", when[rule.action], title, f"{rule.risk}: {rule.risk_reason}"
    yield (
        "`start_later`",
        f"fewer than {config.free_gpus:.0f} GPUs are free now, and with {config.free_probability:.0%} probability "
        f"{config.free_gpus:.0f} more, for an hour, in {config.free_after_s / 60:.0f} minutes or later, today or "
        "tonight, by a forecast that beat the naive one in its back-test",
        "Start what waits for GPUs then",
        "low",
    )


def _transitions() -> Iterable[str]:
    for (state, signal), after in TRANSITIONS.items():
        over = " (over)" if after in FINAL else ""
        yield f"| {state or 'held back'} | {_SIGNALS[signal]} | {after}{over} |\n"


def _precedence() -> Iterable[tuple[object, ...]]:
    for row in PRECEDENCE:
        yield f"`{row.stronger}`", ", ".join(f"`{one}`" for one in row.weaker), row.same, row.why


def _measures() -> Iterable[tuple[object, ...]]:
    words = {
        "pace": "median step time",
        "rate": "samples a second; without batch sizes how busy its GPUs are",
        "use": "how busy its GPUs are",
        "gpus": "idle GPUs",
    }
    for measure, said in words.items():
        yield ", ".join(f"`{action}`" for action, one in MEASURES.items() if one == measure), said
    yield "all others, and where the number is not measured", "findings"


def _thresholds() -> Iterable[tuple[object, ...]]:
    config = AdviceConfig()
    for name, (low, high, words) in CHANGEABLE.items():
        yield f"`{name}`", f"{getattr(config, name):g}", f"{low:g}", f"{high:g}", words
