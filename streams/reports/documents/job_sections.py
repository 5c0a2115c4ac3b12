"""One job in words: what it was, what it did, what it lost and to what, and what was not measured.

Rule of this file: pure words over a ``JobReport``. A number that nobody measured is left out or said to be unknown.
"""

from paceline.events import Finding, advice_on
from paceline.lost_time import COUNTED
from paceline.words import many

from ..job_book import is_open_hang
from ..report import JobReport, PhaseTime
from . import pictures
from .charsets import episode_lines, rank_lines, step_lines
from .document import Block, Bullets, Heading, Notice, Paragraph, Picture, Table, Tile, Tiles
from .finding_words import MOST_LANES, MOST_ROWS, cause_words, findings_table, kind_words, lanes, loss_words
from .pictures import Bar
from .quantities import count, hours, period, seconds, share
from .style import PHASES

_OVERLAYS = {
    "gc": "Python's garbage collector",
    "cpu_wait": "Waiting for a processor",
    "host_bound": "The device's waiting for its host",
}
_PHASE_WORDS = {"communication": "waiting for others", "data": "data loading", "idle": "device idle"}
#: Less than this share of the time is no loss to speak of.
_LITTLE = 0.01


def job_sections(job: JobReport) -> list[Block]:
    """The whole job."""
    return [
        *_opening(job),
        *_lost(job),
        *_findings(job),
        *_course(job),
        *_phases(job),
    ]


def name(job: JobReport) -> str:
    """The job as people call it."""
    cluster = f"{job.cluster}/" if job.cluster not in ("", "default") else ""
    return f"{cluster}{job.job}" + (f", attempt {job.attempt}" if job.attempt else "")


def _opening(job: JobReport) -> list[Block]:
    verdict = _verdict(job)
    return [Paragraph(described(job)), verdict, Tiles(tuple(_tiles(job)))]


def described(job: JobReport) -> str:
    """What it was: ranks, nodes, devices, kind, when."""
    heard = job.heard
    parts = [many(max(heard.ranks_expected, heard.ranks_heard), "rank")]
    if job.nodes:
        parts.append(f"on {many(len(job.nodes), 'node')}" + (f" ({_some(job.nodes)})" if len(job.nodes) <= 4 else ""))
    if job.devices:
        parts.append(f"with {many(job.devices, 'device')}")
    text = " ".join(parts)
    made = [word for word in (job.framework, job.backend) if word]
    text += f", {' over '.join(made)}" if made else ""
    if job.batch_size:
        text += f", batches of {count(job.batch_size)} a rank"
    if job.kind:
        text += f". Kind of job: {kind_words(job.kind)}{_sure(job.kind_probability)}"
    if job.from_s is not None:
        text += f". Watched from {period(job.from_s, job.to_s)}, {seconds(job.elapsed_s)}"
    if job.exit_status is not None:
        text += f". It ended with exit status {job.exit_status}"
    return text + "."


def _sure(probability: float | None) -> str:
    """Never all of it.

    >>> _sure(0.9996), _sure(0.7), _sure(None)
    (' (over 99 % sure)', ' (70 % sure)', '')
    """
    if probability is None:
        return ""
    return f" ({share(probability) if probability < 0.995 else f'over {share(0.99)}'} sure)"


def _some(names: list[str]) -> str:
    return ", ".join(names)


