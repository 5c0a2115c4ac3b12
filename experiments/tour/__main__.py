"""``make tour``: the page over a whole stack, as its users see it: 20 jobs on 512 GPUs with faults, and two real runs.

Nothing is mocked: `paceline up` is broker, workers, collector, forecaster and page; a real Chromium looks. Checked:
findings are on the page within five seconds, links last, numbers leave as CSV, a suggestion is accepted and verified,
what happens meanwhile is recorded as a session that lacks what the silent node did not say and nothing else,
each fault has its finding and its suggestion and no healthy job has any, a balanced run still names its slow rank, no
script complains, no other host is asked.
"""

import argparse
import contextlib
import json
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from paceline.terminal import say

from ..chromium import key_class, launched
from ..machine import machine
from . import pictures
from .expected import SILENT, unlike
from .heard import Heard
from .stack import BALANCED, OFFICE, REAL, REAL_RANK, Stack, cluster, history, real_run, session, stack
from .visitor import Visitor, card, stamp, stamped_s, unlock

EXAMPLES = """\
examples:
  python -m experiments.tour               all of it, 15 minutes
  python -m experiments.tour --pictures    and take the pictures of docs/page.md
  python -m experiments.tour --keep DIR    keep what the processes said
"""
#: What a finding may take from the topic to the eye; and what workers may take after the end of it all.
SEEN_S, CATCH_UP_S = 5.0, 180.0
#: Messages that workers may still have before them when a picture is taken: some seconds of this cluster's.
WAITING = 2_000
CLUSTER, SERIES = "simulated", f"{OFFICE}/cluster/gpu_busy_ratio"
FORECAST = f"forecast?series={SERIES}"
#: Jobs whose pages are open before they begin; and the one whose fault ends by itself, whose suggestion is accepted.
WATCHED = ("diffusion", "embedding")
MENDED = "diffusion"
#: What is recorded under a name from the page, from before the jobs begin.
SESSION = "tuesday"
#: The simulated cluster's pages: their links, and words that are there.
PAGES = {
    "fleet": ("fleet?metric=utilization_ratio", "GPUs on"),
    "job": (f"job?job={CLUSTER}/llama-70b&span=all", "Findings"),
    "rank": (f"rank?job={CLUSTER}/llama-70b&rank=9&span=all", "Rank 9"),
    "collectives": (f"collectives?job={CLUSTER}/embedding&span=all", "Latest ranks"),
    "suggestions": ("suggestions", "Suggestions"),
    "sessions": ("sessions", "Sessions"),
    "health": ("health", "Pipeline health"),
}


