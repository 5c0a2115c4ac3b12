"""uvicorn with limits: how long a client may take, how many there may be, and an end that waits for nobody.

Rule of this file: a door. What a client may do is ``paceline.http_limits``' affair; here is seen what each does.
"""

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from paceline.http_limits import Limits, Patience, Phase, weakest

logger = logging.getLogger("paceline.web")
#: From the end's beginning until answers that are still being sent are cut.
END_S = 1.0
#: How often all clients are looked at, and so many ticks of uvicorn's that is: it counts tenths of a second.
LOOK_S, LOOK_TICKS = 0.5, 5


class Clients:
    """All connections of one server."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits, self.clock = limits, clock
        self._held: set[_Client] = set()

    def admit(self, client: "_Client") -> None:
        """Take in a client; with too many, one that has sent no whole request makes room, or it goes itself."""
        self._held.add(client)
        if len(self._held) > self.limits.connections:
            (weakest(one for one in self._held if one is not client) or client).cut("too many connections")

    def discard(self, client: "_Client") -> None:
        """It has gone."""
        self._held.discard(client)

    def look(self) -> None:
        """Cut those who have had their time."""
        now_s = self.clock()
        for client in list(self._held):
            if why := client.late(now_s):
                client.cut(why)

    def end(self, *, all_of_them: bool = False) -> None:
        """The service ends: who has sent no whole request gets no answer any more; in the end nobody does."""
        for client in list(self._held):
            if all_of_them or client.phase != "answer":
                client.cut("the service ends")


class TimedClients(Clients):
    """Those of a server that is not ours: they are looked at as long as there are any."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(limits, clock)
        self._timer: asyncio.TimerHandle | None = None

    def admit(self, client: "_Client") -> None:
        """Take in a client, as of a server of ours."""
        super().admit(client)
        self._wake()

    def _wake(self) -> None:
        if self._timer is None and self._held:
            self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._turn)

    def _turn(self) -> None:
        self._timer = None
        self.look()
        self._wake()


class _Counted:
    """A transport that counts what is written to it."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.plain, self.written = transport, 0

    def write(self, data: bytes) -> None:
        self.written += len(data)
        self.plain.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plain, name)


class _Client(H11Protocol):
    """uvicorn's own protocol; what it does is seen, and it can be cut."""

    def __init__(self, clients: Clients, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._clients = clients
        self._patience = Patience(clients.limits, clients.clock())
        self._counted: _Counted | None = None
        self._seen_cycle: object = None
        self._turn = self._received = self._written_before = 0

    @property
    def phase(self) -> Phase:
        """What it is at."""
        if self._waits_for_reader:
            return "answer"
        if self.cycle is None or self.cycle.response_complete:
            return "head"
        return "body" if self.cycle.more_body else "answer"

    @property
    def since_s(self) -> float:
        """When that was first seen."""
        return self._patience.since_s

    @property
    def _waits_for_reader(self) -> bool:
        return self._counted is not None and self._counted.get_write_buffer_size() > 0

    def connection_made(self, transport: Any) -> None:
        """A client has come."""
        self._counted = _Counted(transport)
        super().connection_made(self._counted)  # type: ignore[arg-type]
        self._clients.admit(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """It has gone."""
        self._clients.discard(self)
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, event: Any) -> None:
        """It is a client of HTTP no more: how many of these there are is the application's affair."""
        self._clients.discard(self)
        if self._counted is not None:
            self.transport = self._counted.plain
        super().handle_websocket_upgrade(event)

    def data_received(self, data: bytes) -> None:
        """It has sent something."""
        super().data_received(data)
        if self.cycle is not self._seen_cycle:
            self._seen_cycle, self._received = self.cycle, 0
            self._turn += 1
            self._written_before = self._counted.written if self._counted is not None else 0
        self._received += len(data)

    def late(self, now_s: float) -> str:
        """Why it is to be cut; empty while it is not."""
        phase = self.phase
        written = self._counted.written - self._written_before if self._counted is not None else 0
        moved = self._received if phase == "body" else written
        return self._patience.observe(self._turn, phase, moved, self._waits_for_reader, now_s)

    def cut(self, why: str) -> None:
        """Let go of it, whatever it has not read yet."""
        logger.info("a client is cut: %s", why)
        self._clients.discard(self)
        if self._counted is not None:
            self._counted.abort()


class Server(uvicorn.Server):
    """Serves ``config``; ``on_end`` is called as soon as it is told to end, before anybody is waited for."""

    def __init__(self, config: uvicorn.Config, clients: Clients, on_end: Callable[[], object] = lambda: None) -> None:
        self._exits = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._exiting = asyncio.Event()
        super().__init__(config)
        self._clients, self._on_end = clients, on_end

    @property
    def should_exit(self) -> bool:
        """Whether it is to end; set from any thread, or from a signal's handler, it ends at once."""
        return self._exits

    @should_exit.setter
    def should_exit(self, exits: bool) -> None:
        self._exits = exits
        if exits and self._loop is not None:
            with contextlib.suppress(RuntimeError):  # It has ended already.
                self._loop.call_soon_threadsafe(self._exiting.set)

    async def main_loop(self) -> None:
        """Tick until it is to end: seldom, for uvicorn's ten ticks a second are half of what an idle service costs."""
        self._loop = asyncio.get_running_loop()
        counter = 0
        while not await self.on_tick(counter):
            counter += LOOK_TICKS
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._exiting.wait()

    async def on_tick(self, counter: int) -> bool:
        """Every ``LOOK_S``."""
        self._clients.look()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer nobody new, and wait a moment for answers that are on their way."""
        self._on_end()
        self._clients.end()
        await super().shutdown(sockets)
        self._clients.end(all_of_them=True)
        await asyncio.sleep(0)  # Those that are cut hear of it.


def server(
    app: Any, limits: Limits | None = None, on_end: Callable[[], object] = lambda: None, **options: Any
) -> Server:
    """A server of ``app`` with ``limits``; further ``options`` are uvicorn's."""
    clients = Clients(limits or Limits())
    config = uvicorn.Config(
        app,
        access_log=False,
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=END_S,  # type: ignore[arg-type]
        **limited(clients),
        **options,
    )
    return Server(config, clients, on_end)


def limited(clients: Clients) -> dict[str, Any]:
    """Options of uvicorn for a server whose ``clients`` keep their limits."""
    return {"http": partial(_Client, clients), "h11_max_incomplete_event_size": clients.limits.head_bytes}
