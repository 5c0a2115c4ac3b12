"""A cluster's report in words.

Rule of this file: pure words over a ``ClusterReport``.
"""

from paceline.gpu.use import IDLE_RATIO
from paceline.series_words import series_words
from paceline.words import many

from ..cluster_report import ClusterReport, Day
from ..report import NextForecast
from . import pictures
from .advice_sections import forecast_sections
from .document import Block, Bullets, Document, Heading, Notice, Paragraph, Picture, Table, Tile, Tiles
from .finding_words import cause_words, kind_words, loss_words
from .job_sections import name
from .pictures import Bar
from .quantities import clock, count, hours, left_out_lines, moment, period, seconds, share

_MOST_NODES, _MOST_JOBS, _MOST_NEXT, _MOST_DAYS = 20, 40, 6, 62
_DAY_S = 86_400.0


def cluster_document(report: ClusterReport) -> Document:
    """The report in words."""
    title = f"Report of cluster {report.cluster}" if report.cluster else "Report of all clusters"
    return Document(
        title,
        f"{period(report.from_s, report.to_s)}",
        (
            *_opening(report),
            *_lost(report),
            *_nodes(report),
            *_trend(report.days),
            *_jobs(report),
            *_next(report.next),
            *forecast_sections(report.scores),
            Heading("Data used, and what was not measured"),
            Bullets(tuple(_rests(report))),
        ),
    )


def _opening(report: ClusterReport) -> list[Block]:
    use, total = report.use, report.use.total
    blocks: list[Block] = []
    if report.lost:
        first = report.lost[0]
        part = f", {share(report.lost_hours / use.used, 1)} of those used" if use.used else ""
        found = many(first.episodes, "finding")
        text = f"Most of it: {loss_words(first)}, {hours(first.device_hours)} device-hours in {found}."
        blocks.append(Notice(f"{hours(report.lost_hours)} device-hours were lost{part}", text, "slow"))
    elif report.jobs:
        blocks.append(Notice("No job was slowed down", f"{many(len(report.jobs), 'job')} watched.", "good"))
    else:
        blocks.append(Notice("No job reported", "", "caution"))
    tiles = [Tile("devices sampled", count(report.devices)), Tile("jobs", count(len(report.jobs)))]
    if total:
        tiles += [
            Tile("device-hours used", hours(use.used), f"{share(use.used / total)} of those measured"),
            Tile("idle", hours(use.idle), f"{share(use.idle / total)}; jobs held {hours(use.held)} of them"),
        ]
        if use.unknown:
            tiles.append(Tile("not measured", hours(use.unknown), share(use.unknown / total)))
    if report.lost:
        tiles.append(Tile("lost", hours(report.lost_hours), "device-hours, by findings", "slow"))
    return [*blocks, Tiles(tuple(tiles))]


def _lost(report: ClusterReport) -> list[Block]:
    if not report.lost:
        return []
    bars = [
        Bar(
            loss_words(one),
            ((one.device_hours, "var(--slow)", cause_words(one.cause)),),
            f"{hours(one.device_hours)} h",
        )
        for one in report.lost
    ]
    rows = tuple(
        (
            cause_words(one.cause),
            ", ".join(map(kind_words, one.kinds)),
            str(one.episodes),
            hours(one.device_hours),
            seconds(one.lost_s),
        )
        for one in report.lost
    )
    head = ("cause", "found as", "findings", "device-hours", "time of jobs")
    return [
        Heading("Device-hours lost by cause"),
        Picture(pictures.bars(bars), "Device-hours lost to each cause."),
        Table(head, rows, right=(2, 3, 4)),
    ]


def _nodes(report: ClusterReport) -> list[Block]:
    if not report.nodes:
        return []
    several = len({one.cluster for one in report.nodes}) > 1
    rows = tuple(
        (
            f"{one.cluster}/{one.node}" if several else one.node,
            hours(one.lost_hours),
            str(one.findings),
            ", ".join(map(kind_words, one.kinds)),
            hours(one.throttled_hours),
            share(one.use.idle / one.use.total) if one.use.total else share(None),
        )
        for one in report.nodes[:_MOST_NODES]
    )
    head = ("node", "device-hours lost to it", "findings", "found as", "device-hours throttled", "idle")
    blocks: list[Block] = [Heading("Worst nodes"), Table(head, rows, right=(1, 2, 4, 5))]
    if len(report.nodes) > _MOST_NODES:
        more = f"{len(report.nodes) - _MOST_NODES:,} more were named or throttled, and are not listed."
        blocks.append(Paragraph(more, quiet=True))
    return blocks


