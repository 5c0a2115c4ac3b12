"""The live page: what each run of Streamlit's script draws.

Rule of this file: it builds the one real reader and hands it to the pages. The browser is sent nowhere but here: icon,
fonts and scripts are this page's own.
"""

import os

import streamlit as st

from paceline import control_access, settings, tls
from paceline.control_client import ControlClient, ControlError
from paceline.energy.tariff import tariff
from paceline.kafka.settings import BrokerSettings

from .control_door import ControlDoor
from .feed import Feed
from .history_door import HistoryDoor
from .reader import Reader
from .screens import login, navigation
from .theme import ICON
from .token_gate import TokenGate


@st.cache_resource(show_spinner=False)
def reader() -> Reader:
    """The process's one reader; every browser session draws from it."""
    made = Reader(BrokerSettings.from_environ(os.environ), feed=Feed(tariff=tariff(os.environ)))
    made.start()
    return made


@st.cache_resource(show_spinner=False)
def gate() -> TokenGate:
    """The process's one gate: the attempts of all visitors count together."""
    return TokenGate(settings.UI_TOKEN.read(os.environ))


@st.cache_resource(show_spinner=False)
def door() -> ControlDoor:
    """The process's one way to control."""
    return ControlDoor(_control)


@st.cache_resource(show_spinner=False)
def archive() -> HistoryDoor:
    """The process's one way to the archive: visitors who ask the same share the answer."""
    return HistoryDoor.from_environ(os.environ)


def _control(issuer: str) -> ControlClient:
    """Control for an issuer; its token is read each time, for control may make it after this page has started."""
    try:
        url, token = control_access.url(os.environ), control_access.token(os.environ)
        return ControlClient(url, token, issuer, tls.trusting(os.environ))
    except settings.SettingError as error:
        raise ControlError(0, str(error)) from error


def draw() -> None:
    """Draw the page for one visitor."""
    st.set_page_config(page_title="Paceline", page_icon=ICON, layout="wide")
    if not settings.UI_REQUIRE_LOGIN.read(os.environ) or login.admitted():
        navigation.run(reader().snapshot, door(), gate(), archive())
        login.draw_out()
