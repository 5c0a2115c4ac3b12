"""The terminal under Textual's own pilot: keys, panes, sizes, an outage, and names that are text and nothing else."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from paceline.events import Cost
from paceline.top.model import Model
from paceline.top.pane import Pane
from paceline.top.picture import Picture, picture
from paceline.top.reader import Connection
from paceline.top.screen import Top
from tests.derived_events import HOSTILE, described, finding, job_window, rank_window, suggestion
from tests.patience import PATIENCE_S

Drive = Callable[[Pilot[None]], Awaitable[None]]


class Bus:
    """A model that the test fills, as a source of pictures."""

    def __init__(self, *told: object) -> None:
        self.address, self.model = "kafka:9092", Model()
        self.connection = Connection("connected", time.time(), "", True)
        for event in told:
            self.hear(event)

    def hear(self, event: object) -> None:
        self.model.update(event, time.time())

    def picture(self, chosen: tuple[str, str] | None, only: str | None) -> Picture:
        return picture(self.model, time.time(), chosen, only)


def two_jobs() -> Bus:
    ranks = [rank_window(rank, 0.9 if rank == 3 else 0.5) for rank in range(8)]
    other = [described(job="zebra"), rank_window(41, job="zebra")]
    return Bus(described(), job_window(), *ranks, *other, finding(), suggestion(expires_s=4e9))


def drive(bus: Bus, body: Drive, size: tuple[int, int] = (80, 24)) -> Top:
    app = Top(bus)

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await body(pilot)

    asyncio.run(run())
    return app


async def settled(pilot: Pilot[None], condition: Callable[[], object]) -> None:
    """Textual's pilot waits for the key, not for what follows from it: that is asked for until it is so."""
    end_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end_s, "the screen never came to this"
        await pilot.pause(0.01)


def shown(app: Top, name: str) -> list[list[str]]:
    """The cells of a pane."""
    pane = app.query_one(f"#{name}", Pane)
    return [[str(cell).strip() for cell in pane.get_row_at(at)] for at in range(pane.row_count)]


def said(app: Top, name: str) -> str:
    return str(app.query_one(f"#{name}", Static).content)


def screen_text(app: Top) -> str:
    """Every line as it is on the screen."""
    return "\n".join("".join(segment.text for segment in strip) for strip in app.screen._compositor.render_strips())


@pytest.mark.long
def test_it_shows_jobs_ranks_findings_and_suggestions_at_80_by_24() -> None:
    async def body(pilot: Pilot[None]) -> None:
        app = pilot.app
        assert isinstance(app, Top)
        assert [row[:2] for row in shown(app, "jobs")] == [["slow", "train"], ["running", "zebra"]]
        assert shown(app, "ranks")[0] == ["3", "node-0", "900 ms", "1.80x", "1.00 s", "slow computation on the worker"]
        assert [row[0] for row in shown(app, "findings")] == ["confirmed"]
        assert [row[2] for row in shown(app, "suggestions")] == ["Cordon node-1"]
        # Panes and the line of keys are drawn one after the other.
        await settled(pilot, lambda: all(word in screen_text(app) for word in ("Cordon node-1", "Quit")))
        lines = screen_text(app).splitlines()
        assert len(lines) == 24
        assert all(key in lines[-1] for key in ("Down", "Up", "More", "Next pane", "Pause", "Filter", "Quit"))
        for word in ("train", "3  node-0", "Straggler: rank 3", "Cordon node-1", "kafka:9092"):
            assert word in screen_text(app)

    drive(two_jobs(), body)


@pytest.mark.slow
def test_the_job_under_the_cursor_is_the_one_whose_ranks_are_shown() -> None:
    async def body(pilot: Pilot[None]) -> None:
        app = pilot.app
        assert isinstance(app, Top)
        for key, rank in (("j", "41"), ("k", "3"), ("down", "41"), ("up", "3")):
            await pilot.press(key)
            await settled(pilot, lambda rank=rank: shown(app, "ranks")[0][0] == rank)  # type: ignore[misc]

    drive(two_jobs(), body)


@pytest.mark.long
def test_the_cursor_stays_on_its_job_when_jobs_change_places() -> None:
    bus = two_jobs()

    async def body(pilot: Pilot[None]) -> None:
        app = pilot.app
        assert isinstance(app, Top)
        await pilot.press("j")
        await settled(pilot, lambda: shown(app, "ranks")[0][0] == "41")
        bus.hear(finding(id="f9", job="zebra", cost=Cost(lost_s=99.0, gpu_hours=1.0, throughput_lost_ratio=0.5)))
        app.refresh_picture()
        await settled(pilot, lambda: [row[1] for row in shown(app, "jobs")] == ["zebra", "train"])
        await settled(pilot, lambda: app.query_one("#jobs", Pane).cursor_row == 0)
        assert shown(app, "ranks")[0][0] == "41"

    drive(bus, body)


@pytest.mark.slow
def test_tab_goes_from_pane_to_pane_and_the_focused_one_is_large() -> None:
    async def body(pilot: Pilot[None]) -> None:
        seen = []
        for _ in range(5):
            focused = pilot.app.focused
            assert isinstance(focused, Pane)
            others = [pane for pane in pilot.app.query(Pane) if pane is not focused]
            await settled(pilot, lambda one=focused, rest=others: one.size.height > max(it.size.height for it in rest))  # type: ignore[misc]
            seen.append(focused.id)
            await pilot.press("tab")
            await settled(pilot, lambda before=focused: pilot.app.focused is not before)  # type: ignore[misc]
        assert seen == ["jobs", "ranks", "findings", "suggestions", "jobs"]

    drive(two_jobs(), body)


