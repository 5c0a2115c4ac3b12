"""Which trackers ``--track`` means, and which runs are there before the script opens one."""

import pytest

from paceline.tracking.choice import Choice, ChoiceError, chosen, opened_outside
from paceline.training.tracking_words import OpenRun


@pytest.mark.parametrize("word", ["", "mlfow", "mlflow=x", "auto=x", "tensorboard=", "wandb=", "=x"])
def test_another_word_is_refused_by_name(word: str) -> None:
    with pytest.raises(ChoiceError, match="mlflow, wandb, tensorboard"):
        chosen(["mlflow", word])


def test_a_tracker_named_twice_is_one() -> None:
    assert chosen(["wandb", "auto", "wandb"]).trackers == ("wandb", "mlflow", "tensorboard")


def test_a_run_of_the_environment_is_open_where_its_server_is_known() -> None:
    run = {"MLFLOW_RUN_ID": "a1"}
    server = {"MLFLOW_TRACKING_URI": "http://ada:secret@host"}
    assert opened_outside(Choice(("mlflow",)), run | server) == [OpenRun("mlflow", "a1", "http://host")]
    assert opened_outside(Choice(("mlflow",)), run) == []
    assert opened_outside(Choice(("mlflow",)), server) == []
    assert opened_outside(Choice(("wandb",)), run | server) == []


def test_a_folder_that_is_named_needs_no_writer() -> None:
    assert opened_outside(chosen(["tensorboard=/runs"]), {}) == [OpenRun("tensorboard", "", "/runs")]
    assert opened_outside(chosen(["tensorboard"]), {}) == []
