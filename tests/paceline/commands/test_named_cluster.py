"""Where several clusters run a job of one name, commands name one to control."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from paceline.commands import capture, session
from paceline.commands.session_table import subject
from paceline.control_client import ControlClient


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Mapping[str, Any] | None]:
    """What control is asked, in a folder of its own; all of it is done immediately."""
    asked: list[Mapping[str, Any] | None] = []

    def call(client: ControlClient, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        asked.append(body)
        state = {"capture": "a", "ranks": [{"rank": 2, "state": "done", "reason": ""}]}
        return state if "captures" in path else {"name": "s", "state": "recording"}

    monkeypatch.setattr(ControlClient, "call", call)
    monkeypatch.setattr(ControlClient, "download", lambda client, path, file: file.write(b"x"))
    monkeypatch.chdir(tmp_path)
    return asked


@pytest.mark.parametrize(
    ("options", "named", "folder"),
    [([], {}, "capture-a_b"), (["--cluster", "e/1"], {"cluster": "e/1"}, "capture-e_1-a_b")],
)
def test_a_capture(
    asked: list[Mapping[str, Any] | None], options: list[str], named: dict[str, str], folder: str
) -> None:
    """Traces of two clusters' jobs of one name lie in two folders."""
    assert capture.main(["--job", "a/b", "--ranks", "2", "--no-analyze", *options]) == 0
    assert asked == [{"ranks": [2], "steps": 3, **named}]
    assert Path(folder, "rank2.pt.trace.json.gz").read_bytes() == b"x"


@pytest.mark.parametrize(("options", "named"), [([], {}), (["--cluster", "east"], {"cluster": "east"})])
def test_a_session(asked: list[Mapping[str, Any] | None], options: list[str], named: dict[str, str]) -> None:
    assert session.main(["start", "s", "--job", "train", *options]) == 0
    assert asked == [{"name": "s", "devices": [], "adaptive": False, "job": "train", **named}]


def test_a_list_of_sessions_names_the_cluster_where_it_has_a_name() -> None:
    jobs = [{"job": "train", "cluster": cluster} for cluster in ("east", "default", "")]
    assert [subject(one) for one in [*jobs, {"job": "train"}]] == ["job train in east", *["job train"] * 3]
