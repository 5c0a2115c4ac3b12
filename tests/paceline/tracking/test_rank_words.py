"""What a rank says of its runs, honest or not."""

import json

import pytest

from paceline.tracking.rank_words import decode_runs
from paceline.training.tracking_words import LONGEST, MOST_RUNS, OpenRun, encode_runs


def test_what_a_rank_encodes_is_what_is_read() -> None:
    runs = [OpenRun("mlflow", "a1", "http://host"), OpenRun("tensorboard", place="/runs/ünï"), OpenRun("wandb", "x")]
    assert decode_runs(encode_runs(runs)) == runs


def test_a_login_never_travels() -> None:
    told = encode_runs([OpenRun("mlflow", "a", "postgresql://ada:pass@word@db.example.org/mlflow")])
    assert told == b'{"runs":[["mlflow","a","postgresql://db.example.org/mlflow"]]}'


@pytest.mark.parametrize(
    "words",
    [
        [["mlflow", "a", "b", "c"]],
        [["mlflow", 1, "b"]],
        [["mlflow", "a" * (LONGEST + 1), "b"]],
        [["mlflow", "a\0", "b"]],
        [["mlflow", "a", "b"]] * (MOST_RUNS + 1),
        "mlflow",
        None,
    ],
)
def test_what_no_rank_says_is_nothing(words: object) -> None:
    assert decode_runs(json.dumps({"runs": words}).encode()) is None


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"[" * 100_000, b'{"runs":', b"{}"])
def test_no_json_is_nothing(data: bytes) -> None:
    assert decode_runs(data) is None
