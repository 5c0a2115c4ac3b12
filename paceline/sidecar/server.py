"""The sidecar's server: takes what the ranks of a node wrote down and passes it on as events.

Rule of this file: the door. It asks a rank nothing while its training moves, tells it what is safe, never blocks one,
and survives whatever arrives: a connection that sends garbage is dropped and counted. It ends when its parent hangs up
or says so, when it is stopped, or (``until_empty``) when all ranks have left; what is buffered goes out within a
bounded time.
"""

import errno
import math
import os
import selectors
import socket
import time
from collections.abc import Collection
from dataclasses import replace
from typing import Protocol

from paceline.command_rules import job_target
from paceline.events import BalancePlan, OpenCollective, RankLook
from paceline.sidecar.balance import Balance, Speaker
from paceline.sidecar.batch import Batcher, Outgoing
from paceline.sidecar.captures import Captures
from paceline.sidecar.conditions import Conditions
from paceline.sidecar.connected_rank import ConnectedRank
from paceline.sidecar.decode import MarkDecoder, fault_in
from paceline.sidecar.endings import Endings
from paceline.sidecar.interfaces import Interfaces
from paceline.sidecar.looks import Job, Looks, Who
from paceline.sidecar.nccl_inspector import NcclInspector
from paceline.sidecar.process_end import Handle
from paceline.sidecar.process_look import process_look
from paceline.sidecar.rank_messages import (
    NotABalanceWordError,
    NotAMessageError,
    OtherProtocolError,
    decode,
    encode_hears,
    encode_proposed,
    encode_settled,
)
from paceline.sidecar.rank_rows import Report
from paceline.sidecar.rank_socket import peer_of, sent
from paceline.sidecar.sinks import Sink
from paceline.sidecar.worker_lines import WorkerLines, py_spy
from paceline.terminal import say
from paceline.topics import CAPTURE
from paceline.training import marks
from paceline.training.balance_messages import BalanceWord
from paceline.training.capture_messages import encode as encode_capture
from paceline.training.failure_messages import Failed
from paceline.training.look_messages import Looked, encode_look
from paceline.training.messages import LEARNED, MOST_HELLOS, PROTOCOL, Bye, Hello, Marks

#: The largest message a rank may send; the kernel's own limit for a socket buffer is below it.
MOST_BYTES = 1024 * 1024
#: After the last word of the parent: time to take what ranks had already sent, and for the sinks to finish.
DRAIN_S = 0.5
#: How often the ranks' conditions are taken, and how long a rank stands in a collective before that is told.
LOOK_EVERY_S = 1.0
STANDING_S = 5.0
#: Marks that a rank's probe writes down also while its training gets no further.
_STILL = frozenset((marks.QUEUED, marks.GC_START, marks.GC_STOP, marks.STANDING))
CLOSE_S = 2.0
#: From then on nobody waits for a reader of commands that hangs.
COMMANDS_CLOSE_S = 0.3
#: What the kernel says where it has no descriptor or memory for a connection, and how long none is taken then.
_FULL = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
FULL_REST_S = 1.0
#: ``--until-empty``: wait this long for a first rank, and this long after the last one for another; ``--patience``
#: stands for both.
FIRST_RANK_S = 120.0
LAST_RANK_S = 1.0


class Commands(Protocol):
    """What answers commands; ``paceline.command_reader`` has one, and takes long to import."""

    def turn(self, targets: Collection[str]) -> None:
        """Answer what has come for ``targets``; never waits."""

    def close(self, timeout_s: float) -> None:
        """Hear no more."""


class Plans(Protocol):
    """What reads plans from the bus; ``paceline.sidecar.plan_reader`` has one."""

    def turn(self, jobs: Collection[str]) -> list[BalancePlan]:
        """What has come for ``jobs``; never waits."""

    def close(self, timeout_s: float) -> None:
        """Read no more."""


class CaptureSink(Protocol):
    """Where traces go, one piece at a time, while there is room."""

    def put(self, outgoing: Outgoing) -> None:
        """Queue a piece."""

    def has_room(self) -> bool:
        """Whether a piece would push out nothing that waits."""


