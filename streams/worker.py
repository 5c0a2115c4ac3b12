"""One worker's life: start the app, store what is due, stop in good order or report why it could not go on.

Rule of this file: everything real is built and ended here; what is done with an event is the door's affair.
"""

import asyncio
import contextlib
import logging
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import faust

from paceline import hosts
from paceline.events.silence import KAFKA_SILENT_S
from paceline.kafka.errors import BusError
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import TopicDescription, TopicInspector
from paceline.settings import MOST_RANKS, SettingError
from paceline.small_server import SmallServer

from . import health
from .beat import StoodStillError
from .cluster_advice import DEFAULTS, AdviceSettings
from .command_door import CommandDoor
from .door import Door
from .faust_app import CHANGELOG, build, where
from .meters import WorkerState
from .topic_watch import TopicWatch
from .watchdog import Watchdog

log = logging.getLogger(__name__)

LOOK_S = 0.25
#: How often brokers are asked whether the topics are still the same.
WATCH_S = 5.0
#: Longer than this neither the last snapshot nor the app's own stop may take.
STOP_S = 10.0
#: Joining takes 3 to 5 s; what takes longer than this waits for an answer that will not come. And the end of all of it.
READY_S, ENDED_S = 60.0, 2 * STOP_S + 5.0


class WorkerError(Exception):
    """The worker could not go on; what it had not stored will be read again."""


class WorkerSetup(NamedTuple):
    """What every worker of this process is started with, the first one and those that take its place."""

    settings: BrokerSettings
    #: Address and port of health and metrics; port 0 is none.
    web: tuple[str, int] = ("127.0.0.1", 0)
    further_hosts: Sequence[str] = ()
    most_ranks: int = MOST_RANKS.default
    advice: AdviceSettings = DEFAULTS
    ready_s: float = READY_S


