"""The way to the archive: shared answers, and a sentence for all that can be wrong with it."""

import gzip
import json
import shutil
import threading

import pytest

from paceline.history import manifest as manifests
from paceline.history.query import Connection
from paceline.history.store import open_store
from tests.derived_events import finding
from tests.patience import PATIENCE_S
from tests.ui.kept import HOUR_S, NOW_S, keep
from ui import history_door, history_questions
from ui.history_door import ANSWER_S, MANIFEST_S, QUEUED, HistoryDoor, told
from ui.history_link import Sought
from ui.history_questions import Question


class Clock:
    """A clock that a test sets."""

    def __init__(self):
        self.now_s = 1000.0

    def __call__(self):
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def folder(tmp_path):
    """An archive of one finding."""
    keep(tmp_path / "archive", [(NOW_S - HOUR_S, finding())])
    return tmp_path / "archive"


@pytest.fixture
def door_to(clock):
    """A door to the archive at an address."""
    made = []

    def door_to(url):
        made.append(HistoryDoor(str(url), {}, clock))
        return made[-1]

    yield door_to
    for door in made:
        door.stop()


def asked(door, question=None):
    question = question or history_questions.findings(Sought(), NOW_S)
    return told(door.ask([question])[0])


def sql(text, views=("finding",)):
    return Question(text, (), views, 0.0, 2 * NOW_S, 10)


@pytest.mark.long
def test_who_asks_the_same_gets_the_same_answer_for_some_seconds(door_to, folder, clock):
    """Then it is asked again."""
    door = door_to(folder)
    first, *others = door.ask([history_questions.findings(Sought(), NOW_S)] * 3)
    assert {id(one) for one in others} == {id(first)}
    assert [row["id"] for row in told(first).rows] == ["f1"]
    keep(folder, [(NOW_S - HOUR_S, finding(id="f2"))])
    assert len(asked(door).rows) == 1
    clock.now_s += ANSWER_S
    assert len(asked(door).rows) == 2


@pytest.mark.long
def test_the_manifest_is_looked_at_again_once_it_is_old(door_to, folder, clock):
    """A new question within seconds sees the archive as it was."""
    door = door_to(folder)
    asked(door)
    keep(folder, [(NOW_S - HOUR_S, finding(id="f2"))])
    assert asked(door, sql("SELECT count(*) AS rows FROM finding")).rows == [{"rows": 1}]
    clock.now_s += MANIFEST_S
    assert asked(door, sql("SELECT count(*) AS rows, 1 FROM finding")).rows[0]["rows"] == 2


def test_an_answer_says_which_days_are_kept(door_to, folder):
    assert asked(door_to(folder)).days == {"2026-11-25"}


def test_where_no_archive_is_the_mend_is_told(door_to, tmp_path):
    trouble = asked(door_to(tmp_path / "nowhere")).trouble
    assert "no archive at" in trouble
    assert "fix: paceline archive --to" in trouble


@pytest.mark.parametrize("url", ["ftp://host/x", "s3://", "s3://key:secret@bucket/x"])
def test_an_address_of_no_known_kind_is_told_without_what_is_in_it(url, door_to):
    trouble = asked(door_to(url)).trouble
    assert "an archive is a folder or s3://BUCKET/PREFIX" in trouble
    assert "secret" not in trouble


def test_an_archive_of_a_later_version_is_told(door_to, folder):
    store = open_store(str(folder), {})
    later = manifests.manifest_path(store.versions()[-1] + 1)
    (folder / later).write_bytes(gzip.compress(json.dumps({"format": 99, "version": 2}).encode()))
    assert "use the version that wrote it" in asked(door_to(folder)).trouble


def test_a_damaged_archive_is_told(door_to, folder):
    store = open_store(str(folder), {})
    (folder / manifests.manifest_path(store.versions()[-1] + 1)).write_bytes(b"\x1f\x8b nonsense")
    assert "damaged" in asked(door_to(folder)).trouble


@pytest.mark.long
def test_an_archive_that_vanishes_is_told_and_one_that_comes_back_is_read(door_to, folder, clock, tmp_path):
    """Its manifest is there and its files are not; then nothing is; then all is as before."""
    door, away = door_to(folder), tmp_path / "away"
    asked(door)
    shutil.move(folder, away)
    assert asked(door, sql("SELECT id FROM finding")).trouble.startswith(f"the archive at {folder}: ")
    clock.now_s += ANSWER_S
    assert "no archive at" in asked(door).trouble
    shutil.move(away, folder)
    clock.now_s += ANSWER_S
    assert [row["id"] for row in asked(door).rows] == ["f1"]


def test_one_question_that_cannot_be_answered_leaves_the_others_theirs(door_to, folder):
    """They share a connection."""
    good = sql("SELECT id FROM finding")
    first, second = door_to(folder).ask([sql("SELECT nothing FROM finding"), good])
    assert "nothing" in told(first).trouble
    assert told(second).rows == [{"id": "f1"}]


@pytest.mark.long
def test_a_slow_question_is_stopped_and_the_page_goes_on(door_to, folder, monkeypatch):
    """It says what to ask instead; the next is answered."""
    monkeypatch.setattr(history_door, "LIMIT_S", 0.2)
    door = door_to(folder)
    endless = sql("SELECT sum(a.range + b.range) FROM range(10000000) AS a, range(10000000) AS b")
    assert "ask for less time" in asked(door, endless).trouble
    monkeypatch.undo()
    assert asked(door, sql("SELECT id FROM finding")).rows == [{"id": "f1"}]


@pytest.mark.long
def test_too_many_questions_are_refused_and_none_waits_for_ever(door_to, folder, monkeypatch):
    """Those beyond the bound are told so at once."""
    opened, held = threading.Event(), Connection.ask

    def ask(self, *args):
        opened.wait(PATIENCE_S)
        return held(self, *args)

    monkeypatch.setattr(Connection, "ask", ask)
    futures = door_to(folder).ask([sql(f"SELECT id, {at} FROM finding") for at in range(QUEUED + 5)])
    assert [told(one).trouble for one in futures[QUEUED:]] == [history_door.BUSY] * 5
    opened.set()
    assert [told(one).trouble for one in futures[:QUEUED]] == [""] * QUEUED


def test_sql_reaches_no_other_file(door_to, folder, tmp_path):
    """Questions are the page's own; were one not, it would see the archive alone."""
    (tmp_path / "secret.csv").write_text("word\nsecret\n")
    trouble = asked(door_to(folder), sql(f"SELECT * FROM read_csv('{tmp_path}/secret.csv')")).trouble
    assert trouble
    assert "secret\n" not in trouble
