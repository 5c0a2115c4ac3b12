"""What Python runs at start-up under ``paceline run``: nothing that a script could notice."""

import os
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from paceline.training import activation
from paceline.training.bootstrap import sitecustomize

BOOTSTRAP = Path(sitecustomize.__file__).parent
#: Every Python of this machine that is not the tests' own, by pyenv's folders: from 3.6 on.
PYENV = Path(os.environ.get("PYENV_ROOT") or Path(os.environ["PYTEST_INHERITED_HOME"], ".pyenv"))
INTERPRETERS = sorted(PYENV.glob("versions/3.*/bin/python"))


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """An environment as ``paceline run`` makes it, with a site of the user's own further on the path."""
    (tmp_path / "sitecustomize.py").write_text("import builtins\nbuiltins.mine = 1\n")
    return {"PYTHONPATH": f"{BOOTSTRAP}:{tmp_path}", "PACELINE_SOCKET": str(tmp_path / "none")}


@pytest.mark.slow
def test_the_users_own_site_still_runs(python: Callable[..., Any], environ: dict[str, str]) -> None:
    """Ours hands over to the one it hides, under the name that one expects."""
    done = python("-c", "import sys; print(mine, sys.modules['sitecustomize'].__file__)", environ=environ)
    assert done.stdout.split()[0] == "1"
    assert str(BOOTSTRAP) not in done.stdout
    assert done.stderr == ""


@pytest.mark.slow
def test_a_process_without_pytorch_imports_nothing_of_ours(python: Callable[..., Any], environ: dict[str, str]) -> None:
    """Only the finder is there, and importing other modules passes it by."""
    code = "import json, sys; print([name for name in sys.modules if name.startswith(('paceline', 'msgspec'))])"
    done = python("-c", code, environ=environ)
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.slow
def test_without_a_socket_there_is_no_finder(python: Callable[..., Any], environ: dict[str, str]) -> None:
    """A folder left on PYTHONPATH does nothing by itself."""
    code = "import sys; print(any('_Finder' in type(finder).__name__ for finder in sys.meta_path))"
    done = python("-c", code, environ=environ | {"PACELINE_SOCKET": ""})
    assert (done.stdout, done.stderr) == ("False\n", "")


#: Says which ``paceline`` a Python finds, and what of our environment it can see.
FOUND = f"""
import importlib.util, sys, paceline.training.activation as activation
seen = [entry for entry in sys.path if entry.startswith(({sys.prefix!r}, {str(BOOTSTRAP.parents[2])!r}))]
print(activation.__file__, importlib.util.find_spec("msgspec"), *seen)
"""


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with nothing in it: its packages' folder."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    return packages


@pytest.fixture
def plain(bare: Path) -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Runs the Python of ``bare``."""

    def run(*command: str, environ: dict[str, str], cwd: Path = Path("/")) -> "subprocess.CompletedProcess[str]":
        program = str(bare.parents[2] / "bin" / "python")
        return subprocess.run([program, *command], env=environ, capture_output=True, text=True, check=False, cwd=cwd)

    return run


@pytest.mark.slow
def test_a_python_without_paceline_gets_ours_and_nothing_else_of_our_environment(
    plain: Callable[..., Any], environ: dict[str, str]
) -> None:
    """Its packages are for our Python: theirs of the same names may be other versions."""
    done = plain("-c", FOUND, environ=environ)
    assert (done.stdout.split(), done.stderr) == ([activation.__file__, "None", str(BOOTSTRAP)], "")


@pytest.mark.slow
def test_a_folder_called_paceline_is_no_package(
    plain: Callable[..., Any], environ: dict[str, str], tmp_path: Path
) -> None:
    """As a checkout is one, beside which a script is started."""
    (tmp_path / "paceline" / "docs").mkdir(parents=True)
    done = plain("-c", FOUND, environ=environ, cwd=tmp_path)
    assert done.stdout.split()[:1] == [activation.__file__], done.stderr


@pytest.mark.slow
def test_paceline_that_is_installed_there_is_taken(
    plain: Callable[..., Any], environ: dict[str, str], tmp_path: Path
) -> None:
    """One process has one version of it, whatever the script itself imports."""
    its_own = tmp_path / "paceline" / "training"
    its_own.mkdir(parents=True)
    for folder in (its_own.parent, its_own):
        (folder / "__init__.py").touch()
    (its_own / "activation.py").write_text("def on_import(name): print('installed', name)\n")
    (tmp_path / "torch.py").touch()
    done = plain("-c", "import torch", environ=environ)
    assert (done.stdout, done.stderr) == ("installed torch\n", "")


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        "import importlib.util; importlib.util.find_spec('torch'); import torch",
        "try:\n    import torch\nexcept ImportError:\n    import torch",
    ],
    ids=["looked for", "failed"],
)
def test_pytorch_is_followed_whatever_came_before_its_import(
    plain: Callable[..., Any], environ: dict[str, str], tmp_path: Path, code: str
) -> None:
    """Libraries look whether it is installed before they import it; some try again. Once imported it is let alone."""
    its_own = tmp_path / "paceline" / "training"
    its_own.mkdir(parents=True)
    for folder in (its_own.parent, its_own):
        (folder / "__init__.py").touch()
    (its_own / "activation.py").write_text("def on_import(name): print('followed', name)\n")
    first = "import sys\nif 'try:' in sys.argv[1] and not hasattr(sys, 'tried'):\n    sys.tried = True\n"
    (tmp_path / "torch.py").write_text(first + "    raise ImportError('no library yet')\n")
    again = "\nimport importlib; importlib.reload(torch)"
    done = plain("-c", code + again, code, environ=environ)
    assert (done.stdout, done.stderr) == ("followed torch\n", "")


@pytest.mark.slow
@pytest.mark.parametrize("content", ["raise RuntimeError('broken')", "", "def activation(:"])
def test_a_paceline_that_cannot_be_used_is_told_of_once(
    plain: Callable[..., Any], environ: dict[str, str], tmp_path: Path, content: str
) -> None:
    """One line when PyTorch is imported, and the import goes through."""
    (tmp_path / "paceline.py").write_text(content)
    (tmp_path / "torch.py").write_text("version = 'of the test'\n")
    done = plain("-c", "import torch; print(torch.version)", environ=environ)
    assert done.stdout == "of the test\n"
    assert done.stderr.startswith("paceline: timing did not start: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("other", INTERPRETERS, ids=lambda path: path.parents[1].name)
def test_every_python_that_is_here_starts_as_it_would(other: Path, environ: dict[str, str], tmp_path: Path) -> None:
    """Training may start any: from 3.9 on all of ours is imported, an older Python says once that it is not timed."""
    (tmp_path / "torch.py").write_text("__version__ = '1'\n")
    code = "import sys, torch; print(sys.version_info >= (3, 9), 'paceline.training.activation' in sys.modules)"
    done = subprocess.run([other, "-c", code], env=environ, capture_output=True, text=True, check=False, cwd="/")
    timed, activated = done.stdout.split()
    assert timed == activated
    assert done.stderr.count("\n") == 1
    assert ("PyTorch 1 is older" if timed == "True" else "3.9 or newer") in done.stderr


def test_awaited_modules_are_those_that_have_hooks() -> None:
    """The two lists, one of which may not import the other, agree."""
    assert set(activation.MODULES) >= sitecustomize._AWAITED
