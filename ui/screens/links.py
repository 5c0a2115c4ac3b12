"""The address in the browser and what every page shares: read, changed, and kept from page to page.

Rule of this file: the address is the truth. Streamlit empties it when another page is chosen from the menu, so what it
said is kept in the session and written back; a link that is opened starts a session of its own.
"""

from typing import Any

import streamlit as st

from ..link import Link, keys, read

_KEPT = "link"


def current() -> tuple[Link, list[str]]:
    """What the address says, and what is wrong with it."""
    return read({word: st.query_params[word] for word in keys() if word in st.query_params})


def keep() -> None:
    """On a page that the menu led to: write back what the page before it said. On any other: remember what it says."""
    said = {word: st.query_params[word] for word in keys() if word in st.query_params}
    kept: dict[str, str] = st.session_state.get(_KEPT, {})
    if kept and not said:
        st.query_params.update(kept)
    else:
        st.session_state[_KEPT] = said


def change(**changes: Any) -> None:
    """Put ``changes`` into the address."""
    link, _ = current()
    wanted = link.changed(**changes).params()
    for word in keys():
        if word in wanted:
            st.query_params[word] = wanted[word]
        elif word in st.query_params:
            del st.query_params[word]
    st.session_state[_KEPT] = wanted
