"""The last word on a recording, in some ten lines for people.

Rule of this file: wording only; every number comes from the summary.
"""

from .summary import JobSummary, Summary


def panel(summary: Summary) -> str:
    """What ``summary`` says, job by job."""
    return "\n".join(line for job in summary.jobs.values() for line in _job(job))


def _job(job: JobSummary) -> list[str]:
    median_s = job.median_step_s
    length = "not measured" if median_s is None else f"{median_s * 1e3:.1f} ms"
    lines = [f"{job.job}: {len(job.nodes)} ranks, {job.steps} steps, median step {length}"]
    lines += [f"Verdict  {finding.summary}" for finding in job.findings.values()]
    return lines
