"""What Python runs at start-up under ``paceline run``: nothing that a script could notice."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paceline.training import activation
from paceline.training.bootstrap import sitecustomize

BOOTSTRAP = Path(sitecustomize.__file__).parent


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """An environment as ``paceline run`` makes it, with a site of the user's own further on the path."""
    (tmp_path / "sitecustomize.py").write_text("import builtins\nbuiltins.mine = 1\n")
    return {"PYTHONPATH": f"{BOOTSTRAP}:{tmp_path}", "PACELINE_SOCKET": str(tmp_path / "none")}


def test_the_users_own_site_still_runs(python: Callable[..., Any], environ: dict[str, str]) -> None:
    """Ours hands over to the one it hides, under the name that one expects."""
    done = python("-c", "import sys; print(mine, sys.modules['sitecustomize'].__file__)", environ=environ)
    assert done.stdout.split()[0] == "1"
    assert str(BOOTSTRAP) not in done.stdout
    assert done.stderr == ""


def test_a_process_without_pytorch_imports_nothing_of_ours(python: Callable[..., Any], environ: dict[str, str]) -> None:
    """Only the finder is there, and importing other modules passes it by."""
    code = "import json, sys; print([name for name in sys.modules if name.startswith(('paceline', 'msgspec'))])"
    done = python("-c", code, environ=environ)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_without_a_socket_there_is_no_finder(python: Callable[..., Any], environ: dict[str, str]) -> None:
    """A folder left on PYTHONPATH does nothing by itself."""
    code = "import sys; print(any('_Finder' in type(finder).__name__ for finder in sys.meta_path))"
    done = python("-c", code, environ=environ | {"PACELINE_SOCKET": ""})
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_a_python_without_paceline_is_told_so_once(python: Callable[..., Any], environ: dict[str, str]) -> None:
    """One line when its PyTorch is imported, and the import goes through."""
    folder = Path(environ["PYTHONPATH"].rpartition(":")[2])
    (folder / "torch.py").write_text("version = 'of the test'\n")
    code = "import sys; sys.modules['paceline'] = None; import torch; print(torch.version)"
    done = python("-c", code, environ=environ)
    assert done.stdout == "of the test\n"
    assert done.stderr.count("\n") == 1
    assert "install paceline for" in done.stderr


def test_awaited_modules_are_those_that_have_hooks() -> None:
    """The two lists, one of which may not import the other, agree."""
    assert set(activation.MODULES) >= sitecustomize._AWAITED