class Tour:
    """What was measured, and what did not hold."""

    def __init__(self, there: Stack, visitor: Visitor, heard: Heard) -> None:
        self.there, self.visitor, self.heard = there, visitor, heard
        self.figures: dict[str, Any] = {}
        self.broken: list[str] = []

    def require(self, holds: bool, words: str) -> None:
        """One promise."""
        say(("held:   " if holds else "BROKEN: ") + words)
        if not holds:
            self.broken.append(words)

    def step(self, words: str, act: Callable[[], object]) -> None:
        """A part of the tour that goes on to the next where it fails."""
        say(words)
        try:
            act()
        except Exception as error:
            self.require(False, f"{words}: {(str(error) or type(error).__name__).splitlines()[0]}")

    def findings_appear(self, jobs: tuple[str, ...], within_s: float) -> None:
        """Findings of ``jobs`` come up on pages that were open before."""
        tabs = {job: self.visitor.tab(f"job?job={job}") for job in jobs}
        for tab in tabs.values():
            stamp(tab, "[class*=st-key-finding-]", "confirmed")
        for job, tab in tabs.items():
            name = job.rpartition("/")[2]
            found = self.heard.until(partial(self.heard.confirmed, name), within_s, f"a finding of {name}")
            at_s = self.heard.until(partial(stamped_s, tab), 60.0, f"the finding of {name} on the page")
            delay_s = at_s - self.heard.confirmed_s[found.id]
            self.figures[f"finding of {name} seen after, s"] = round(delay_s, 1)
            self.require(
                delay_s <= SEEN_S, f"{name}: the finding was on the page {delay_s:.1f} s after the topic had it"
            )
            tab.close()

    def accepted(self, token: str) -> None:
        """Somebody accepts what was suggested."""
        one = self.heard.until(lambda: self.heard.suggested(MENDED), 60.0, f"a suggestion for {MENDED}")
        tab = self.visitor.tab(f"suggestions?suggestion={one.id}")
        unlock(tab, token, "ada")
        self.visitor.accept(tab, one.id, "more loader workers from step 200 on")
        self.heard.until(lambda: self.heard.suggested(MENDED, "accepted"), 60.0, "accepted")
        self._shows(tab, f"{card(one.id)}:has-text('accepted')")
        self.require(True, f"accepted on the page: {one.title}")
        tab.close()

    def _shows(self, tab: Page, selector: str) -> None:
        there = tab.locator(selector).filter(visible=True)
        self.heard.until(there.count, 60.0, f"{selector} on the page")

    def caught_up(self) -> None:
        """What pages show is of now."""
        began_s = time.monotonic()
        self.heard.until(lambda: self.heard.waiting() <= WAITING, CATCH_UP_S, "what workers still have to read")
        self.figures["waited for workers, s"] = round(time.monotonic() - began_s, 1)

    def verified(self) -> None:
        """Once its fault is over, the page says what it brought."""
        one = self.heard.until(lambda: self.heard.suggested(MENDED, "verified"), 400.0, "verified")
        tab = self.visitor.tab(f"suggestions?suggestion={one.id}")
        self._shows(tab, f"{card(one.id)}:has-text('verified'):has-text('Measured:')")
        self.require(True, f"verified on the page: {one.title}")
        tab.close()

    def recorded(self, token: str) -> None:
        """Somebody begins a session."""
        tab = self.visitor.tab("sessions")
        unlock(tab, token, "ada")
        self.visitor.record(tab, SESSION)
        self._shows(tab, f"{key_class(f'session-{SESSION}')}:has-text('recording')")
        tab.close()

    def proved(self, token: str) -> None:
        """And ends it: missing is what the silent node did not say, and nothing else."""
        tab = self.visitor.tab(f"sessions?session={SESSION}")
        unlock(tab, token, "ada")
        self.visitor.stop_recording(tab, SESSION)
        self._shows(tab, f"{key_class(f'session-{SESSION}')}:has-text('stopped')")
        tab.close()
        told = session(self.there, SESSION)
        lacking = {one["node"] for one in told["proof"]["producers"] if one["missing_count"]}
        silent = {one["client"] for one in told["silences"]}
        words = f"{told['messages']:,} messages in the session, {told['missing']} missing, of {sorted(lacking)}"
        self.require(SILENT in silent and lacking <= {SILENT} and not told["gap_count"], words)

    def advised(self) -> None:
        """The real run's finding has become a suggestion."""
        one = self.heard.until(lambda: self.heard.suggested(REAL.job), 30.0, f"a suggestion for {REAL.job}")
        self.require(one.action == "feed_input", f"suggested for the real run: {one.title}")

    def balanced(self) -> None:
        """Nobody waits for the slow rank any more, and it is still told which one that is."""
        found = self.heard.until(
            lambda: self.heard.confirmed(BALANCED.job, "balanced_straggler"), 150.0, "its slow rank"
        )
        self.require(found.ranks == [REAL_RANK], f"the balanced run: {found.summary}")

    def exported(self) -> None:
        """Numbers leave every page that has a picture."""
        for path in (link for name, (link, _) in PAGES.items() if name not in pictures.WITHOUT_PICTURES):
            told = self.visitor.export(path)
            self.require(told.startswith((b"series,", b"node,")), f"{path}: {len(told)} bytes of CSV")

    def forecast(self) -> None:
        """Three days of a small cluster, and what comes next there."""
        with tempfile.TemporaryDirectory(prefix="paceline-tour-") as folder:
            history(self.there, Path(folder))
        newest_s = time.time() - 900.0
        self.heard.until(lambda: self.heard.forecasts.get(SERIES, 0.0) > newest_s, 400.0, f"a forecast of {SERIES}")
        self.visitor.link_lasts(FORECAST, f"cluster {OFFICE}: GPUs busy")
        self.require(True, "a forecast is drawn")


