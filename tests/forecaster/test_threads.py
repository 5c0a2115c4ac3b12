"""Questions share the processors, not the numbers of one question."""

import argparse
import os

import pytest

from forecaster.__main__ import main

LIBRARIES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")


@pytest.mark.parametrize("given", [None, "4"])
def test_numpy_takes_one_thread_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch, given: str | None) -> None:
    """It is set before the server is imported, and with it numpy."""
    for name in LIBRARIES:
        monkeypatch.setenv(name, given or "")
        if given is None:
            monkeypatch.delenv(name)
    seen: dict[str, str] = {}

    def serve(args: argparse.Namespace, token: str) -> int:
        seen.update(os.environ)
        return 0

    monkeypatch.setattr("forecaster.server.serve", serve)
    assert main(["--no-bus"]) == 0
    assert {seen[name] for name in LIBRARIES} == {given or "1"}
