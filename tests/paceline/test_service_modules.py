"""Where services are found: below one name of ours where the wheel is installed, beside it in a checkout."""

import os
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from paceline import service_modules
from paceline.service_modules import PREFIX, load, module


@pytest.mark.parametrize("name", ["streams", "streams.analyze"])
def test_one_name_where_it_is_installed_and_the_folder_in_a_checkout(tmp_path: Path, name: str) -> None:
    """Whole names: a service of another name in the wheel is no service of this one."""
    (tmp_path / "_services" / "stream").mkdir(parents=True)
    assert module(name, tmp_path) == name
    (tmp_path / "_services" / "streams").mkdir()
    assert module(name, tmp_path) == f"paceline._services.{name}"


def test_an_entry_point_of_ours_is_the_module_that_the_checkout_has() -> None:
    """The same object, not a second copy of its module."""
    from streams import analyze

    assert load(EntryPoint("analyze", f"{PREFIX}streams.analyze:main", "paceline.commands")) is analyze.main


def test_an_entry_point_of_others_is_loaded_as_it_is() -> None:
    """Whoever else offers a command names it as Python does."""
    assert load(EntryPoint("theirs", "os.path:join", "paceline.commands")) is os.path.join


@pytest.fixture
def two_of_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A name that somebody's folder on the path has, and so has the checkout."""
    name = "taken_by_two"
    for owner in ("theirs", "ours"):
        (tmp_path / owner / name).mkdir(parents=True)
        (tmp_path / owner / name / "__init__.py").write_text("from . import part\n")
        (tmp_path / owner / name / "part.py").write_text(f"def main() -> str:\n    return {owner!r}\n")
    monkeypatch.syspath_prepend(str(tmp_path / "theirs"))
    monkeypatch.setattr(service_modules, "_HOME", tmp_path / "ours" / "paceline")
    yield name
    for loaded in [loaded for loaded in sys.modules if loaded.partition(".")[0] == name]:
        del sys.modules[loaded]


def test_a_folder_of_somebody_elses_on_the_path_does_not_hide_ours(two_of_a_name: str) -> None:
    """Neither the package nor what is in it, at the first look and at the next."""
    entry = EntryPoint("made", f"{PREFIX}{two_of_a_name}.part:main", "paceline.commands")
    assert [load(entry)(), load(entry)()] == ["ours", "ours"]


def test_a_service_that_cannot_be_imported_leaves_nothing_half_made(two_of_a_name: str, tmp_path: Path) -> None:
    """What it lacks is named, and named again."""
    (tmp_path / "ours" / two_of_a_name / "__init__.py").write_text("import none_of_this_name\n")
    entry = EntryPoint("made", f"{PREFIX}{two_of_a_name}.part:main", "paceline.commands")
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError, match="none_of_this_name"):
            load(entry)
    assert two_of_a_name not in sys.modules


def test_a_service_that_is_not_there_is_named() -> None:
    """As an import that fails says it."""
    with pytest.raises(ModuleNotFoundError, match="no_such_service"):
        load(EntryPoint("none", f"{PREFIX}no_such_service.part:main", "paceline.commands"))
