import json
import os

import pytest

from paceline import rated
from paceline.rated import Rated, Speed

SPEED = Speed("cpu", "gemm_float32", "flop/s", 2.0, 1.0, 3.0, 20, 5.0, busy_ratio=0.0)


def test_what_is_written_is_read(tmp_path):
    """All of it, and nothing else is left beside it."""
    path = tmp_path / "deep" / "n.json"
    held = Rated("n", 5.0, (SPEED,), {"pytorch": "2.15"})
    rated.write(path, held)

    assert rated.read(path) == held
    assert held.of("cpu", "gemm_float32") == 2.0
    assert os.listdir(path.parent) == ["n.json"]


def test_a_file_that_is_not_there_is_no_fault(tmp_path):
    """Most nodes have none."""
    assert rated.look(tmp_path / "none.json", "n") == (None, None)


def document(**changes):
    told = {"layout": 1, "node": "n", "time_s": 5.0, "versions": {}, "speeds": [dict(SPEED.__dict__)]}
    return told | changes


def with_speed(**changes):
    return document(speeds=[{**SPEED.__dict__, **changes}])


@pytest.mark.parametrize(
    "held",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        b"[]",
        b"null",
        document(layout=2),
        document(node=7),
        document(speeds={"a": 1}),
        document(speeds=[dict(SPEED.__dict__)] * (rated.MOST_SPEEDS + 1)),
        document(versions={str(number): "1" for number in range(rated.MOST_VERSIONS + 1)}),
        document(versions=["pytorch"]),
        document(time_s=1e12),
        with_speed(value=0.0),
        with_speed(value=-1.0),
        with_speed(value=True),
        with_speed(value="2"),
        with_speed(value=1e22),
        with_speed(low=2.5),
        with_speed(high=1.5),
        with_speed(name="\x1b[2J"),
        with_speed(device="x" * 300),
        with_speed(samples=1e20),
        with_speed(size_bytes=1e20),
        json.dumps(document()).replace("2.0", "NaN").encode(),
        json.dumps(document()).replace("2.0", "Infinity").encode(),
    ],
)
def test_anything_else_says_nothing(tmp_path, held):
    """Garbage, another layout, numbers out of bounds: no rating, and a reason that names the file."""
    path = tmp_path / "n.json"
    path.write_bytes(held if isinstance(held, bytes) else json.dumps(held).encode())
    found, why = rated.look(path, "n")

    assert found is None
    assert str(path) in why


def test_a_huge_file_is_not_read(tmp_path):
    """Bounded, whatever its size."""
    path = tmp_path / "n.json"
    with path.open("wb") as file:
        file.truncate(2**40)

    assert "larger than" in rated.look(path)[1]


def test_a_pipe_holds_nobody_up(tmp_path):
    """Opening one waits for a writer, where nobody takes care."""
    os.mkfifo(tmp_path / "n.json")

    assert "not a regular file" in rated.look(tmp_path / "n.json")[1]


def test_another_nodes_file_says_nothing(tmp_path):
    """A shared home, or a copied image."""
    rated.write(tmp_path / "n.json", Rated("other", 5.0, (SPEED,)))

    assert rated.look(tmp_path / "n.json", "n")[0] is None
    assert "of node other, not of n" in rated.look(tmp_path / "n.json", "n")[1]


def test_a_write_that_breaks_off_changes_nothing(tmp_path, monkeypatch):
    """Ctrl-C, or a full disk, in the middle: what was there stays, and nothing lies beside it."""
    path = tmp_path / "n.json"
    rated.write(path, Rated("n", 5.0, (SPEED,)))

    def interrupted(_number):
        raise KeyboardInterrupt

    monkeypatch.setattr(rated.os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        rated.write(path, Rated("n", 6.0, ()))

    assert rated.read(path).time_s == 5.0
    assert os.listdir(tmp_path) == ["n.json"]
