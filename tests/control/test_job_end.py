"""A session of a job ends with it: not for a restart, not for what is long over, and not before the rest has come."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from control.recorder.job_end import GRACE_S
from control.recorder.progress import Progress
from control.sessions.folder import SessionFolder
from control.sessions.manifest import read_definition, read_manifest
from paceline import wire
from paceline.events import JobDescribed
from paceline.topics import JOB, OP, Topic

GOLDEN = Path(__file__).parents[1] / "paceline" / "golden"
T0 = 2_000_000_000.0


DESCRIBED = msgspec.json.decode((GOLDEN / "v1.11" / "JobDescribed.json").read_bytes(), type=JobDescribed)


class Session:
    """A session of the job ``j`` that began at ``T0``."""

    def __init__(self, folder: SessionFolder) -> None:
        self._folder, self._offset = folder, 0
        self.progress = self._read()

    def _read(self) -> Progress:
        definition = msgspec.structs.replace(read_definition(self._folder.definition), started_s=T0)
        return Progress(definition, read_manifest(self._folder.manifest))

    def restart(self) -> None:
        """Its recorder is killed after its manifest, and started again."""
        manifest = self.progress.manifest("recording", "", T0, 0, None)
        self._folder.replace(self._folder.manifest, msgspec.json.encode(manifest))
        self.progress = self._read()

    def describe(self, now_s: float, job: str = "j", **about: Any) -> None:
        told = {"job": job, "attempt": 0, "node": "n1", "started_s": T0, "labels": {}, "part": "", "places": []}
        event = msgspec.structs.replace(DESCRIBED, **{**told, "ended_s": None, **about})
        self._came(JOB, f"{job}/{event.node}", wire.encode(event), now_s)

    def train(self, now_s: float, **about: Any) -> bool:
        told = {"job": "j", "node": "n1", "producer": "p", "sequence": self._offset, **about}
        return self._came(OP, "j", msgspec.msgpack.encode(told), now_s)

    def _came(self, topic: Topic, key: str, value: bytes, now_s: float) -> bool:
        self._offset += 1
        return self.progress.came(topic, key, value, (topic.name, 0), self._offset - 1, now_s)

    def over(self, after_s: float) -> bool:
        return self.progress.job_over(T0 + after_s)


@pytest.fixture
def session(begun: Callable[..., SessionFolder]) -> Callable[..., Session]:
    return lambda **about: Session(begun(job="j", **about))


def test_it_ends_after_the_grace_time(session: Callable[..., Session]) -> None:
    one = session()
    one.describe(T0)
    one.train(T0 + 1)
    assert not one.over(1e6)
    one.describe(T0 + 100, ended_s=T0 + 100)
    assert [one.over(100 + after_s) for after_s in (0.0, GRACE_S - 1, GRACE_S)] == [False, False, True]


def test_what_comes_late_is_waited_for(session: Callable[..., Session]) -> None:
    one = session()
    one.describe(T0)
    one.describe(T0 + 10, ended_s=T0 + 10)
    assert not one.over(10)
    one.train(T0 + 100)
    assert not one.over(10 + GRACE_S)
    assert one.over(10 + 2 * GRACE_S)


def test_an_elastic_restart_goes_on(session: Callable[..., Session]) -> None:
    """Also one that counts its attempts anew, and one whose description comes again out of order."""
    one = session()
    one.describe(T0)
    one.describe(T0 + 10, ended_s=T0 + 10)
    assert not one.over(10)
    one.describe(T0 + 60, attempt=1, started_s=T0 + 59)
    one.describe(T0 + 61, ended_s=T0 + 10)
    assert not one.over(1e6)
    one.describe(T0 + 70, attempt=1, started_s=T0 + 59, ended_s=T0 + 70)
    one.describe(T0 + 80, attempt=0, started_s=T0 + 79)
    assert not one.over(1e6)


def test_all_of_its_nodes_have_to_leave(session: Callable[..., Session]) -> None:
    one = session()
    for node in ("n1", "n2"):
        one.describe(T0, node=node)
    one.describe(T0 + 10, node="n1", ended_s=T0 + 10)
    assert (one.over(20), one.over(1e6)) == (False, False)
    one.describe(T0 + 30, node="n2", ended_s=T0 + 30)
    assert (one.over(1e6), one.over(1e6 + GRACE_S)) == (False, True)


def test_a_run_that_was_over_before_ends_nothing(session: Callable[..., Session]) -> None:
    """Brokers keep what nodes said of earlier runs; another job's end is none of its business either."""
    one = session()
    one.describe(T0, started_s=T0 - 900, ended_s=T0 - 500)
    one.describe(T0, job="other", ended_s=T0 + 5)
    assert (one.over(1), one.over(1e6)) == (False, False)
    one.describe(T0 + 50, started_s=T0 + 40)
    one.describe(T0 + 60, started_s=T0 + 40, ended_s=T0 + 60)
    assert (one.over(61), one.over(61 + GRACE_S)) == (False, True)