def main(argv: list[str]) -> int:
    """Go round; 1 where something that was promised did not hold."""
    made = argparse.ArgumentParser(
        prog="experiments.tour",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--pictures", action="store_true", help=f"write {pictures.FOLDER.relative_to(Path.cwd())}")
    made.add_argument("--keep", metavar="DIR", type=Path, help="keep what the processes said in this folder")
    options = made.parse_args(argv)
    token, began_s, before = secrets.token_hex(16), time.monotonic(), machine()
    with contextlib.ExitStack() as held:
        folder = options.keep or Path(held.enter_context(tempfile.TemporaryDirectory(prefix="paceline-tour-")))
        folder.mkdir(parents=True, exist_ok=True)
        there = held.enter_context(stack(folder, token))
        say(f"page at {there.page}")
        browser = held.enter_context(launched())
        heard = Heard(there.settings)
        tour = Tour(there, Visitor(browser, there.page), heard)
        _cluster(tour, token, take=options.pictures)
        _real(tour)
        _balanced(tour, take=options.pictures)
        tour.step("three days of an office's GPUs", tour.forecast)
        if options.pictures:
            tour.step("pictures of forecast", partial(pictures.take, tour.visitor, "forecast", FORECAST))
        complaints = [words for tab in tour.visitor.watched for words in (*tab.errors, *tab.complaints)]
        tour.require(not complaints, f"no script complains {complaints[:5]}")
        foreign = [url for tab in tour.visitor.watched for url in tab.foreign]
        tour.require(not foreign, f"no other host is asked {foreign[:5]}")
        heard.close()
    took = round(time.monotonic() - began_s)
    print(json.dumps({"machine": before, "took_s": took, "figures": tour.figures, "broken": tour.broken}, indent=2))
    return 1 if tour.broken else 0


def _cluster(tour: Tour, token: str, *, take: bool) -> None:
    """The simulated cluster, from its beginning to its end."""
    watched = tuple(f"{CLUSTER}/{job}" for job in WATCHED)
    tour.step("a session is recorded", lambda: tour.recorded(token))
    with cluster(tour.there) as running:
        tour.step("findings appear", lambda: tour.findings_appear(watched, 300.0))
        tour.step("a suggestion is accepted", lambda: tour.accepted(token))
        for path, words in PAGES.values():
            tour.step(f"the link {path} lasts", partial(tour.visitor.link_lasts, path, words))
        tour.step("numbers leave", tour.exported)
        for name, (path, _) in PAGES.items() if take else ():
            tour.step("workers have caught up", tour.caught_up)
            tour.step(f"pictures of {name}", partial(pictures.take, tour.visitor, name, path))
        tour.step("it is verified", tour.verified)
        say("waiting for the cluster's ten minutes to end")
        tour.heard.until(lambda: running.poll() is not None, 700.0, "the end of the simulated cluster")
        tour.step("the session ends", lambda: tour.proved(token))
        tour.require(running.returncode == 0, f"the simulated cluster ended with status {running.returncode}")
    wrong = _unlike(tour)
    for words in wrong:
        tour.require(False, words)
    tour.require(not wrong, "each fault has its finding and its suggestion, and no healthy job has any")


def _unlike(tour: Tour) -> list[str]:
    """What is not as it must be, once workers that share the machine with a browser have caught up."""
    end = time.monotonic() + CATCH_UP_S
    while (words := unlike(tour.heard.findings.values(), tour.heard.suggestions.values())) and time.monotonic() < end:
        tour.heard.listen()
    return words


def _real(tour: Tour) -> None:
    """Four processes that really train."""
    with real_run(tour.there, REAL) as running:
        tour.step("a real run is judged", lambda: tour.findings_appear((REAL.job,), 150.0))
        _ends_well(tour, running)
    found = tour.heard.confirmed(REAL.job)
    right = found is not None and (found.ranks, found.cause) == ([REAL_RANK], "input_pipeline")
    tour.require(right, f"the real run: {found.summary if found else 'nobody is accused'}")
    tour.step("the real run has its suggestion", tour.advised)


def _balanced(tour: Tour, *, take: bool) -> None:
    """Four processes of which a slow one gets less to do."""
    with real_run(tour.there, BALANCED) as running:
        tour.step("a balanced run names its slow rank", tour.balanced)
        _ends_well(tour, running)
    if take:  # A browser that draws meanwhile takes processors from the ranks that are compared.
        looks = partial(pictures.take, tour.visitor, "balance", f"job?job={BALANCED.job}&span=all", "Balance")
        tour.step("pictures of balance", looks)


def _ends_well(tour: Tour, running: "subprocess.Popen[bytes]") -> None:
    try:
        tour.require(running.wait(150) == 0, "the run ended well")
    except subprocess.TimeoutExpired:
        tour.require(False, "the run ends")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
