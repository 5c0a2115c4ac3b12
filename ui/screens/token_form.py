"""Who may change something on the page: asked once a session for a name and the token.

Rule of this file: what was typed is compared and forgotten; the session keeps the name alone.
"""

import time

import streamlit as st

from paceline.settings import UI_TOKEN

from ..token_gate import LONGEST, TokenGate
from ..wording import safe
from . import login

#: The name of who has shown the token, in the session's state; and what is wrong with the last attempt.
ISSUER, WRONG = "issuer", "token_wrong"
#: What control takes of a name.
LONGEST_NAME = 200


def draw(gate: TokenGate | None, what: str) -> str | None:
    """Say who may do ``what``, or ask for the token; the name of who may, None of who may not."""
    if gate is None or not gate.opens:
        _say(f"Read-only. To {what}, start this page with {UI_TOKEN.name} set.")
        return None
    issuer: str | None = st.session_state.get(ISSUER)
    if issuer is not None:
        words, lock = st.columns([5, 1], vertical_alignment="center")
        with words:
            _say(f"You {what} as {issuer}.")
        lock.button("Lock", key="token_lock", on_click=_lock)
        return issuer
    with st.expander(f"Read-only: enter the token to {what}", key="token"):
        _form(gate)
    return None


def _form(gate: TokenGate) -> None:
    known = login.name()
    if known == "":
        _say("Your login has no verified e-mail address, so changes cannot be recorded under your name.")
        return
    with st.form("token_form", clear_on_submit=True, border=False):
        if known is None:
            st.text_input("Your name, for the audit log", key="token_name", max_chars=LONGEST_NAME)
        else:
            _say(f"You are logged in as {known}.")
        st.text_input("Token", key="token_given", type="password", max_chars=LONGEST, autocomplete="off")
        st.form_submit_button("Unlock", on_click=_unlock, args=(gate, known))
    if wrong := st.session_state.get(WRONG):
        st.error(wrong)


def _unlock(gate: TokenGate, known: str | None) -> None:
    name = (known if known is not None else st.session_state.get("token_name") or "").strip()
    given = st.session_state.get("token_given") or ""
    st.session_state["token_given"] = ""
    if not name or not given:
        st.session_state[WRONG] = "Enter both your name, for the audit log, and the token."
        return
    verdict = gate.judge(given, time.monotonic())
    told = {"wrong": "Wrong token.", "too often": "Too many attempts. Wait a minute and try again."}
    st.session_state[WRONG] = told.get(verdict, "")
    if verdict == "right":
        st.session_state[ISSUER] = name


def _lock() -> None:
    st.session_state.pop(ISSUER, None)


def _say(words: str) -> None:
    st.html(f'<div class="pl"><p class="muted">{safe(words)}</p></div>')
