"""The findings of a job: a card each, open ones first."""

import streamlit as st

from paceline import words
from paceline.events import Finding, advice_on
from paceline.events.findings import is_of_nodes
from paceline.work_time import Longest

from .. import wording
from ..findings_book import Episode
from ..headline import works_longer
from ..history_link import address
from ..snapshot import JobView, name_of
from ..theme import FAINT, state_colour
from ..wording import Anchor, safe

#: Cards drawn; the rest is counted.
CARDS = 8


def draw(job: JobView, now_s: float, rank: int | None = None) -> None:
    """A card for each episode; of the page of one ``rank``, those of that rank."""
    st.html('<div class="pl"><h2>Findings</h2></div>')
    if not job.episodes:
        _none(works_longer(job), rank)
    for number, episode in enumerate(job.episodes[:CARDS]):
        _card(episode, opened=number == 0)
    if len(job.episodes) > CARDS:
        st.caption(f"and {len(job.episodes) - CARDS} older ones")


def _none(longest: Longest | None, rank: int | None) -> None:
    """That there is no finding: not that no rank is slow, where the page's own numbers show one."""
    later = "A finding appears here when a rank has been slow for long enough."
    if longest is not None and rank in (None, longest.rank):
        words = f"{longest.words.capitalize()}, over the newest steps. {later}"
        st.html(
            '<div class="pl pl-notice wait"><b>No finding names a slow rank</b>'
            f'<p class="muted">{safe(words)}</p></div>'
        )
        return
    title = "No rank is slow" if rank is None else f"Rank {rank} is not slow"
    st.html(f'<div class="pl pl-notice good"><b>{title}</b><p class="muted">{later}</p></div>')


def draw_others(episodes: list[Episode], job: str | None) -> None:
    """Findings of nodes that are not of the job shown, those that are open, in short."""
    open_now = [one[-1] for one in episodes if one[-1].state != "recovered" and one[-1].job != job]
    for finding in open_now[:CARDS]:
        state = words.state_words(finding.kind, finding.state)
        colour = state_colour(state)
        st.html(
            f'<div class="pl"><span class="pl-badge" style="color:{colour}">{safe(state)}</span>'
            f'<span class="pl-badge" style="color:{FAINT}">{safe(finding.severity)}</span>'
            f"<b>{safe(words.verdict(finding))}</b><p>{safe(finding.summary)}</p>"
            f'<p class="muted">{_kept(finding)}</p></div>'
        )
    if len(open_now) > CARDS:
        st.caption(f"and {len(open_now) - CARDS} more")


def _card(episode: tuple[Finding, ...], *, opened: bool) -> None:
    finding = episode[-1]
    with st.container(border=True, key=f"finding-{finding.id}"):
        st.html(_head(finding))
        if finding.evidence and (opened or finding.state != "recovered"):
            st.html(_evidence(finding))
        with st.expander(f"Details, {len(episode)} revision{'s'[: len(episode) - 1]}", key=f"more-{finding.id}"):
            if finding.state == "recovered" and not opened:
                st.html(_evidence(finding))
            st.html(_rest(finding))
            st.html(_history(episode))


def _head(finding: Finding) -> str:
    state = words.state_words(finding.kind, finding.state)
    colour = state_colour(state)
    where = ", ".join([*finding.nodes[:3], *finding.devices[:3]])
    of_steps = finding.first_step >= 0
    facts = [
        f"steps {finding.first_step:,} to {finding.last_step:,}" if of_steps else "",
        f"confidence {wording.ratio(finding.confidence)}",
        words.cost(finding),
        f"{wording.ratio(finding.cost.throughput_lost_ratio)} of throughput" if of_steps else "",
    ]
    return (
        f'<div class="pl"><span class="pl-badge" style="color:{colour}">{safe(state)}</span>'
        f'<span class="pl-badge" style="color:{FAINT}">{safe(finding.severity)}</span>'
        f'<span class="muted">{safe(where)}</span>'
        f'<div class="pl-head">{safe(words.verdict(finding))}</div>'
        f'<p>{safe(finding.summary)}</p><p class="muted">{safe(" · ".join(filter(None, facts)))}</p>'
        f"{_next(finding)}{_cleared(finding)}</div>"
    )


def _next(finding: Finding) -> str:
    """What to do about it, while it is open; the summary of a node's finding, or of a hang, says so itself."""
    advice = advice_on(finding)
    if not advice or advice in finding.summary or is_of_nodes(finding) or finding.state == "recovered":
        return ""
    return f"<p><b>Next:</b> {safe(advice)}.</p>"


def _cleared(finding: Finding) -> str:
    """What was checked and is not to blame: on the card itself where nobody is accused."""
    if finding.ranks or not finding.exonerated:
        return ""
    return f'<p class="muted">{safe("Cleared: " + "; ".join(finding.exonerated))}</p>'


def _evidence(finding: Finding) -> str:
    head = [("Evidence", ""), ("own", "n"), ("peers", "n")]
    rows = [
        [
            (words.evidence_name(item), ""),
            (words.quantity(item.value, item.unit), "n own" if wording.apart(item.value, item.peers) else "n"),
            (words.quantity(item.peers, item.unit), "n"),
        ]
        for item in finding.evidence
    ]
    return wording.table(head, rows)


def _rest(finding: Finding) -> str:
    covered = finding.coverage
    lines = [f"{words.evidence_name(item)}: {item.rule}" for item in finding.evidence if item.rule]
    lines += [f"Cleared: {words}" for words in finding.exonerated]
    lines.append(f"Coverage: {covered.ranks_heard} of {covered.ranks_expected} ranks reported")
    lines[-1] += f", {covered.events_missing} events missing"
    lines += [f"Note: {words}" for words in covered.notes]
    shown = "".join(f'<p class="muted">{safe(line)}</p>' for line in lines)
    return (
        f'<div class="pl">{shown}<p class="muted">{_kept(finding)}</p><p class="muted">id {safe(finding.id)}</p></div>'
    )


def _kept(finding: Finding) -> str:
    """Links to what is kept of the same job, node and cause."""
    ways = [("this job", address(job=name_of(finding.cluster, finding.job)))] if finding.job else []
    ways += [(f"node {node}", address(node=node)) for node in finding.nodes[:3]]
    ways += [(f"{words.cause(finding)}, anywhere", address(cause=finding.cause))] * words.has_cause(finding)
    return "History of " + ", ".join(wording.cell(Anchor(text[:80], way)) for text, way in ways)


def _history(episode: tuple[Finding, ...]) -> str:
    head = [("rev.", "n"), ("state", ""), ("to step", "n"), ("cause", ""), ("conf.", "n"), ("lost", "n")]
    rows = [
        [
            (finding.revision, "n"),
            (words.state_words(finding.kind, finding.state), ""),
            (f"{finding.last_step:,}" if finding.last_step >= 0 else "-", "n"),
            (words.label(finding), ""),
            (wording.ratio(finding.confidence), "n"),
            (words.seconds(finding.cost.lost_s), "n"),
        ]
        for finding in reversed(episode[-12:])
    ]
    return wording.table(head, rows)