class Worker:
    """A Faust worker in this process."""

    def __init__(
        self,
        setup: WorkerSetup,
        joined: Mapping[str, TopicDescription],
        commands: CommandDoor | None = None,
        restarts: int = 0,
        watchdog: Watchdog | None = None,
    ) -> None:
        """A worker that joins the topics ``joined``, as brokers describe them right before.

        ``watchdog`` acts where it is not ready within ``setup.ready_s``, or does not end.
        """
        self.setup = setup
        self.names = hosts.answered(setup.web[0], setup.further_hosts)
        self.joined = joined
        self.watch = TopicWatch(joined)
        self.restarts = restarts
        self.commands = commands
        self.watchdog = watchdog
        self.ready = self.stopped = False
        self._answered_s = time.monotonic()

    def waits(self) -> str | None:
        """What the worker waits for; None while it works."""
        if not self.ready:
            return "joining the group"
        if self.watch.gone:
            return f"no topic {', '.join(self.watch.gone)}"
        silent_s = time.monotonic() - self._answered_s
        return f"no answer from Kafka for {silent_s:.0f} s" if silent_s > KAFKA_SILENT_S else None

    def _answered(self) -> None:
        self._answered_s = time.monotonic()

    async def run(self) -> None:
        """Work until SIGTERM or SIGINT.

        Raises:
            WorkerError: the broker went away, or something could not be delivered.
            SettingError: the web port is taken.
        """
        loop = asyncio.get_running_loop()
        stop, failure = asyncio.Event(), loop.create_future()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)

        def failed(error: BaseException) -> None:
            if not failure.done():
                failure.set_result(error)

        ids = {name: topic.id for name, topic in self.joined.items()}
        hear = (lambda answer: None) if self.commands is None else self.commands.hear
        setup = self.setup
        app, door = build(
            setup.settings,
            failed,
            self._answered,
            setup.most_ranks,
            ids,
            hear,
            setup.advice,
            self.joined[CHANGELOG.name].partitions,
        )
        if self.watchdog is not None:
            self.watchdog.expect(lambda: f"not ready after {setup.ready_s:g} s ({where(app)})", setup.ready_s)
        site = await self._serve(door) if setup.web[1] else None
        starting = asyncio.create_task(self._start(app, door))
        watching = asyncio.create_task(self._watch())
        attending = asyncio.create_task(self._attend(door))
        stopping = asyncio.create_task(stop.wait())
        try:
            lives = {starting, watching, attending, stopping, failure}
            await asyncio.wait(lives, return_when=asyncio.FIRST_COMPLETED)
            self.ready, self.stopped = False, stop.is_set()
            if self.watchdog is not None:
                self.watchdog.expect(lambda: f"still ending after {ENDED_S:g} s", ENDED_S)
            if stop.is_set():
                await self._finish(door)
        finally:
            for task in (starting, stopping, watching, attending):
                task.cancel()
            await self._end(app)
            if site is not None:
                await site.close()
        if not stop.is_set():
            raise WorkerError(_cause(failure, attending, starting, watching))

    async def _serve(self, door: Door) -> SmallServer:
        def numbers() -> Callable[[], str]:
            state = WorkerState(
                in_hand=door.offsets.in_hand(),
                units=len(door.processor.states),
                ready=self.waits() is None,
                restarts=self.restarts,
                lag=door.lag() if self.ready else {},
                now_s=door.clock(),
                wall_s=door.wall(),
                waiting=door.stores_wait(),
            )
            return health.metrics(door.counts, state)

        address, port = self.setup.web
        try:
            return await health.serve(address, port, self.waits, numbers, self.names)
        except OSError as error:
            raise SettingError(f"--web-port={port} on {address}: {error.strerror}; allowed: a free port") from error

    async def _start(self, app: faust.App, door: Door) -> None:
        """Join, then store what is due until cancelled. Ends by itself only when the app does."""
        await app.start()
        door.beat()  # From here on it must not stand still.
        self.ready = not app.should_stop
        if self.watchdog is not None:
            self.watchdog.done()
        log.info("ready: %s on %s", app.conf.id, self.setup.settings.address)
        while not app.should_stop:
            await door.checkpoint()
            await asyncio.sleep(LOOK_S)
        if app.crash_reason is not None:
            raise app.crash_reason

    async def _watch(self) -> None:
        """Ask for the topics again and again.

        Raises:
            WorkerError: one is no longer that which was joined.
        """
        changed: list[str] = []
        with contextlib.closing(TopicInspector(self.setup.settings)) as inspector:
            while not changed:
                await asyncio.sleep(WATCH_S)
                # Brokers that are away are told of by ``waits``; a certificate that is being replaced comes back.
                with contextlib.suppress(BusError, SettingError):
                    present = await asyncio.to_thread(inspector.describe, self.joined)
                    changed = self.watch.update(present, time.monotonic())
        raise WorkerError(f"deleted, made again or with more partitions: {', '.join(changed)}")

    async def _attend(self, door: Door) -> None:
        """Answer commands and give them, and notice when this process stood still, until cancelled."""
        while True:
            if self.commands is not None:
                self.commands.turn()
            if self.ready:  # Before that it stores nothing.
                door.beat()
            await asyncio.sleep(LOOK_S)

    async def _finish(self, door: Door) -> None:
        try:
            async with asyncio.timeout(STOP_S):
                await door.checkpoint(everything=True)
        except TimeoutError:
            log.warning("the last snapshot took too long; the events since the one before will be read again")
        except StoodStillError as error:
            log.warning("%s; the events since the last snapshot will be read again", error)

    async def _end(self, app: faust.App) -> None:
        with contextlib.suppress(asyncio.CancelledError, TimeoutError):
            async with asyncio.timeout(STOP_S):
                await app.stop()


def _cause(failure: "asyncio.Future[BaseException]", *tasks: "asyncio.Task[None]") -> str:
    error: BaseException | None = failure.result() if failure.done() else None
    for task in tasks:
        if error is None and task.done() and not task.cancelled():
            error = task.exception()
    if error is None:
        return "the app ended by itself"
    return str(error) if isinstance(error, WorkerError) else f"{type(error).__name__}: {error}"