def _verdict(job: JobReport) -> Notice:
    """The one thing to know."""
    if not job.steps:
        return Notice("No steps were received", "The speed of this job is not known.", "caution")
    open_hang = next((one.finding for one in job.episodes if is_open_hang(one.finding)), None)
    if open_hang is not None:
        title = "It hangs" if job.exit_status is None else "It hung until it was ended"
        return Notice(title, open_hang.summary, "slow")
    if died := next((one.finding for one in job.episodes if _died(one.finding)), None):
        return Notice("It died", died.summary.removeprefix("Died: "), "slow")
    part = job.lost_s / job.elapsed_s if job.elapsed_s else 0.0
    if job.lost and part >= _LITTLE:
        first = job.lost[0]
        episode = max(
            (one.finding for one in job.episodes if one.finding.cause == first.cause and one.finding.state in COUNTED),
            key=lambda one: one.cost.lost_s,
        )
        title = f"{share(part)} of its time was lost, most of it to {loss_words(first)}"
        advice = "" if episode.state == "recovered" else advice_on(episode)
        text = episode.summary + (f" Next: {advice}." if advice else "")
        return Notice(title, text, "slow")
    if job.heard.ranks_heard < 2:
        return Notice("No other rank to compare with", "Only one rank reported; a comparison needs two.", "caution")
    if job.heard.ranks_heard < job.heard.ranks_expected:
        unheard = job.heard.ranks_expected - job.heard.ranks_heard
        return Notice("Nothing was found, but data is missing", f"{many(unheard, 'rank')} did not report.", "caution")
    if any(one.finding.kind == "insufficient_data" for one in job.episodes):
        return Notice(
            "Not enough to judge",
            next(e.finding.summary for e in job.episodes if e.finding.kind == "insufficient_data"),
            "caution",
        )
    failed = f"It ended with exit status {job.exit_status}; why, its logs may say: paceline why."
    compared = f"{many(job.heard.ranks_heard, 'rank')} compared over {many(job.steps, 'step')}."
    if job.longest is not None:
        words = f"{job.longest.words.capitalize()}. {failed if job.exit_status else compared}"
        return Notice("No rank is slow all the time", words, "caution")
    if job.exit_status:
        return Notice("It failed, and nothing slowed it down", failed, "caution")
    return Notice("Nothing slowed it down", compared, "good")


def _died(finding: Finding) -> bool:
    """Whether it says that the job ended by itself, and did not run again."""
    return finding.kind == "died" and finding.state != "recovered"


def _tiles(job: JobReport) -> list[Tile]:
    tiles = [Tile("steps", count(job.steps), _span(job))]
    if job.step_median_s is not None:
        tiles.append(
            Tile("median step", seconds(job.step_median_s), f"95 of 100 take less than {seconds(job.step_p95_s)}")
        )
    if job.steps and job.elapsed_s and job.samples_a_step:
        rate = job.steps * job.samples_a_step / job.elapsed_s
        tiles.append(Tile("samples", f"{rate:,.0f}/s", f"{count(job.samples_a_step)} a step"))
    if job.steps:
        part = job.lost_s / job.elapsed_s if job.elapsed_s else 0.0
        tone = "slow" if part >= _LITTLE else "good"
        tiles.append(Tile("time lost", seconds(job.lost_s), f"{share(part, 1)} of the time watched", tone))  # type: ignore[arg-type]
    device_hours = sum(one.device_hours for one in job.lost)
    if device_hours:
        used = job.elapsed_s * max(job.devices, job.heard.ranks_heard) / 3600
        tiles.append(Tile("device-hours lost", hours(device_hours), f"of {hours(used)} taken"))
    waiting = _waiting(job)
    if waiting is not None:
        of = "of the median rank's time, first steps and transfers included"
        tiles.append(Tile("waiting for others", share(waiting), of))
    return tiles


def _waiting(job: JobReport) -> float | None:
    """The median rank's share of time in which it waits, as the table of phases has it; that of windows without one."""
    spent_s = {one.name: one.median_s or 0.0 for one in job.phases if one.name in PHASES}
    total = sum(spent_s.values())
    return spent_s["communication"] / total if "communication" in spent_s and total else job.wait_ratio


def _span(job: JobReport) -> str:
    return (
        "" if job.first_step is None or job.last_step is None else f"{count(job.first_step)} to {count(job.last_step)}"
    )


def _lost(job: JobReport) -> list[Block]:
    if not job.lost:
        return []
    elapsed = job.elapsed_s or 1.0
    rows = tuple(
        (cause_words(one.cause), ", ".join(map(kind_words, one.kinds)), str(one.episodes), seconds(one.lost_s),
         hours(one.device_hours), share(one.lost_s / elapsed, 1))
        for one in job.lost
    )  # fmt: skip
    bars = [
        Bar(
            loss_words(one),
            ((one.lost_s, "var(--slow)", cause_words(one.cause)),),
            f"{seconds(one.lost_s)}, {share(one.lost_s / elapsed, 1)}",
        )
        for one in job.lost
    ]
    head = ("cause", "found as", "findings", "lost", "device-hours", "share of the time")
    return [
        Heading("Time lost by cause", 3),
        Picture(pictures.bars(bars), "Time that the job would have saved without this cause."),
        Table(head, rows, right=(2, 3, 4, 5)),
        Paragraph(
            "Where findings overlap the largest counts at each step, so causes add up. Suspicions cost nothing here.",
            quiet=True,
        ),
    ]