class Sidecar:
    """Accepts ranks on ``listener`` and gives batches to ``sinks`` until told to end.

    It answers ``commands``, lets ``nccl`` look into its files, and passes ``plans`` on to ``balance``'s ranks; what
    ``captures`` brings goes to ``capture_sink`` alone.
    """

    def __init__(
        self,
        listener: socket.socket,
        batcher: Batcher,
        sinks: list[Sink],
        commands: Commands | None = None,
        *,
        until_empty: bool,
        patience_s: float | None = None,
        nccl: NcclInspector | None = None,
        balance: Balance | None = None,
        plans: Plans | None = None,
        captures: Captures | None = None,
        capture_sink: CaptureSink | None = None,
        limit_s: float | None = None,
    ) -> None:
        self._listener = listener
        self._batcher = batcher
        self._interfaces = Interfaces()
        self._workers = WorkerLines(py_spy())
        self._looks = Looks(process_look, self._workers)
        self._endings = Endings(limit_s=limit_s)
        self._sinks = sinks
        self._commands = commands
        self._nccl = nccl
        self._balance = balance
        self._plans = plans
        self._captures, self._capture_sink = captures, capture_sink
        self._planless_told = False
        self._targets: frozenset[str] = frozenset()
        self._until_empty = until_empty
        self._conditions: dict[tuple[str, int], Conditions] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ, self._accept)
        self._ranks: dict[socket.socket, ConnectedRank] = {}
        #: Processes whose end is looked at, and the ranks that each was or is.
        self._held: dict[int, tuple[Handle, set[Who]]] = {}
        #: Since there was no descriptor for another rank, the listener rests until then; whether that was reported.
        self._accept_at = 0.0
        self._full_reported = False
        self._ending = False
        self._exit_status: int | None = None
        self._word = b""
        self._last_rank_s = LAST_RANK_S if patience_s is None else patience_s
        first_rank_s = FIRST_RANK_S if patience_s is None else patience_s
        self._empty_since = time.monotonic() + first_rank_s - self._last_rank_s
        self.dropped_connections = 0
        self._foreign_told = False
        self._look_at = 0.0
        self._stand_at = 0.0

    def follow(self, parent_fd: int) -> None:
        """End when ``parent_fd`` hangs up; a line ``exit N`` on it tells the command's exit status."""
        self._selector.register(parent_fd, selectors.EVENT_READ, lambda: self._hear(parent_fd))

    def follow_starter(self, starter_fd: int) -> None:
        """``until_empty``: from when ``starter_fd`` hangs up, wait for a first rank no longer than for another."""

        def gone() -> None:
            self._selector.unregister(starter_fd)
            self._empty_since = min(self._empty_since, time.monotonic())

        self._selector.register(starter_fd, selectors.EVENT_READ, gone)

    def stop(self) -> None:
        """End soon: what a signal handler calls."""
        self._ending = True

    def run(self) -> None:
        """Work until the end, then drain, flush and close."""
        while not self._ending and not self._deserted():
            self._turn(0.2)
        deadline = time.monotonic() + DRAIN_S
        while self._ranks and time.monotonic() < deadline and self._turn(0.05):
            pass
        if self._nccl is not None:
            self._nccl.close(time.monotonic())
        self._end_ranks(time.monotonic())
        self._pass_on(self._batcher.end(time.time(), self._exit_status))
        for conditions in self._conditions.values():
            conditions.close()
        if self._captures is not None:
            self._captures.close()
        self._workers.close()
        deadline = time.monotonic() + CLOSE_S
        readers = [one for one in (self._commands, self._plans) if one is not None]
        for reader in readers:
            reader.close(0.0)
        for sink in self._sinks:
            sink.close(max(deadline - time.monotonic(), 0.1))
        for reader in readers:
            reader.close(COMMANDS_CLOSE_S)

    def _turn(self, timeout_s: float) -> bool:
        """One round over what is readable; whether anything was."""
        ready = self._selector.select(timeout_s)
        for key, _ in ready:
            key.data()
        if self._accept_at and time.monotonic() >= self._accept_at:
            self._accept_at = 0.0
            self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._look(time.monotonic())
        self._end_ranks(time.monotonic())
        if self._nccl is not None:
            self._nccl.tick(time.monotonic())
        self._pass_on(self._batcher.tick(time.monotonic()))
        self._settle()
        if self._commands is not None:
            self._commands.turn(self._targets)
        if self._balance is not None:
            self._propose(self._balance)
        if self._captures is not None and self._capture_sink is not None:
            self._capture(self._captures, self._capture_sink)
        return bool(ready)

    def _capture(self, captures: Captures, sink: CaptureSink) -> None:
        """Tell ranks what is wanted of them, and pass on what they made."""
        for asked, wish in captures.wishes():
            for connection, rank in self._ranks.items():
                if rank.job == (asked.job, asked.attempt) and rank.rank == asked.rank:
                    asked.sent = sent(connection, encode_capture(wish))
        for piece in captures.turn(room=sink.has_room()):
            sink.put(Outgoing(CAPTURE, piece))

    def _propose(self, balance: Balance) -> None:
        """Tell ranks that their balancers are understood here, and those that wait for plans the newest one."""
        jobs = balance.awaiting()
        if self._plans is not None:
            balance.propose(self._plans.turn(jobs))
        elif jobs and not self._planless_told:
            self._planless_told = True
            say("a balancer waits for plans of Kafka, and none are read here: it keeps the plan that it has")
        for connection, rank in self._ranks.items():
            if rank.job is None:
                continue
            rank.welcome = rank.welcome or sent(connection, encode_hears())
            plan = balance.proposed(rank.job, rank.run) if rank.awaits else None
            if plan is not None and plan != rank.proposed and sent(connection, encode_proposed(plan)):
                rank.proposed = plan

    def _look(self, now_s: float) -> None:
        """Once a second, what the node does to the ranks; every few seconds, who stands in a collective, or, where
        nothing else was told, that they are there."""
        if now_s < self._look_at:
            return
        self._look_at = now_s + LOOK_EVERY_S
        here = self._batcher.ranks()
        self._targets = frozenset(job_target(job) for job, _ in here)
        for key, ranks in here.items():
            if key not in self._conditions:
                self._conditions[key] = Conditions()
            self._batcher.observe(key, self._conditions[key].sample(ranks, time.time(), now_s))
        self._ask(now_s)
        looks = self._looks.drain(now_s, time.time())
        if looks or now_s >= self._stand_at:
            self._stand_at = now_s + STANDING_S
            self._stand(looks, now_s)

    def _end_ranks(self, now_s: float) -> None:
        """Report the ranks that have ended."""
        for key, ends in self._endings.drain(now_s, time.time()).items():
            self._batcher.end_ranks(key, ends)

    def _watch(self, who: Who, pid: int) -> Handle | None:
        """Look at a rank's process in the moment in which it ends, where this kernel tells of that.

        A process that leaves and joins again is held once, for there is a limit to descriptors.
        """
        if pid in self._held:
            held, ranks = self._held[pid]
            ranks.add(who)
            return held
        handle = Handle(pid) if pid else None
        if handle is None or handle.fd < 0:
            return None

        def look() -> None:
            for one in self._held.pop(pid)[1]:
                self._endings.look(one)
            self._selector.unregister(handle.fd)
            handle.close()

        self._held[pid] = handle, {who}
        self._selector.register(handle.fd, selectors.EVENT_READ, look)
        return handle

    def _ask(self, now_s: float) -> None:
        """Ask ranks that get no further where they are."""
        wishes = dict(self._looks.wishes(now_s))
        for connection, rank in self._ranks.items() if wishes else ():
            if rank.job is not None and (number := wishes.get((rank.job, rank.rank))) is not None:
                sent(connection, encode_look(number))

    def _stand(self, looks: dict[Job, list[RankLook]], now_s: float) -> None:
        """Report who stands in a collective, and where ranks are."""
        standing: dict[tuple[str, int], list[OpenCollective]] = {}
        for rank in self._ranks.values():
            if rank.job is not None:
                standing.setdefault(rank.job, []).extend(rank.standing(time.time() - STANDING_S))
        for key, collectives in standing.items():
            seen = looks.get(key, [])
            if collectives or seen or self._batcher.quiet(key):
                seen = seen or ([] if collectives else self._looks.moving(key, now_s, time.time()))
                self._batcher.update_open(key, collectives, time.time(), seen)

    def _pass_on(self, outgoing: list[Outgoing]) -> None:
        for sink in self._sinks:
            for item in outgoing:
                sink.put(item)
            sink.flush()

    def _settle(self) -> None:
        """Tell each rank what is safe: given to the sinks, and no longer in this process alone."""
        for rank in self._ranks.values():
            if rank.job is None:
                continue
            rows, lost, held_from = self._batcher.waiting(rank.job)
            settled = None if rows else rank.decoder.settled(held_from)
            if settled is not None:
                before = rank.told.lost if rank.told is not None else 0
                rank.passed_on = replace(settled, lost=before) if lost else settled
        if all(sink.settled() for sink in self._sinks):
            for connection, rank in self._ranks.items():
                self._tell(connection, rank)

    @staticmethod
    def _tell(connection: socket.socket, rank: ConnectedRank) -> None:
        if rank.passed_on is None or rank.passed_on == rank.told:
            return
        if sent(connection, encode_settled(rank.passed_on)):
            rank.told = rank.passed_on

    def _deserted(self) -> bool:
        if self._ranks:
            self._empty_since = time.monotonic()
        return self._until_empty and time.monotonic() - self._empty_since > self._last_rank_s

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError as error:
            if error.errno in _FULL:
                self._rest_listener(error)
            return  # Else the rank gave up before we came to it.
        connection.setblocking(False)
        self._ranks[connection] = ConnectedRank(peer_of(connection))
        self._selector.register(connection, selectors.EVENT_READ, lambda: self._receive(connection))

    def _rest_listener(self, error: OSError) -> None:
        """There is no descriptor for the rank that waits: it would be readable again at each turn."""
        self._selector.unregister(self._listener)
        self._accept_at = time.monotonic() + FULL_REST_S
        if not self._full_reported:
            self._full_reported = True
            say(f"no room for another rank beside {len(self._ranks)}: {error.strerror}; it goes untimed until there is")

    def _receive(self, connection: socket.socket) -> None:
        rank = self._ranks[connection]
        for _ in range(256):  # Others want their turn too.
            try:
                data, _, flags, _ = connection.recvmsg(MOST_BYTES)
            except BlockingIOError:
                return
            except ConnectionResetError:
                continue  # It left without reading all that we said; what it said before comes next.
            except OSError:
                data, flags = b"", 0
            if not data:
                self._hang_up(connection)
                return
            if flags & socket.MSG_TRUNC or not self._understand(rank, data):
                self.dropped_connections += 1
                self._hang_up(connection)
                return

    def _understand(self, rank: ConnectedRank, data: bytes) -> bool:
        """Take one message; whether it was one."""
        if rank.foreign:
            return True
        try:
            message = decode(data)
        except OtherProtocolError as error:
            self._pass_over(rank, error.spoken)
            return True
        except NotABalanceWordError:
            return rank.job is not None and self._refuse_word()
        except NotAMessageError:
            return False
        if isinstance(message, Hello):
            return self._greet(rank, message)
        if rank.job is None:
            return False
        if isinstance(message, Marks):
            return self._decode(rank, message)
        self._take(rank, rank.job, message)
        return True

    def _take(self, rank: ConnectedRank, job: Job, message: Bye | Looked | Failed | BalanceWord) -> None:
        """Take what is rare."""
        if isinstance(message, Looked):
            self._looks.answer((job, rank.rank), message)
        elif isinstance(message, Failed):
            self._endings.fail((job, rank.rank), message)
        elif isinstance(message, Bye):
            self._leave(rank, bye=True)
        elif self._balance is not None and rank.hello is not None:
            rank.awaits, rank.run = rank.awaits or message.awaits, message.run
            who = Speaker(job, rank.rank, rank.hello.world_size)
            self._balance.take(who, message, time.time())

    def _refuse_word(self) -> bool:
        """A balancer's word that is none costs its rank nothing but the word."""
        if self._balance is not None:
            self._balance.refused["that could not be read"] += 1
        return True

    def _decode(self, rank: ConnectedRank, message: Marks) -> bool:
        """Take what a rank wrote down; whether it can be a rank's."""
        if fault_in(message) is not None:
            return False
        if rank.job is not None and any(kind not in _STILL for _, kind, _ in message.marks):
            self._looks.mark((rank.job, rank.rank), time.monotonic())
        try:
            self._update(rank, rank.decoder.decode(message))
        except Exception as error:  # One rank's oddity must not end the timing of the others.
            say(f"rank {rank.rank} is no longer timed: {type(error).__name__}: {error}; training goes on")
            return False
        return True

    def _pass_over(self, rank: ConnectedRank, spoken: int) -> None:
        """A rank of another version is told of once, and its words pass unread: hung up on, it would come again."""
        rank.foreign = rank.job is None
        if not self._foreign_told:
            self._foreign_told = True
            say(
                f"ranks run another version of Paceline (protocol {spoken}, here {PROTOCOL}) and go untimed: install "
                "this version for the Python that trains, or none there; training goes on"
            )

    def _greet(self, rank: ConnectedRank, hello: Hello) -> bool:
        """Take a hello; another on the same connection is the same rank, which knows more of itself by now."""
        if not math.isfinite(hello.started_s):
            return False
        if rank.job is None or rank.hello is None:
            rank.rank, rank.pid, rank.job = hello.rank, hello.pid, self._batcher.join(hello)
            if self._nccl is not None:
                self._nccl.join(rank.pid, rank.job, rank.rank)
            rank.hello, rank.decoder = hello, MarkDecoder(hello.place)
            self._looks.join((rank.job, rank.rank), rank.peer, time.monotonic())
            who = (rank.job, rank.rank)
            self._endings.join(who, rank.peer, self._watch(who, rank.peer))
            return True
        rank.hellos += 1
        learned = {name: getattr(hello, name) for name in LEARNED}
        if rank.hellos > MOST_HELLOS or replace(rank.hello, **learned, place=None) != hello:
            return False
        self._batcher.learn(rank.job, hello)
        return True

    def _update(self, rank: ConnectedRank, report: Report | None) -> None:
        if rank.job is not None and report is not None:
            if report.link is not None and report.link.peers:
                rated = self._interfaces.rated_bytes_per_s(report.link.peers[0].local.rpartition(":")[0])
                report = report._replace(link=report.link._replace(rated_bytes_per_s=rated))
            self._batcher.update(rank.job, rank.rank, report)
            if self._nccl is not None:
                self._nccl.append_steps(rank.pid, report.steps)

    def _leave(self, rank: ConnectedRank, *, bye: bool = False) -> None:
        if rank.job is not None:
            standing = rank.standing(time.time())
            last = standing[-1] if standing else None
            self._endings.leave((rank.job, rank.rank), time.monotonic(), last, bye=bye)
            self._looks.leave((rank.job, rank.rank))
            self._update(rank, rank.decoder.end())
            self._batcher.leave(rank.job, rank.rank, time.time())

    def _hang_up(self, connection: socket.socket) -> None:
        rank = self._ranks.pop(connection)
        self._leave(rank)
        self._selector.unregister(connection)
        connection.close()

    def _hear(self, parent_fd: int) -> None:
        data = os.read(parent_fd, 4096)
        self._word += data
        for word in self._word.split(b"\n")[:-1]:
            if word.startswith(b"exit ") and word[5:].isdigit():
                self._exit_status = int(word[5:])
        self._word = self._word.rpartition(b"\n")[2][-100:]
        if not data:
            self._selector.unregister(parent_fd)
            self._ending = True