def _trend(days: list[Day]) -> list[Block]:
    if not days:
        return []
    days = days[-_MOST_DAYS:]
    labels = [clock(day.start_s, 8 * _DAY_S) for day in days]
    rows = tuple(
        (label, *map(hours, _sampled_hours(day)), hours(day.lost_hours))
        for label, day in zip(labels, days, strict=True)
    )
    blocks: list[Block] = [Heading("Day by day")]
    if len(days) > 1:
        curves = [
            ("used", "var(--accent)", [day.use.used for day in days]),
            ("idle", "var(--faint)", [day.use.idle for day in days]),
            ("lost", "var(--slow)", [day.lost_hours for day in days]),
        ]
        blocks.append(Picture(pictures.lines(curves, labels, "h"), "Device-hours by day."))
    note = Paragraph("Device-hours; days are UTC. A finding counts on the day on which it began.", quiet=True)
    return [
        *blocks,
        note,
        Table(("day", "used (h)", "idle (h)", "not measured (h)", "lost (h)"), rows, right=(1, 2, 3, 4)),
    ]


def _sampled_hours(day: Day) -> tuple[float | None, ...]:
    """Used, idle and not measured; of a day on which no device was sampled none is known."""
    use = day.use
    return (use.used, use.idle, use.unknown) if use.total + use.unknown else (None, None, None)


def _jobs(report: ClusterReport) -> list[Block]:
    if not report.jobs:
        return []
    rows = tuple(
        (
            name(job),
            str(max(job.heard.ranks_expected, job.heard.ranks_heard)),
            seconds(job.elapsed_s),
            hours(job.elapsed_s * max(job.devices, job.heard.ranks_heard) / 3600),
            hours(sum(one.device_hours for one in job.lost)),
            share(job.lost_s / job.elapsed_s) if job.elapsed_s else share(None),
            loss_words(job.lost[0]) if job.lost else "",
        )
        for job in report.jobs[:_MOST_JOBS]
    )
    head = ("job", "ranks", "watched", "device-hours", "of them lost", "share", "most of it")
    blocks: list[Block] = [Heading("Jobs, those that lost most first"), Table(head, rows, right=(1, 2, 3, 4, 5))]
    if len(report.jobs) > _MOST_JOBS:
        more = f"{len(report.jobs) - _MOST_JOBS:,} more, which lost no more than these, are not listed."
        blocks.append(Paragraph(more, quiet=True))
    return blocks


def _next(forecasts: list[NextForecast]) -> list[Block]:
    blocks: list[Block] = []
    for one in forecasts[:_MOST_NEXT]:
        length_s = one.interval_s * len(one.median)
        labels = [clock(one.start_s + one.interval_s * (at + 1), length_s) for at in range(len(one.median))]
        curves = [("median", "var(--accent)", one.median)]
        if one.low:
            curves = [("10 %", "var(--faint)", one.low), *curves, ("90 %", "var(--faint)", one.high)]
        mean = f"{sum(one.median) / len(one.median):,.3g} {one.unit}"
        caption = f"The next {seconds(length_s)} from {moment(one.start_s)}, on average {mean}."
        span = f"at least {min(one.median):,.3g}, at most {max(one.median):,.3g}"
        blocks += [
            Heading(series_words(one.series), 3),
            Picture(pictures.lines(curves, labels, one.unit), caption),
            Paragraph(f"On average {mean}, {span}."),
        ]
    return [Heading("Forecasts"), *blocks] if blocks else []


def _rests(report: ClusterReport) -> list[str]:
    used = f"A device counts as used while it is busy at least {share(IDLE_RATIO)} of the time, else as idle."
    items = [f"{many(report.devices, 'device')} sampled. {used}"]
    if not report.devices:
        items = ["No device was sampled, so hours used and idle are not known: paceline collect samples them."]
    if report.joined_hours:
        items.append(
            f"{hours(report.joined_hours)} device-hours are of five-minute windows that do not say how much of them a "
            f"device was used: if it was busy at least {share(IDLE_RATIO)} on average, they count as used."
        )
    if not report.next:
        items.append("No forecast of the cluster: start paceline forecaster.")
    return items + left_out_lines(report.left_out) + report.notes