def test_a_recorder_that_was_killed_still_knows(session: Callable[..., Session]) -> None:
    """Of a node whose clock is behind, too: what trained while it recorded was a run of now."""
    one = session()
    one.describe(T0, started_s=T0 - 5000)
    one.train(T0 + 1)
    one.restart()
    one.describe(T0 + 10, started_s=T0 - 5000, ended_s=T0 - 4000)
    one.restart()
    assert (one.over(11), one.over(11 + GRACE_S)) == (False, True)


def test_brokers_that_were_away_are_read_first(session: Callable[..., Session]) -> None:
    one = session()
    one.describe(T0)
    one.describe(T0 + 10, ended_s=T0 + 10)
    assert not one.over(11)
    one.progress.deaf(500.0)
    assert (one.over(511), one.over(511 + GRACE_S)) == (False, True)


def test_one_that_keeps_on_goes_on(session: Callable[..., Session]) -> None:
    one = session(keep=True)
    one.describe(T0)
    one.describe(T0 + 10, ended_s=T0 + 10)
    assert (one.over(20), one.over(1e6)) == (False, False)


def test_a_job_of_that_name_in_another_cluster_is_another_job(session: Callable[..., Session]) -> None:
    """It is not recorded, and its end ends nothing."""
    one = session(only_cluster="east")
    one.describe(T0, cluster="east")
    one.describe(T0, cluster="west", attempt=1)
    assert one.train(T0 + 1, cluster="east")
    assert not one.train(T0 + 1, cluster="west")
    one.describe(T0 + 10, cluster="west", attempt=1, ended_s=T0 + 10)
    assert (one.over(11), one.over(1e6)) == (False, False)
    one.describe(T0 + 20, cluster="east", ended_s=T0 + 20)
    assert (one.over(1e6), one.over(1e6 + GRACE_S)) == (False, True)


def test_a_session_that_begins_before_its_job_is_of_the_cluster_in_which_it_first_trains(
    session: Callable[..., Session],
) -> None:
    """Also after its recorder was killed; what a job of that name elsewhere said before ends nothing."""
    one = session()
    one.describe(T0, cluster="east")
    one.describe(T0, cluster="west", attempt=1, started_s=T0 - 900, ended_s=T0 - 500)
    assert one.train(T0 + 1, cluster="east")
    one.restart()
    assert not one.train(T0 + 2, cluster="west")
    assert one.progress.manifest("recording", "", T0, 0, None).state.cluster == "east"
    assert (one.over(11), one.over(1e6)) == (False, False)
    one.describe(T0 + 20, cluster="east", ended_s=T0 + 20)
    assert (one.over(1e6), one.over(1e6 + GRACE_S)) == (False, True)


def test_what_cannot_be_read_is_recorded_and_changes_nothing(session: Callable[..., Session]) -> None:
    one = session()
    assert one.progress.came(JOB, "j/n1", b'{"job": "j", "node": 7}', (JOB.name, 0), 0, T0)
    assert not one.over(1e6)
