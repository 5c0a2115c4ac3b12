"""One suggestion as a card: what to do, what it brings, what it rests on, how to do it, and what was said to it.

Rule of this file: every text is of other processes; it is shown as text, and labels of widgets hold none of it.
"""

import streamlit as st

from paceline.control_client import segment
from paceline.events import ACCEPT, ANSWERABLE, CLOSED_SUGGESTIONS, DISMISS, Evidence, Suggestion
from paceline.own_host import either
from paceline.this_node import this_node
from paceline.words import age, evidence_name, quantity

from .. import suggestion_words as words
from ..control_door import ControlDoor
from ..theme import CAUTION, FAINT, FAST, GOOD, SLOW
from ..wording import apart, safe
from . import summary
from .frame import Shown

#: What was asked in this session: suggestion id -> (number of the change, when).
ASKED = "asked"
#: What control takes of a reason.
LONGEST_REASON = 256
SEVERITIES = {"critical": SLOW, "warning": CAUTION}


def draw(one: Suggestion, shown: Shown, door: ControlDoor | None, issuer: str | None, *, opened: bool) -> None:
    """The card; ``opened`` with its evidence and steps."""
    now_s = shown.snapshot.now_s
    with st.container(border=True, key=f"suggestion-{one.id}"):
        st.html(_head(one, now_s))
        if one.effect is not None:
            tone = summary.TONES[words.tone(one.state)]
            effect = safe(words.effect_words(one.effect))
            st.html(f'<div class="pl"><p style="color:{tone}"><b>Measured:</b> {effect}</p></div>')
        if one.apply:
            commands = [either(command, this_node()) for command in one.apply]
            st.code("\n".join(commands), language=None, wrap_lines=True)
        with st.expander("Evidence and steps", expanded=opened, key=f"why-{one.id}"):
            _why(one, shown)
        if door is not None:
            _act(one, shown, door, issuer)


def _head(one: Suggestion, now_s: float) -> str:
    colour = summary.TONES[words.tone(one.state)]
    until = f"valid for {age(one.expires_s, now_s).removesuffix(' ago')}" if one.expires_s > now_s else "expired"
    facts = [
        words.about(one),
        f"job {one.job}" if one.job and one.target != f"job:{one.job}" else "",
        f"updated {age(now_s, one.updated_s)}",
    ]
    facts += [until if one.state not in CLOSED_SUGGESTIONS else "", f"by {one.by}" if one.by else "", one.because]
    gains = " · ".join(words.gains(one.gain)) or "gain not known"
    risk = f"Risk {one.risk.replace('_', ' ')[:20]}" + (f": {one.risk_reason}" if one.risk_reason else "")
    basis = f'<p class="muted">{safe(one.gain.basis)}</p>' if one.gain.basis else ""
    return (
        f'<div class="pl"><span class="pl-badge" style="color:{colour}">{safe(words.state_words(one.state))}</span>'
        f'<span class="pl-badge" style="color:{SEVERITIES.get(one.severity, FAINT)}">{safe(one.severity[:20])}</span>'
        f'<span class="muted">{safe(" · ".join(filter(None, facts)))}</span>'
        f'<div class="pl-head">{safe(one.title)}</div><p style="color:{GOOD}"><b>{safe(gains)}</b></p>{basis}'
        f'<p>{safe(one.reason)}</p><p class="muted">{safe(risk)}</p></div>'
    )


def _why(one: Suggestion, shown: Shown) -> None:
    if one.evidence:
        rows = "".join(_row(item, one, shown) for item in one.evidence)
        head = '<th>Evidence</th><th class="n">value</th><th class="n">peers</th><th>see it</th>'
        st.html(f'<div class="pl pl-table"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>')
    steps = "".join(f"<li>{safe(step)}</li>" for step in one.steps)
    seen = [_link(shown, "job", "the job", job=one.job)] if one.job else []
    seen += [_link(shown, "fleet", f"node {node}", node=node) for node in one.nodes[:3]]
    listed = f"<ol>{steps}</ol>" if steps else ""
    see = f'<p class="muted">See {", ".join(seen)}</p>' if seen else ""
    rests = f'<p class="muted">{safe("Findings: " + ", ".join(one.findings))}</p>' if one.findings else ""
    st.html(
        f'<div class="pl">{listed}{see}{rests}<p class="muted">id {safe(one.id)}, revision {one.revision}</p></div>'
    )
    if one.manifest:
        st.code(one.manifest, language=None)


def _row(item: Evidence, one: Suggestion, shown: Shown) -> str:
    own = "n own" if apart(item.value, item.peers) else "n"
    link = ""
    if one.job and isinstance(item.rank, int):
        link = _link(shown, "rank", f"rank {item.rank}", job=one.job, rank=item.rank)
    elif one.job:
        link = _link(shown, "job", "job", job=one.job)
    elif one.nodes:
        link = _link(shown, "fleet", "node", node=one.nodes[0])
    rule = f'<br><span class="muted">{safe(item.rule)}</span>' if item.rule else ""
    return (
        f'<tr><td>{safe(evidence_name(item))}{rule}</td><td class="{own}">{safe(quantity(item.value, item.unit))}</td>'
        f'<td class="n">{safe(quantity(item.peers, item.unit))}</td><td>{link}</td></tr>'
    )


def _link(shown: Shown, page: str, text: str, **changes: object) -> str:
    """A link that opens beside this page: what was unlocked or written here stays."""
    address = shown.link.changed(live=True, from_s=None, to_s=None).to(page, **changes)
    return f'<a style="color:{FAST}" href="{safe(address)}" target="_blank" rel="noopener">{safe(text[:80])}</a>'


def _act(one: Suggestion, shown: Shown, door: ControlDoor, issuer: str | None) -> None:
    asked = st.session_state.get(ASKED, {}).get(one.id)
    if asked is not None:
        number, asked_s = asked
        change = door.change(number)
        answer = shown.snapshot.answers.get(change.command) if change is not None else None
        tone, said = words.answer_words(change, answer, asked_s, shown.snapshot.now_s)
        dot = f'<span class="pl-dot" style="background:{summary.TONES[tone]}"></span>'
        st.html(f'<div class="pl" role="status"><p>{dot}{safe(said)}</p></div>')
    if issuer is None:
        return
    with st.container(horizontal=True):
        if one.state in ANSWERABLE[ACCEPT]:
            _ask(one, ACCEPT, door, issuer)
        if one.state in ANSWERABLE[DISMISS]:
            _ask(one, DISMISS, door, issuer)


def _ask(one: Suggestion, action: str, door: ControlDoor, issuer: str) -> None:
    """A button that opens the question why."""
    name = action.capitalize()
    with (
        st.popover(name, type="primary" if action == "accept" else "secondary", key=f"open-{action}-{one.id}"),
        st.form(f"form-{action}-{one.id}", border=False),
    ):
        st.text_input(
            "Because", key=f"because-{action}-{one.id}", max_chars=LONGEST_REASON, placeholder="for the record"
        )
        st.form_submit_button(name, on_click=_send, args=(one, action, door, issuer))


def _send(one: Suggestion, action: str, door: ControlDoor, issuer: str) -> None:
    because = (st.session_state.get(f"because-{action}-{one.id}") or "").strip()
    if not because:
        st.toast("Enter a reason: it goes into the audit log.")
        return
    body = {"because": because[:LONGEST_REASON]}
    change = door.ask(f"{action} {one.id}", "POST", f"/v1/suggestions/{segment(one.id)}/{action}", body, issuer)
    st.session_state.setdefault(ASKED, {})[one.id] = (change.number, change.at_s)
