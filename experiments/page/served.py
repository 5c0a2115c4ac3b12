"""The script that Streamlit runs: the real page over a made-up feed that carries on by itself."""

import json
import os
import time

import streamlit as st

from experiments.page.made_up import MadeUp
from paceline.kafka.settings import BrokerSettings
from ui.reader import Reader
from ui.screens import navigation
from ui.snapshot import Snapshot
from ui.theme import ICON


class Carried:
    """A reader that was never started, and a feed in which what is looked at goes on, at most every two seconds.

    What reading costs is for other measurements: of many jobs those that no page shows stand still.
    """

    def __init__(self, made: MadeUp) -> None:
        self.made, self.told_s = made, dict[int | None, float]()
        made.fill(time.time())
        self.reader = Reader(BrokerSettings(brokers=("127.0.0.1:9092",)), feed=made.feed)

    def snapshot(self, job: str | None, rank: int | None = None) -> Snapshot:
        """As the reader's."""
        now_s, number = time.time(), int(job.rpartition("-")[2]) if job and self.made.jobs > 1 else None
        if now_s - self.told_s.setdefault(number, now_s) >= 2:
            self.told_s[number] = now_s
            self.made.go_on(now_s, 2, number)
        return self.reader.snapshot(job, rank)


@st.cache_resource(show_spinner=False)
def carried() -> Carried:
    """The process's one feed, of the size that the environment asks for."""
    return Carried(MadeUp(**json.loads(os.environ["PACELINE_MADE_UP"])))


st.set_page_config(page_title="Paceline", page_icon=ICON, layout="wide")
navigation.run(carried().snapshot)
