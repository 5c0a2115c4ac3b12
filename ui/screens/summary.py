"""Title, notice and tiles of a job."""

import streamlit as st

from paceline import words
from paceline.lost_time import lost_s

from .. import wording
from ..headline import Headline, reporting, works_longer
from ..notices import Notice, aimed, standing
from ..snapshot import JobView, Snapshot
from ..theme import CAUTION, FAINT, GOOD, SLOW
from ..wording import safe

TONES = {"good": GOOD, "wait": CAUTION, "lost": SLOW, "ended": FAINT}


def draw_title(snapshot: Snapshot, title: str | None = None) -> None:
    """The page's ``title``; without one the job's name, state and size, or the product's where there is no job."""
    job, now_s = snapshot.job, snapshot.now_s
    if title is not None:
        st.html(f'<div class="pl"><h1>{safe(title)}</h1></div>')
        return
    if job is None:
        st.html('<div class="pl"><h1>Paceline</h1><p class="muted">Which rank is slow, since when and why</p></div>')
        return
    state, tone = standing(job, now_s)
    if snapshot.connection.state in ("lost", "failed"):
        state, tone = f"{state} when last seen", "lost"
    parts = [
        f"{reporting(job)} of {job.world_size} ranks reporting",
        job.backend,
        f"attempt {job.attempt}" if job.attempt else "",
    ]
    parts += [f"step {job.steps[-1]:,}" if job.steps.size else "", f"updated {words.age(now_s, job.last_s)}"]
    st.html(
        f'<div class="pl"><h1>{safe(job.name)}</h1><p class="muted">'
        f'<span class="pl-dot" style="background:{TONES[tone]}"></span>'
        f"{safe(' · '.join([state, *filter(None, parts)]))}</p></div>"
    )


def draw_notice(notice: Notice, brokers: str) -> None:
    """A message with the commands that fix it, as one types them for the ``brokers`` of this page."""
    commands = "".join(
        f'<div><code>{safe(command)}</code><span class="muted">{safe(what)}</span></div>'
        for command, what in aimed(notice, brokers).commands
    )
    st.html(
        f'<div class="pl pl-notice {notice.tone}" role="status"><b>{safe(notice.title)}</b>'
        f'<p class="muted">{safe(notice.text)}</p><div class="do">{commands}</div></div>'
    )


def draw_tiles(job: JobView, numbers: Headline, now_s: float) -> None:
    """The headline: what the median rank and the worst do, and what the open findings cost."""
    latest = [episode[-1] for episode in job.episodes]
    accused = {rank for one in latest if one.state != "recovered" and one.first_step >= 0 for rank in one.ranks}
    slow = "slow" if numbers.worst_rank in accused else ""
    of = "the other rank" if numbers.pair else "the median rank"
    factor = f"{numbers.factor:.2f}{wording.TIMES} {of}" if numbers.factor is not None else ""
    worst = f"Slowest rank: {numbers.worst_rank}" if numbers.worst_rank is not None else "Slowest rank"
    where = job.places.get(numbers.worst_rank, "") if numbers.worst_rank is not None else ""
    p95 = f"95 % within {words.seconds(numbers.step_p95_s)}" if numbers.step_p95_s is not None else ""
    open_now = [episode[-1] for episode in job.episodes if episode[-1].state != "recovered"]
    confirmed = sum(map(words.is_confirmed, open_now))
    longer = None if open_now else works_longer(job)
    quiet = "no slow rank" if longer is None else f"rank {longer.rank} works longer than the others"
    ended, note = job.ended_s is not None, f"{confirmed} confirmed" if open_now else quiet
    tiles = [
        tile("Step time, all ranks", words.seconds_parts(numbers.step_s), p95),
        tile("Work time, median rank", words.seconds_parts(numbers.own_s), "without waiting"),
        tile(worst, words.seconds_parts(numbers.worst_s), " · ".join(filter(None, [factor, where])), slow),
        tile("Waiting for other ranks", parts(wording.ratio(numbers.wait_ratio)), "of the median rank's step"),
        tile("Findings at the end" if ended else "Open findings", (str(len(open_now)), ""), note),
        tile("Time lost", words.seconds_parts(lost_s(latest)), f"{'in total' if ended else 'so far'}, by all findings"),
    ]
    if job.energy is not None:
        tiles.append(tile("Energy", job.energy.total, job.energy.note))
    foot = f"{numbers.source}, updated {words.age(now_s, numbers.as_of_s)}" if numbers.as_of_s else numbers.source
    foot += f" · energy: {job.energy.detail}" if job.energy is not None else ""
    st.html(f'<div class="pl"><div class="pl-tiles">{"".join(tiles)}</div><p class="muted">{safe(foot)}</p></div>')


def parts(text: str) -> tuple[str, str]:
    """A number and its unit, for tiles; words stay together."""
    number, _, unit = text.rpartition(" ") if text[:1].isdigit() or text[:1] == "-" else ("", "", "")
    return (number, unit) if number else (text, "")


def tile(label: str, value: tuple[str, str], note: str, kind: str = "") -> str:
    """A number set large with its unit, its label above and a note below; ``kind`` is its class."""
    number, unit = value
    size = ' style="font-size:1.05rem;line-height:1.9"' if number == words.NONE else ""
    return (
        f'<div class="pl-tile {kind}"><div class="label">{safe(label)}</div>'
        f'<div class="value"{size}>{safe(number)}<small>{safe(unit)}</small></div>'
        f'<div class="note">{safe(note)}</div></div>'
    )
