"""The script that Streamlit runs.

Rule of this file: it builds the one real reader and hands it to the pages. Streamlit puts this folder first on
sys.path, so no module of it may be named like a library; it runs this file as ``__main__``: no relative imports here.
The browser is sent nowhere but here: icon, fonts and scripts are this page's own.
"""

import os

import streamlit as st

from paceline.kafka.settings import BrokerSettings
from ui.reader import Reader
from ui.screens import navigation
from ui.theme import ICON


@st.cache_resource(show_spinner=False)
def reader() -> Reader:
    """The process's one reader; every browser session draws from it."""
    made = Reader(BrokerSettings.from_environ(os.environ))
    made.start()
    return made


st.set_page_config(page_title="Paceline", page_icon=ICON, layout="wide")
navigation.run(reader().snapshot)
