"""Compiles the tests, with their asserts rewritten, and what they import of ours before workers of pytest-xdist do.

Rule of this file: it saves time and decides nothing. In a fresh clone every worker would compile all of them at the
same moment as the others, 25 s of a processor each; here each file is compiled once.
"""

import compileall
import multiprocessing
import os
import sys
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

from tests.chosen_files import may_choose

ROOT = Path(__file__).parents[2]
#: Folders without a module that tests import.
OTHERS = {"build", "deploy", "dist", "docs", "tests"}
_configs: list[pytest.Config] = []


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """In the process that starts the workers, before it does."""
    config = session.config
    if "PYTEST_XDIST_WORKER" in os.environ or not config.getoption("numprocesses", None) or sys.dont_write_bytecode:
        return
    every = sorted((ROOT / "tests").rglob("*.py"))
    tests = [path for path in every if path.name.startswith("test_") or path.name == "conftest.py"]
    folders = [
        path for path in ROOT.iterdir() if path.is_dir() and path.name.isidentifier() and path.name not in OTHERS
    ]
    modules = sorted(set(every).difference(tests)) + [path for folder in folders for path in folder.rglob("*.py")]
    _configs.append(config)  # Processes that are forked know it.
    with multiprocessing.get_context("fork").Pool(os.cpu_count()) as pool:
        pool.map(rewritten, [path for path in tests if _is_chosen(path, config)], chunksize=8)
        pool.map(compiled, modules, chunksize=16)


def _is_chosen(path: Path, config: pytest.Config) -> bool:
    return path.name == "conftest.py" or may_choose(config.option.markexpr, path.read_text(encoding="utf-8"))


def rewritten(path: Path) -> None:
    """Rewrite the asserts of a test file and keep it where pytest looks for it, unless it is there."""
    folder = rewrite.get_cache_dir(path)
    kept = folder / (path.stem + rewrite.PYC_TAIL)
    if rewrite._read_pyc(path, kept) is not None or not rewrite.try_makedirs(folder):
        return
    (config,) = _configs
    try:
        stat, code = rewrite._rewrite_test(path, config)
    except SyntaxError:
        return  # Who imports it says so.
    rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, stat, kept)


def compiled(path: Path) -> None:
    """Compile a module, unless it is; what is wrong with it is said where it is imported."""
    compileall.compile_file(path, quiet=2)
