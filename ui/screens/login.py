"""The login: before anybody who is not known, the page shows a button that leads to the login's provider.

Rule of this file: Streamlit does OpenID Connect; whom the provider lets in is the provider's to say. Who may change
something is another matter: the token.
"""

import streamlit as st

from ..login_secrets import providers
from ..theme import DARK, style


def admitted() -> bool:
    """Whether the visitor has logged in; draws the way to it where not."""
    if st.user.is_logged_in:
        return True
    st.html(style(DARK))
    st.html('<div class="pl"><h1>Paceline</h1><p class="muted">This page needs a login.</p></div>')
    for provider in providers(st.secrets.get("auth", {})):
        words = "Log in" if provider is None else f"Log in with {provider}"
        st.button(words, key=f"login-{provider}", on_click=st.login, args=() if provider is None else (provider,))
    return False


def draw_out() -> None:
    """Who is logged in, and the way out, below a page."""
    if name() is not None:
        st.caption("Your login is kept in this browser for 30 days.")
        st.button("Log out", key="logout", on_click=st.logout, type="tertiary")


def name() -> str | None:
    """As whom the visitor has logged in: an e-mail that the provider does not call unverified, "" of who has none.

    None: this page asks for no login.
    """
    if not getattr(st.user, "is_logged_in", False):
        return None
    email = st.user.get("email")
    return "" if not email or st.user.get("email_verified") is False else str(email)
