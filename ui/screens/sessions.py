"""The sessions page: recordings by name: start, stop, recover, export, and two side by side.

Rule of this file: every text is of other processes, and is shown as text. Who may change something has shown the token.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import streamlit as st

from paceline.control_client import ControlError, segment
from paceline.words import age

from .. import notices
from .. import session_words as words
from ..control_door import ControlDoor
from ..notices import Notice
from ..snapshot import JobLine
from ..theme import FAST
from ..token_gate import TokenGate
from ..wording import safe
from . import frame, summary, token_form
from .frame import Shown, Source

#: Cards drawn; numbers of changes asked for in this visit, the newest last.
CARDS, CHANGES = 20, "session_changes"
FORMATS = {"jsonl": "Recording", "frames": "Frames", "parquet": "Parquet", "csv": "CSV"}
EVERYTHING = "everything"
#: Each action's method, and what follows the session's name in the address.
ASKED = {"stop": ("POST", "/stop"), "recover": ("POST", "/recover"), "delete": ("DELETE", "")}


def show(source: Source, door: ControlDoor | None = None, gate: TokenGate | None = None) -> None:
    """Draw the whole page over what ``door`` knows; whom ``gate`` lets in may change something."""
    frame.show(source, partial(_draw, door=door, gate=gate), "Sessions", ranged=False)


def _draw(shown: Shown, door: ControlDoor | None, gate: TokenGate | None) -> None:
    if door is None:
        return
    sessions, problem = door.sessions()
    if problem:
        summary.draw_notice(Notice("lost", "Control does not answer", problem, (notices.CONTROL,)), shown.brokers)
    if sessions is None:
        if not problem:
            st.html('<div class="pl"><p class="muted">Asking control…</p></div>')
        return
    issuer = token_form.draw(gate, "change sessions")
    if issuer is not None:
        _start(shown, door, issuer)
    _answers(door)
    if not sessions:
        text = "A session records everything, one job or some nodes, and proves that nothing is missing."
        summary.draw_notice(Notice("good", "No session is recorded", text, (notices.SESSION,)), shown.brokers)
        return
    wanted = st.query_params.get("session")
    for session in sorted(sessions, key=lambda one: words.text(one, "name") != wanted)[:CARDS]:
        _card(session, shown, door, issuer)
    if len(sessions) > CARDS:
        st.caption(f"and {len(sessions) - CARDS:,} more: `paceline session list`")
    _compare(sessions, shown, door)


def _start(shown: Shown, door: ControlDoor, issuer: str) -> None:
    jobs = {
        line.name: {"job": line.job, "cluster": line.cluster} for line in shown.snapshot.jobs if line.ended_s is None
    }
    linked = shown.link.job if shown.link.job in jobs else None
    with st.expander("Record a session", expanded=linked is not None, key="session_new"), st.form("session_form"):
        name, what, interval = st.columns([1.4, 1.4, 1])
        name.text_input("Name", key="session_name", max_chars=100, placeholder="letters, digits, . _ -")
        choices = [EVERYTHING, *(f"job {job}" for job in jobs)]
        chosen = choices.index(f"job {linked}") if linked else 0
        what.selectbox("Of", choices, index=chosen, key="session_of")
        interval.selectbox("Sampled every", ["as it is", "0.1 s", "0.2 s", "0.5 s"], key="session_interval")
        st.checkbox("Faster only while something changes", key="session_adaptive")
        st.form_submit_button("Start", type="primary", on_click=_begin, args=(door, issuer, jobs))


def _asked(line: JobLine) -> dict[str, str]:
    """What control is asked to record."""
    return {"job": line.job} | ({"cluster": line.cluster} if line.cluster else {})


def _begin(door: ControlDoor, issuer: str, jobs: Mapping[str, Mapping[str, str]]) -> None:
    name = (st.session_state.get("session_name") or "").strip()
    of, interval = st.session_state.get("session_of", EVERYTHING), st.session_state.get("session_interval", "")
    body: dict[str, Any] = {"name": name}
    body |= {"all": True} if of == EVERYTHING else jobs.get(of.removeprefix("job "), {})
    if interval.endswith(" s"):
        body |= {"interval_s": float(interval.removesuffix(" s"))}
        body |= {"adaptive": bool(st.session_state.get("session_adaptive"))}
    _ask(door, f"start {name}", "POST", "", body, issuer)


def _ask(door: ControlDoor, what: str, method: str, path: str, body: Mapping[str, Any] | None, issuer: str) -> None:
    change = door.ask(what, method, f"/v1/sessions{path}", body, issuer)
    st.session_state[CHANGES] = [*st.session_state.get(CHANGES, []), change.number][-3:]


def _answers(door: ControlDoor) -> None:
    """What came of the newest wishes of this visit."""
    for number in st.session_state.get(CHANGES, []):
        change = door.change(number)
        if change is not None:
            tone = "lost" if change.failed else "good" if change.said else "wait"
            dot = f'<span class="pl-dot" style="background:{summary.TONES[tone]}"></span>'
            said = f"{change.words}: {change.said or 'sent'}"
            st.html(f'<div class="pl" role="status"><p>{dot}{safe(said)}</p></div>')


def _card(session: Mapping[str, Any], shown: Shown, door: ControlDoor, issuer: str | None) -> None:
    name, now_s = words.text(session, "name"), shown.snapshot.now_s
    tone, state = words.state(session)
    colour = summary.TONES[tone]
    reason = words.text(session, "reason")
    facts = [words.subject(session), f"by {words.text(session, 'issuer')}", f"on {words.text(session, 'host')}"]
    updated_s = words.number(session, "updated_s")
    facts += [f"updated {age(now_s, updated_s)}"] if updated_s else []
    why = f"<p>{safe(reason)}</p>" if reason else ""
    with st.container(border=True, key=f"session-{name}"):
        st.html(
            f'<div class="pl"><span class="pl-badge" style="color:{colour}">{safe(state)}</span>'
            f'<span class="muted">{safe(" · ".join(facts))}</span><div class="pl-head">{safe(name)}</div>'
            f"<p>{safe(words.holds(session, now_s))}</p>{why}{_see(session, shown)}</div>"
        )
        with st.container(horizontal=True):
            if issuer is not None:
                for action in words.ACTIONS.get(state, ()):
                    _button(action, name, door, issuer)
            if state not in ("starting", "damaged"):
                _export(name, door)


def _see(session: Mapping[str, Any], shown: Shown) -> str:
    """A link to the job's page over the session's time."""
    job, began_s = words.job_name(session), words.number(session, "started_s")
    if not job or not began_s:
        return ""
    ended_s = words.number(session, "stopped_s")
    address = shown.link.changed(from_s=began_s, to_s=ended_s, live=True).to("job", job=job)
    link = f'<a style="color:{FAST}" href="{safe(address)}" target="_blank" rel="noopener">the job in that time</a>'
    return f'<p class="muted">See {link}</p>'


def _button(action: str, name: str, door: ControlDoor, issuer: str) -> None:
    method, end = ASKED[action]
    arguments = (door, f"{action} {name}", method, f"/{segment(name)}{end}", None, issuer)
    if action != "delete":
        st.button(action.capitalize(), key=f"{action}-{name}", on_click=_ask, args=arguments)
        return
    with st.popover("Delete", key=f"open-delete-{name}"):
        st.caption("This deletes all recorded data of the session.")
        st.button("Delete for good", key=f"delete-{name}", type="primary", on_click=_ask, args=arguments)


def _export(name: str, door: ControlDoor) -> None:
    with st.popover("Export", key=f"open-export-{name}"):
        for kind, label in FORMATS.items():
            suffix = {"frames": "frames.jsonl"}.get(kind, kind)
            st.download_button(
                label, partial(_file, door, name, kind), f"{name}.{suffix}", key=f"{kind}-{name}", on_click="ignore"
            )
        st.code(f"paceline session export {name} --format jsonl -o {name}.jsonl", language=None)


def _file(door: ControlDoor, name: str, kind: str) -> bytes:
    try:
        return door.download(name, kind)
    except ControlError as error:
        return f"{error}\n".encode()


def _compare(sessions: list[Mapping[str, Any]], shown: Shown, door: ControlDoor) -> None:
    named = {words.text(one, "name"): one for one in sessions if words.state(one)[1] not in ("starting", "damaged")}
    if len(named) < 2:
        return
    picked = st.multiselect("Compare side by side", list(named), max_selections=4, key="session_compare")
    chosen = [name for name in picked if name in named]  # One may have been deleted meanwhile.
    if len(chosen) < 2:
        return
    numbers, problems = zip(*(door.numbers(named[name]) for name in chosen), strict=True)
    if any(problems):
        reasons = ". ".join(f"{name}: {problem}" for name, problem in zip(chosen, problems, strict=True) if problem)
        summary.draw_notice(Notice("lost", "Not all of these sessions can be read", f"{reasons}."), shown.brokers)
        return
    if any(one is None for one in numbers):
        st.caption("Reading the sessions…")
        return
    heads = "".join(f'<th class="n">{safe(name)}</th>' for name in chosen)
    rows = "".join(
        f"<tr><td>{safe(label)}</td>" + "".join(f'<td class="n">{safe(cell)}</td>' for cell in cells) + "</tr>"
        for label, cells in words.compared([one for one in numbers if one is not None])
    )
    st.html(
        f'<div class="pl pl-table"><table><thead><tr><th>Numbers</th>{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )
