"""Findings of recordings that are analysed in this process."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from experiments import analyzed
from tests.patience import PATIENCE_S


@pytest.mark.long
def test_of_two_recordings_at_once_each_has_its_own_findings(tmp_path: Path, monkeypatch):
    """A benchmark that runs several jobs at a time once judged each by what was printed of another.

    The first to begin would be the first to end, if both were let in: then the second prints where nobody listens. One
    at a time, the first waits in vain for the second.
    """
    second_in, first_out = threading.Event(), threading.Event()

    def says(arguments: list[str]) -> int:
        name = Path(arguments[0]).name
        print(f'{{"id":"{name}"}}')
        if name == "first":
            second_in.wait(0.2)  # it is to run out
        else:
            second_in.set()
            first_out.wait(PATIENCE_S)
        print(f'{{"id":"{name}"}}')
        return 0

    def found(name: str) -> list[dict[str, str]]:
        made = analyzed.findings_in(tmp_path / name)
        first_out.set()
        return made

    monkeypatch.setattr(analyzed, "main", says)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(found, ["first", "second"])
    assert (first, second) == ([{"id": "first"}] * 2, [{"id": "second"}] * 2)
