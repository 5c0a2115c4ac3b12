"""Chromium as experiments and the page's tests open it: it asks nobody but the page's own server for anything."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, Locator, Page, sync_playwright

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
#: Elements that are shown and not left over from before Streamlit drew the page anew.
CURRENT = "[data-testid=stElementContainer][data-stale=false]:not([data-retained])"


@contextlib.contextmanager
def launched() -> Iterator[Browser]:
    """A browser without a window."""
    with sync_playwright() as play, play.chromium.launch(executable_path=str(CHROMIUM), args=list(FLAGS)) as browser:
        yield browser


def current(page: Page, scope: str = "") -> Locator:
    """All elements of the page as it was drawn last, or those in ``scope``, a CSS selector."""
    return page.locator(f"{scope} {CURRENT}").filter(visible=True)


def key_class(key: str) -> str:
    """The selector of what Streamlit draws under ``key``.

    >>> key_class("finding-straggler c/job 5")
    '.st-key-finding-straggler-c-job-5'
    """
    return ".st-key-" + re.sub(r"[^a-zA-Z0-9_-]", "-", key.strip())
