"""Writes what became of each test, a line of JSON a phase, to the file that GATE_REPORT names, for deploy/gate.py."""

import json
import os
from functools import cache
from pathlib import Path
from typing import TextIO

import pytest

#: How a failure begins that is no wrong value: somebody waited until their patience ended.
WAITED = ("NotInTimeError", "tests.conftest.NotInTimeError", "Failed: Timeout (>", "subprocess.TimeoutExpired")
WAITED += ("playwright._impl._errors.TimeoutError", "TimeoutError", "queue.Empty")
#: And `expect` of Playwright, which looks again and again until then.
WAITED += (
    "AssertionError: Locator expected ",
    "AssertionError: Page URL expected ",
    "AssertionError: Page title expected ",
)
#: So much of why a test failed is told on the last lines.
REASON_CHARACTERS = 200
#: Marks that say what a test needs, and whether it may be repeated.
MARKS = ("bus", "browser", "e2e", "training", "network", "exactly_once", "landing", "slow")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and "PYTEST_XDIST_WORKER" not in os.environ:
        config.pluginmanager.register(_FailuresAtOnce(terminal))


class _FailuresAtOnce:
    """Names each failure as it comes: who runs a ring of an hour need not wait for its end."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._terminal.ensure_newline()
            self._terminal.write_line(f"FAILED {_name(report)[:REASON_CHARACTERS]}: {_reason(report)}")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    place = os.environ.get("GATE_REPORT")
    if place is None or "PYTEST_XDIST_WORKER" in os.environ:
        return
    test = _name(report)
    crash = getattr(report.longrepr, "reprcrash", None)
    row = {
        "test": test,
        "part": test.split("/")[1] if test.count("/") > 1 else "others",
        "phase": report.when,
        "outcome": "xfailed" if hasattr(report, "wasxfail") else report.outcome,
        "seconds": round(report.duration, 3),
        "marks": [mark for mark in MARKS if mark in report.keywords],
        "timed_out": crash is not None and crash.message.startswith(WAITED),
        "reason": _reason(report),
    }
    _report(place).write(json.dumps(row) + "\n")


def pytest_unconfigure() -> None:
    if (place := os.environ.get("GATE_REPORT")) is not None and "PYTEST_XDIST_WORKER" not in os.environ:
        _report(place).close()


@cache
def _report(place: str) -> TextIO:
    """Each line is in the file when the next test starts: it is opened once, for 40,000 lines."""
    return Path(place).open("a", encoding="utf-8", buffering=1)


def _name(report: pytest.TestReport) -> str:
    return report.nodeid.rpartition("@")[0] if _grouped(report.nodeid) else report.nodeid


def _reason(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    return " ".join(crash.message.split())[:REASON_CHARACTERS] if crash is not None else ""


def _grouped(nodeid: str) -> bool:
    """Whether xdist has appended the name of the group that shares a process."""
    return "@" in nodeid.rpartition("]")[2]
