"""Somebody at a browser: opens pages, reloads links, exports, unlocks, accepts; and what a page did that it must not.

Rule of this file: only what a person can do and see.
"""

import contextlib
from collections.abc import Callable
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Error, Page
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
#: Plotly saves a picture and says so at its chart; it fails to say so where the page has drawn the chart anew since.
_SAVED = ("Cannot read properties of undefined (reading 'locale')", "/PlotlyChart.")


class Watched:
    """What a tab did that it must not: ``errors`` of its scripts, ``complaints`` on its console, ``foreign`` hosts."""

    def __init__(self, tab: Page) -> None:
        self.errors: list[str] = []
        self.complaints: list[str] = []
        self.foreign: list[str] = []
        tab.on("pageerror", self._raised)
        tab.on("console", self._console)
        tab.on("request", lambda request: self._asked(request.url))
        tab.on("websocket", lambda socket: self._asked(socket.url))

    def _raised(self, error: Error) -> None:
        words, place = _SAVED
        if error.message != words or place not in (error.stack or ""):
            self.errors.append(str(error))

    def _console(self, told: ConsoleMessage) -> None:
        if told.type == "error" and _PROBES not in told.location["url"]:
            self.complaints.append(told.text)

    def _asked(self, url: str) -> None:
        if urlsplit(url).hostname not in (None, "127.0.0.1"):
            self.foreign.append(url)


class Visitor:
    """One browser, and what went wrong in any of its tabs."""

    def __init__(self, browser: Browser, page: str) -> None:
        self.browser, self.page = browser, page
        self.watched: list[Watched] = []

    def tab(self, path: str, *, width: int = 1440, height: int = 1200, dark: bool = False) -> Page:
        """A new tab at ``path`` of the page."""
        tab = self.browser.new_page(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
        )
        tab.set_default_timeout(PATIENCE_MS)
        self.watched.append(Watched(tab))
        tab.goto(f"{self.page}/{path}")
        return tab

    def link_lasts(self, path: str, words: str) -> None:
        """Open a link, see ``words`` there, reload, see them again, and the address as it was.

        Raises:
            RunError: it does not last.
        """
        tab = self.tab(path)
        current(tab).get_by_text(words).first.wait_for()
        tab.reload()
        current(tab).get_by_text(words).first.wait_for()
        if tab.url != f"{self.page}/{path}":
            raise RunError(f"{path} turned into {tab.url}")
        tab.close()

    def export(self, path: str) -> bytes:
        """The first table of numbers that the page gives.

        Raises:
            RunError: nothing was downloaded.
        """
        tab = self.tab(path)
        made = downloaded(tab, lambda: tab.get_by_role("button", name="CSV").first.click())
        tab.close()
        return made

    def accept(self, tab: Page, suggestion: str, because: str) -> None:
        """Accept the suggestion with that id."""
        tab.locator(card(suggestion)).get_by_role("button", name="Accept", exact=True).click()
        asked = tab.get_by_label("Because").filter(visible=True)
        asked.fill(because)
        asked.press("Enter")

    def record(self, tab: Page, session: str) -> None:
        """Begin a session of that name, of everything."""
        tab.locator(f"{key_class('session_new')} summary").filter(visible=True).click()
        tab.get_by_label("Name", exact=True).fill(session)
        tab.get_by_role("button", name="Start", exact=True).click()

    def stop_recording(self, tab: Page, session: str) -> None:
        """End a session."""
        tab.locator(key_class(f"session-{session}")).get_by_role("button", name="Stop", exact=True).click()


def downloaded(tab: Page, click: Callable[[], None]) -> bytes:
    """What a click brings; one that falls between two drawings of the page is lost, and made again.

    Raises:
        RunError: nothing was downloaded.
    """
    for _ in range(8):
        with contextlib.suppress(PlaywrightTimeoutError):
            with tab.expect_download(timeout=15_000) as told:
                click()
            return told.value.path().read_bytes()
    raise RunError(f"{tab.url}: nothing was downloaded")


def unlock(tab: Page, token: str, name: str) -> None:
    """Say who one is, with the token."""
    given = tab.get_by_label("Token", exact=True)
    if not given.is_visible():
        tab.locator(f"{key_class('token')} summary").filter(visible=True).click()
    tab.get_by_label("Your name, for the audit log").fill(name)
    given.fill(token)
    tab.get_by_role("button", name="Unlock").click()


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
