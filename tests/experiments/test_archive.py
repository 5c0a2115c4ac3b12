"""The made-up month: an archive like any other, the same each time, that answers what is asked."""

from pathlib import Path

import numpy as np
import pytest

from experiments.archive import fleet, month, questions, report, windows
from paceline.history.query import History
from paceline.history.tables import DEVICE_WINDOW
from paceline.history.views import Scope


def made_up() -> fleet.Fleet:
    """Four nodes for two days."""
    return fleet.made_up(4, 2, 12, 86_400.0 * 20_000, len(windows.SHAPES) - 1)


def test_jobs_do_not_share_nodes_and_leave_some_idle():
    made = made_up()
    taken = np.zeros(made.owner.shape, dtype=int)
    for number, job in enumerate(made.jobs):
        assert job.start_s < job.end_s
        taken += made.owner == number
        here = made.owner[job.first_node : job.first_node + job.nodes]
        assert (here == number).sum() == (made.owner == number).sum()
    assert taken.max() == 1
    assert (made.owner < 0).any()


def test_windows_have_a_row_a_gpu_and_five_minutes_but_where_a_node_was_away():
    made = made_up()
    made.heard[2, 10:20] = False
    rows = windows.device_windows(made, 0, 24, np.random.default_rng(0))
    assert rows.num_rows == 8 * int(made.heard[:, :24].sum())
    assert rows.schema.names == list(DEVICE_WINDOW.columns)
    told = rows.column("mean_utilization_ratio").to_numpy()
    assert 0.0 <= told.min() <= told.max() <= 1.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A month of two days."""
    made = tmp_path_factory.mktemp("month")
    month.make(made, made_up(), 20, lambda line: None)
    return made


@pytest.mark.long
def test_the_month_is_an_archive(folder: Path):
    with History.open(str(folder), {}).connect(Scope(0.0, 1e11)) as connection:
        [(rows, keys)] = connection.ask(
            "SELECT count(*), count(DISTINCT (node, device, start_s)) FROM device_window"
        ).rows
        assert rows == keys == 8 * int(made_up().heard.sum())
        assert connection.ask("SELECT count(*) FROM findings").rows == [(20,)]
        assert connection.ask("SELECT count(*) FROM jobs").rows == [(len(made_up().jobs),)]


@pytest.mark.long
@pytest.mark.parametrize("question", questions.AIMS)
def test_every_question_has_an_answer(folder: Path, question: str):
    month_ = questions.Month(str(folder))
    assert questions.answered(month_, question, *questions.chosen(str(folder))) > 0


@pytest.mark.slow
def test_a_question_is_asked_in_a_process_of_its_own(folder: Path):
    question = next(iter(questions.AIMS))
    told = questions.measured(str(folder), question, questions.chosen(str(folder)), 1, cold=True)
    assert told["rows"] > 0
    assert 0.0 < told["median_s"] <= told["worst_s"]


def test_where_there_is_no_room_it_is_said_before_anything_is_written(tmp_path: Path):
    with pytest.raises(month.SpaceError, match="--to names another"):
        month.check_room(tmp_path, 10**9, 365)
    assert list(tmp_path.iterdir()) == []


def test_tables_name_aims_and_what_was_measured():
    spread = {"median_s": 0.5, "low_s": 0.4, "high_s": 0.6, "worst_s": 0.7, "processor_s": 0.3, "memory_bytes": 2e8}
    found = {"question": "q", "aim_s": 1.0, "rows": 1234, "warm": spread, "cold": spread}
    there = {"date": "2026-11-22", "processor": "x", "cores": 2, "python": "3.11.7", "load_before": 0.04}
    told = report.text({"machine": there, "quick": False, "took_s": 1.0, "questions": [found]})
    assert "| q | 1,234 | 1 s | 0.50 s (0.40 to 0.60), 0.70 s |" in told
