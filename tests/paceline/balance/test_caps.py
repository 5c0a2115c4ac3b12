"""Caps: what does not fit is remembered, and a file that is no cap is none."""

import importlib
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("pytorch")]


@pytest.fixture(scope="module")
def caps() -> Any:
    return importlib.import_module("paceline.balance.caps")


def test_it_is_there_at_the_next_start(caps: Any, tmp_path: Path) -> None:
    kept = caps.Caps(tmp_path / "state" / "one.json")
    assert kept.read() is None
    assert kept.write(56)
    assert caps.Caps(tmp_path / "state" / "one.json").read() == 56
    assert kept.write(49)
    assert kept.read() == 49
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["one.json"]


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "null", '{"most": 0}', '{"most": -3}', '{"most": true}', '{"most": 1.5}', '{"most": "9"}',
        '{"most": 1' + "0" * 400 + "}", '{"most": 1' + "0" * 50 + "}", "[" * 100_000,
    ],
    ids=range(12),
)  # fmt: skip
def test_what_is_no_cap_says_nothing(caps: Any, tmp_path: Path, text: str) -> None:
    path = tmp_path / "one.json"
    path.write_text(text)
    assert caps.Caps(path).read() is None
    path.write_bytes(b"\xff\xfe\x00")
    assert caps.Caps(path).read() is None


def test_where_nothing_can_be_kept_it_says_so(caps: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert not caps.Caps(tmp_path / "file" / "one.json").write(5)


def test_it_is_kept_in_the_state_folder(caps: Any) -> None:
    assert caps.folder({"XDG_STATE_HOME": "/state", "HOME": "/home/x"}) == Path("/state/paceline/balance")
    assert caps.folder({"HOME": "/home/x"}) == Path("/home/x/.local/state/paceline/balance")


def test_another_model_or_world_is_another_file(caps: Any) -> None:
    torch = importlib.import_module("torch")
    small, large = torch.nn.Linear(2, 2), torch.nn.Linear(2, 3)
    names = {caps.name_of(small, 2, 0), caps.name_of(small, 2, 1), caps.name_of(small, 4, 0), caps.name_of(large, 2, 0)}
    assert len(names) == 4
    assert caps.name_of(torch.nn.Linear(2, 2), 2, 0) in names


def test_a_cap_goes_down_by_an_eighth_and_ends(caps: Any) -> None:
    share, seen = 100, []
    while share:
        seen.append(share)
        share = caps.lowered(share, 1)
    assert seen[:3] == [100, 88, 77]
    assert seen[-1] == 1
    assert caps.lowered(16, 16) == 0