@pytest.mark.slow
def test_enter_shows_a_finding_and_a_suggestion_in_full() -> None:
    async def body(pilot: Pilot[None]) -> None:
        app = pilot.app
        assert isinstance(app, Top)
        await pilot.press("tab", "tab", "enter")
        await settled(pilot, lambda: "Rank 3 is slow since step 100." in screen_text(app))
        await pilot.press("escape")
        await settled(pilot, lambda: isinstance(app.focused, Pane))
        await pilot.press("tab", "enter")
        await settled(pilot, lambda: "$ kubectl cordon node-1" in screen_text(app))
        await pilot.press("escape")
        await settled(pilot, lambda: isinstance(app.focused, Pane))

    drive(two_jobs(), body)


@pytest.mark.slow
def test_a_filter_is_typed_kept_and_dropped() -> None:
    async def body(pilot: Pilot[None]) -> None:
        app = pilot.app
        assert isinstance(app, Top)
        await pilot.press("slash", *"zeb")
        await settled(pilot, lambda: [row[1] for row in shown(app, "jobs")] == ["zebra"])
        await pilot.press("enter")
        await settled(pilot, lambda: isinstance(app.focused, Pane) and "filter: zeb" in said(app, "status"))
        await pilot.press("slash", "escape")
        await settled(pilot, lambda: len(shown(app, "jobs")) == 2)

    drive(two_jobs(), body)


@pytest.mark.long
def test_paused_nothing_moves_until_it_goes_on() -> None:
    bus = two_jobs()

    async def body(pilot: Pilot[None]) -> None:
        app = pilot.app
        assert isinstance(app, Top)
        await pilot.press("p")
        bus.hear(described(job="late"))
        app.refresh_picture()
        assert len(shown(app, "jobs")) == 2
        assert said(app, "banner").startswith("paused")
        await pilot.press("p")
        await settled(pilot, lambda: len(shown(app, "jobs")) == 3)

    drive(bus, body)


@pytest.mark.long
def test_a_lost_broker_is_told_and_what_was_known_stays() -> None:
    bus = two_jobs()

    async def body(pilot: Pilot[None]) -> None:
        app = pilot.app
        assert isinstance(app, Top)
        assert not app.query_one("#banner").display
        bus.connection = Connection("lost", time.time() - 30.0, f"nothing listens at {HOSTILE}", False)
        app.refresh_picture()
        assert app.query_one("#banner").display
        assert re.match(r"lost 3\d s ago; earlier data is shown below: nothing listens", said(app, "banner"))
        assert said(app, "banner").isprintable()
        assert len(shown(app, "jobs")) == 2
        bus.connection = Connection("connected", time.time(), "", True)
        app.refresh_picture()
        assert not app.query_one("#banner").display

    drive(bus, body)


@pytest.mark.slow
@pytest.mark.parametrize("size", [(40, 10), (80, 24), (200, 60), (20, 5)])
def test_any_size_and_a_change_of_it(size: tuple[int, int]) -> None:
    async def body(pilot: Pilot[None]) -> None:
        app = pilot.app
        assert isinstance(app, Top)
        await pilot.resize_terminal(120, 40)
        await settled(pilot, lambda: len(screen_text(app).splitlines()) == 40)
        await pilot.resize_terminal(*size)
        await settled(pilot, lambda: len(screen_text(app).splitlines()) == size[1])

    drive(two_jobs(), body, size)


@pytest.mark.slow
def test_hostile_names_are_shown_as_text() -> None:
    bus = Bus(
        described(job=HOSTILE),
        finding(job=HOSTILE, summary=HOSTILE),
        suggestion(title="[bold red]x[/] [@click=quit]y[/]", expires_s=4e9),
    )

    async def body(pilot: Pilot[None]) -> None:
        app = pilot.app
        assert isinstance(app, Top)
        await settled(pilot, lambda: "[bold red]x[/]" in screen_text(app))
        await pilot.press("tab", "tab", "enter")
        await settled(pilot, lambda: "[click](http" in screen_text(app))
        assert all(line.isprintable() for line in screen_text(app).splitlines())

    drive(bus, body)


@pytest.mark.slow
def test_an_empty_bus_names_the_command() -> None:
    async def body(pilot: Pilot[None]) -> None:
        app = pilot.app
        assert isinstance(app, Top)
        start = "no job has reported yet; start one: paceline run --brokers kafka:9092 -- torchrun train.py"
        await settled(pilot, lambda: start in " ".join(screen_text(app).split()))
        assert "paceline streams" not in screen_text(app)
        await pilot.press("j", "enter", "tab", "enter")

    drive(Bus(), body)


@pytest.mark.long
def test_without_a_broker_the_banner_is_all_that_is_advised() -> None:
    """Nothing has been read, so there is no earlier data, and no job is missed."""
    bus = Bus()
    bus.connection = Connection("lost", time.time() - 30, "connection refused; start one with paceline up", False)

    async def body(pilot: Pilot[None]) -> None:
        app = pilot.app
        assert isinstance(app, Top)
        banner = re.compile(r"^lost \d+ s ago: connection refused; start one with paceline up ", re.M)
        await settled(pilot, lambda: banner.search(screen_text(app)))
        assert "paceline run" not in screen_text(app)
        assert "no jobs" in screen_text(app)

    drive(bus, body)


@pytest.mark.long
def test_q_ends_it() -> None:
    async def body(pilot: Pilot[None]) -> None:
        await pilot.press("q")

    assert drive(two_jobs(), body).return_code == 0
