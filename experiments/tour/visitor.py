"""Somebody at a browser: opens pages, reloads links, exports, unlocks, accepts; and what a page did that it must not.

Rule of this file: only what a person can do and see.
"""

import time
from collections.abc import Callable
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Page
from playwright.sync_api import TimeoutError as PlaywrightTimeoutError

from ..chromium import current, key_class
from ..processes import RunError

PATIENCE_MS = 120_000
_STAMP = """([selector, words]) => {
    const look = () => {
        const there = [...document.querySelectorAll(selector)].some((found) => found.textContent.includes(words));
        if (there && !window.firstSeen) window.firstSeen = Date.now();
    };
    new MutationObserver(look).observe(document.body, {childList: true, subtree: true, characterData: true});
    look();
}"""
#: Streamlit looks for its own address below that of each page; the 404 is its.
_PROBES = "/_stcore/"


class Visitor:
    """One browser, its tabs, and what went wrong in any of them."""

    def __init__(self, browser: Browser, page: str) -> None:
        self.browser, self.page = browser, page
        self.complaints: list[str] = []
        self.foreign: list[str] = []

    def tab(self, path: str, *, width: int = 1440, height: int = 1200, dark: bool = False) -> Page:
        """A new tab at ``path`` of the page."""
        tab = self.browser.new_page(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
        )
        tab.set_default_timeout(PATIENCE_MS)
        tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        tab.on("console", self._console)
        tab.on("request", lambda request: self._asked(request.url))
        tab.on("websocket", lambda socket: self._asked(socket.url))
        tab.goto(f"{self.page}/{path}")
        return tab

    def _console(self, told: ConsoleMessage) -> None:
        if told.type == "error" and _PROBES not in told.location["url"]:
            self.complaints.append(told.text)

    def _asked(self, url: str) -> None:
        if urlsplit(url).hostname not in (None, "127.0.0.1"):
            self.foreign.append(url)

    def link_lasts(self, path: str, words: str) -> None:
        """Open a link, see ``words`` there, reload, see them again, and the address as it was.

        Raises:
            RunError: it does not last.
        """
        tab = self.tab(path)
        for _ in range(2):
            current(tab).get_by_text(words).first.wait_for()
            tab.reload()
        current(tab).get_by_text(words).first.wait_for()
        if tab.url != f"{self.page}/{path}":
            raise RunError(f"{path} turned into {tab.url}")
        tab.close()

    def export(self, path: str) -> bytes:
        """The first table of numbers that the page gives; a click that falls between two drawings is made again.

        Raises:
            RunError: nothing was downloaded.
        """
        tab = self.tab(path)
        for _ in range(8):
            try:
                with tab.expect_download(timeout=15_000) as told:
                    tab.get_by_role("button", name="CSV").first.click()
                made = told.value.path().read_bytes()
            except PlaywrightTimeoutError:
                continue
            tab.close()
            return made
        raise RunError(f"{path}: nothing was downloaded")

    def unlock(self, tab: Page, token: str, name: str) -> None:
        """Say who one is, with the token."""
        given = tab.get_by_label("Token", exact=True)
        if not given.is_visible():
            tab.locator(f"{key_class('token')} summary").filter(visible=True).click()
        tab.get_by_label("Your name, for the record").fill(name)
        given.fill(token)
        tab.get_by_role("button", name="Unlock").click()
        current(tab).get_by_text(f"You accept and dismiss as {name}.").wait_for()

    def accept(self, tab: Page, suggestion: str, because: str) -> None:
        """Accept the suggestion with that id."""
        tab.locator(card(suggestion)).get_by_role("button", name="Accept", exact=True).click()
        asked = tab.get_by_label("Because").filter(visible=True)
        asked.fill(because)
        asked.press("Enter")


def card(suggestion: str) -> str:
    """Where a suggestion is on the page."""
    return key_class(f"suggestion-{suggestion}")


def stamp(tab: Page, selector: str, words: str) -> None:
    """Have the browser note when something with ``words`` is there for the first time."""
    tab.evaluate(_STAMP, [selector, words])


def stamped_s(tab: Page) -> float | None:
    """When it was there, Unix seconds."""
    told = tab.evaluate("window.firstSeen")
    return told / 1000 if told else None


def seen(tab: Page, selector: str, listen: Callable[[], None], within_s: float) -> None:
    """Wait until something is there; ``listen`` is called in between.

    Raises:
        RunError: it was not, within ``within_s`` seconds.
    """
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        if tab.locator(selector).filter(visible=True).count():
            return
        listen()
    raise RunError(f"{urlsplit(tab.url).path} never showed {selector}")
