"""A whole report as a document: its jobs, machines, advice, and what was not measured.

Rule of this file: the order of things. Words are in the sections beside it.
"""

from paceline.energy.tariff import Tariff
from paceline.words import many

from ..builder import MOST_TOLD
from ..report import JobReport, Report
from .advice_sections import forecast_sections, suggestion_sections
from .document import Block, Bullets, Document, Heading, Paragraph, Table
from .job_sections import job_sections, name
from .machine_sections import machine_sections
from .quantities import hours, left_out_lines, period, seconds, share

_MOST_LISTED = 200


def report_document(report: Report, tariff: Tariff | None = None) -> Document:
    """The report in words; what energy cost by ``tariff``."""
    blocks: list[Block] = []
    if len(report.jobs) == 1:
        blocks += job_sections(report.jobs[0])
    else:
        blocks += _overview(report.jobs)
        for job in report.jobs[:MOST_TOLD]:
            blocks += [Heading(f"Job {name(job)}"), *job_sections(job)]
    blocks += suggestion_sections(report.suggestions)
    blocks += machine_sections(report, tariff or Tariff())
    blocks += forecast_sections(report.forecasts)
    blocks += [Heading("Data used, and what was not measured"), Bullets(tuple(_coverage(report)))]
    return Document(report.title, _subtitle(report), tuple(blocks))


def _subtitle(report: Report) -> str:
    starts = [job.from_s for job in report.jobs if job.from_s is not None]
    ends = [job.to_s for job in report.jobs if job.to_s is not None]
    jobs = many(len(report.jobs), "job")
    return f"{jobs}, {period(min(starts), max(ends))}" if starts and ends else jobs


def _overview(jobs: list[JobReport]) -> list[Block]:
    if not jobs:
        return [Paragraph("No job reported.")]
    rows = tuple(
        (
            name(job),
            str(max(job.heard.ranks_expected, job.heard.ranks_heard)),
            f"{job.steps:,}",
            seconds(job.step_median_s),
            seconds(job.elapsed_s),
            seconds(job.lost_s),
            share(job.lost_s / job.elapsed_s, 1) if job.elapsed_s else "",
            hours(sum(one.device_hours for one in job.lost)),
        )
        for job in jobs[:_MOST_LISTED]
    )
    head = ("job", "ranks", "steps", "median step", "watched", "lost", "share", "device-hours lost")
    slow = tuple(
        at for at, job in enumerate(jobs[:_MOST_LISTED]) if job.elapsed_s and job.lost_s / job.elapsed_s >= 0.05
    )
    return [Heading("Jobs, those that lost most first"), Table(head, rows, right=tuple(range(1, 8)), slow=slow)]


def _coverage(report: Report) -> list[str]:
    items = [line for job in report.jobs[:MOST_TOLD] for line in _of_job(job, alone=len(report.jobs) == 1)]
    items += report.notes
    sampled = {(one.cluster, one.node) for one in report.devices}
    used = {(job.cluster, node) for job in report.jobs for node in job.nodes}
    unsampled = sorted(node for _, node in used - sampled)
    if not report.devices:
        items.append("No GPU was sampled, so use, memory, power, temperature and throttling are not known.")
        if not report.nodes_described:
            items.append("paceline collect, run on the nodes, samples GPUs and hosts.")
    elif unsampled:
        items.append(f"No GPU of {many(len(unsampled), 'node')} was sampled: {_some(unsampled)}.")
    if not report.hosts:
        items.append("No host was sampled: CPU, memory, disk and network of the nodes are not known.")
    if not any(one.energy_j is not None for one in report.devices):
        items.append("Energy was not measured, so this report has neither energy nor its cost.")
    if not report.forecasts:
        items.append("There was no forecast to compare with what was measured.")
    items += [
        f"{node.node}: not measured: {what} ({why})"
        for node in report.nodes_described[:20]
        for what, why in sorted(node.not_measured.items())[:4]
    ]
    return items + left_out_lines(report.left_out)


def _some(names: list[str]) -> str:
    return ", ".join(names[:8]) + (" …" if len(names) > 8 else "")


def _of_job(job: JobReport, *, alone: bool) -> list[str]:
    heard, who = job.heard, "" if alone else f"{name(job)}: "
    items = [f"{who}{heard.ranks_heard:,} of {many(max(heard.ranks_expected, heard.ranks_heard), 'rank')} reported."]
    if job.elapsed_s and heard.told_s < 0.98 * job.elapsed_s:
        silent = job.elapsed_s - heard.told_s
        items.append(f"{who}In {seconds(silent)} ({share(silent / job.elapsed_s)} of the time) no step was reported.")
    if heard.missing_events:
        items.append(f"{who}{many(heard.missing_events, 'message')} are missing.")
    if job.steps and not job.phases:
        items.append(f"{who}No phases were reported: the parts of a step are not known.")
    items += [f"{who}{note}" for note in heard.notes]
    return items