def _findings(job: JobReport) -> list[Block]:
    blocks: list[Block] = [Heading("Findings", 3)]
    if not job.episodes:
        return [*blocks, Paragraph("None.")]
    shown = lanes(job.episodes)
    if shown and job.course is not None:
        caption = "Each finding from its first step to its last: confirmed red, recovered green, others amber."
        if len(job.episodes) > MOST_LANES:
            caption += f" The {MOST_LANES} most expensive of {len(job.episodes)}."
        blocks.append(Picture(pictures.timeline(job.course, shown), caption, episode_lines(job.course, shown)))
    blocks.append(findings_table(job.episodes, job.elapsed_s, ended=job.exit_status is not None))
    if len(job.episodes) > MOST_ROWS:
        blocks.append(Paragraph(f"{len(job.episodes) - MOST_ROWS} more are not listed.", quiet=True))
    return blocks


def _course(job: JobReport) -> list[Block]:
    course = job.course
    if course is None:
        return []
    column = f"A column is {seconds(course.column_s)}."
    blocks: list[Block] = [
        Heading("The step over time", 3),
        Picture(
            pictures.step_times(course),
            f"Blue: the median step; amber: 95 of 100 steps take less. Steps above the axis are cut off. {column}",
            step_lines(course),
        ),
    ]
    if len(course.ranks) > 1:
        shared = (
            ""
            if len(course.ranks) <= pictures.MOST_ROWS
            else " Neighbouring ranks share a row, which shows the slowest of them."
        )
        of = " of its pipeline stage" if len(set(course.stages)) > 1 else ""
        caption = f"Work time in a step, without waiting, relative to the median rank's{of}. Blank: no data.{shared}"
        blocks += [
            Heading("Ranks over time", 3),
            Picture(pictures.ranks_by_time(course), caption, rank_lines(course)),
        ]
    return blocks


def _phases(job: JobReport) -> list[Block]:
    parts = [one for one in job.phases if one.name in PHASES]
    if not parts:
        return []
    ordered = sorted(parts, key=lambda one: list(PHASES).index(one.name))
    bars = [_bar("median rank", [(one.name, one.median_s) for one in ordered])]
    if job.worst_rank is not None:
        bars.append(_bar(f"rank {job.worst_rank}, slowest", [(one.name, one.worst_s) for one in ordered]))
    legend = [(_phase(one.name), PHASES[one.name]) for one in ordered]
    head = ("phase", "median rank", "share", *(() if job.worst_rank is None else (f"rank {job.worst_rank}", "share")))
    total = sum(one.median_s or 0.0 for one in parts)
    worst = sum(one.worst_s or 0.0 for one in parts)
    rows = tuple(_phase_row(one, total, worst, job.worst_rank is not None) for one in ordered)
    overlays = [
        f"{_OVERLAYS[one.name]} took {seconds(one.median_s)} a step of the median rank"
        + (f", {seconds(one.worst_s)} of rank {job.worst_rank}" if job.worst_rank is not None else "")
        for one in job.phases
        if one.name in _OVERLAYS and max(one.median_s or 0.0, one.worst_s or 0.0) >= 0.005 * max(total, 1e-9)
    ]
    inside: list[Block] = [Paragraph("Inside these phases:", quiet=True), Bullets(tuple(overlays))] if overlays else []
    return [
        Heading("Where a step's time goes", 3),
        Picture(
            pictures.bars(bars, legend),
            "The median rank beside the one that works longest. The rank that waits least is the one others wait for. "
            "Means over all steps, the first ones included.",
        ),
        Table(head, rows, right=tuple(range(1, len(head)))),
        *inside,
    ]


def _bar(title: str, parts: list[tuple[str, float | None]]) -> Bar:
    total = sum(value or 0.0 for _, value in parts)
    shown = tuple((value or 0.0, PHASES[one], f"{_phase(one)} {seconds(value)}") for one, value in parts)
    return Bar(title, shown, seconds(total))


def _phase(one: str) -> str:
    return _PHASE_WORDS.get(one, one)


def _phase_row(one: PhaseTime, total: float, worst: float, has_worst: bool) -> tuple[str, ...]:
    def part(value: float | None, whole: float) -> str:
        return share(value / whole) if value is not None and whole else share(None)

    row = (_phase(one.name), seconds(one.median_s), part(one.median_s, total))
    return (*row, seconds(one.worst_s), part(one.worst_s, worst)) if has_worst else row
