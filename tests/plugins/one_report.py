"""One report a test from the processes of pytest-xdist, which send three and two lines besides.

Rule of this file: what does not pass is reported as ever. To send and to take in what passed took an eighth of the
processor time of 2,000 quick tests (28 November 2026).
"""

import os
from collections.abc import Sequence

import pytest
from _pytest.runner import runtestprotocol

from tests.plugins.gate_report import MARKS


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run the test, and report it when it has ended."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return None
    for report in decisive(runtestprotocol(item, log=False, nextitem=nextitem)):
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def decisive(reports: Sequence[pytest.TestReport]) -> list[pytest.TestReport]:
    """Those that say how the test ended: of its call, and what did not pass. The first lasts as long as the others."""
    kept = [report for report in reports if report.when == "call" or not report.passed]
    kept[0].duration += sum(report.duration for report in reports if report not in kept)
    for report in kept:
        report.keywords = {name: 1 for name in MARKS if name in report.keywords}
    return kept
