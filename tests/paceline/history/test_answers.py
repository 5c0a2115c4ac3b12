"""Answers of an archive as a person reads them."""

from paceline.commands.history import QUESTIONS, TITLES
from paceline.history import answers
from paceline.history.query import Answer
from paceline.top.tables import JOBS
from ui import history_words

ANSWER = Answer(["job", "wait_ratio"], [("train", 0.631)], cut=False)


def test_waiting_is_called_as_in_top_and_on_the_page() -> None:
    """One word and one form for the share that the median rank waits; what programs read keeps its name."""
    heading, row = answers.table(ANSWER, TITLES).splitlines()
    assert heading.split() == ["JOB", "WAITING"]
    assert row.split() == ["train", "63%"]
    assert heading.split()[1].lower() in {column.title for column in JOBS} & {name for name, _ in history_words.JOBS}
    assert '"wait_ratio":0.631' in next(answers.json_lines(ANSWER))
    assert next(answers.csv_lines(ANSWER)) == "job,wait_ratio"


def test_a_title_is_of_a_column_that_is_asked_for() -> None:
    """None is left over from a column that has gone."""
    assert all(any(name in question.sql for question in QUESTIONS.values()) for name in TITLES)


def test_in_sql_a_column_is_called_as_it_was_asked_for() -> None:
    """Its name is what the next query takes."""
    assert answers.table(ANSWER).splitlines()[0].split() == ["JOB", "WAIT_RATIO"]


def test_a_moment_is_a_date_and_no_length_of_time() -> None:
    """Unix seconds in programs' forms; of a person nobody asks what 490,000 hours are."""
    heading, row = answers.table(Answer(["started_s", "lost_s"], [(1.7e9, 90.0)], cut=False)).splitlines()
    assert heading.split() == ["STARTED_S", "LOST_S"]
    assert row.split() == ["2023-11-14", "22:13:20", "90.0", "s"]
