"""The attempt that all ranks of a run share: agreed on through the store by which they joined.

Each agent of torchrun counts its own restarts, and counts none where only the number of nodes changed. So the ranks of
one run may be given different attempts, and two runs the same. Here rank 0 decides: its own count, or the next number
where the store (the agents' own outlives a run) or a note on its node names the attempt of the run before.

Rule of this file: training never waits for it. A thread of its own asks the store, never for a key that may be missing;
a rank that gets no answer in time keeps its own count. The store may still hold the word of a rank 0 that has ended:
only a word that changes while it is watched is of this run, so rank 0 renews it for a while.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from paceline.training.attempt_note import AttemptNote, Word, read_word

KEY = "paceline/attempt"
#: How long a rank watches for rank 0's word.
PATIENCE_S = 10.0
#: How often rank 0 renews its word: at first, and for those that join late.
EVERY_S, FIRST_S = 0.2, 10.0
LATER_EVERY_S, LATER_S = 1.0, 300.0
#: Others wait twice as long after each look, so that thousands of ranks ask one store a few times each.
MOST_WAIT_S = 2.0
#: How long the end waits for a question that is under way.
STOP_S = 0.5


def chosen(own: int, before: Sequence[Word | None], speaker: str) -> int:
    """The attempt of the run of a rank 0 that counts ``own`` and finds the words ``before``.

    A process that joins again goes on with its attempt.
    """
    found = [word for word in before if word is not None]
    mine = (word.attempt for word in found if word.speaker == speaker)
    return next(mine, max([own, *(word.attempt + 1 for word in found)]))


def store_of(distributed: Any, environ: Mapping[str, str]) -> Any:
    """The store of this process's group where torchrun started it; None elsewhere, or where the group has none.

    An agent's store is taken without prefixes: some versions of PyTorch have one for each count of restarts.
    """
    if distributed is None or "TORCHELASTIC_RESTART_COUNT" not in environ:
        return None
    try:
        store = distributed.distributed_c10d._get_default_store()
    except Exception:  # It is no public function: another version may not have it.
        return None
    if environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        while getattr(store, "underlying_store", None) is not None:
            store = store.underlying_store
    return store


class SharedAttempt:
    """Finds the attempt of this rank's run in ``store``; ``own`` is what this process counts itself."""

    def __init__(
        self,
        store: Any,
        rank: int,
        own: int,
        speaker: str,
        note: AttemptNote,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._note = store, note
        self._rank, self._own, self._speaker = rank, own, speaker
        self._clock, self._begun_s = clock, clock()
        self._lock = threading.Lock()
        self._number: int | None = None
        self._turns = 0
        self._held_before: bytes | None = None
        self._over = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="paceline-attempt", daemon=True)

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def stop(self) -> None:
        """Ask no more: the store may go."""
        self._stopping.set()
        self._thread.join(STOP_S)

    def known(self) -> bool:
        """Whether there is an answer, or none is waited for any more."""
        return self._number is not None or self._over or self._age_s() >= PATIENCE_S

    def number(self) -> int:
        """The attempt, from now on always the same: where none is agreed on yet, what this process counts itself."""
        return self._settle(self._own)

    def turn(self) -> bool:
        """Ask the store once; whether to ask again."""
        if self._rank == 0:
            self._speak()
            return self._age_s() < LATER_S
        self._listen()
        return not self.known()

    def wait_s(self) -> float:
        """How long to wait for the next turn."""
        if self._rank == 0:
            return EVERY_S if self._age_s() < FIRST_S else LATER_EVERY_S
        return min(EVERY_S * 2.0 ** (self._turns - 1), MOST_WAIT_S)

    def _speak(self) -> None:
        if self._number is None:
            before = (read_word(self._held()), self._note.read())
            self._settle(chosen(self._own, before, self._speaker))
        self._turns += 1
        word = Word(self.number(), self._speaker, self._turns)
        self._store.set(KEY, word.text())
        if self._turns == 1:
            self._note.write(word)

    def _listen(self) -> None:
        self._turns += 1
        held = self._held()
        word = read_word(held)
        if self._turns > 1 and held != self._held_before and word is not None:
            self._settle(word.attempt)
            self._note.write(word)
        self._held_before = held

    def _held(self) -> Any:
        return self._store.get(KEY) if self._store.check([KEY]) else None

    def _settle(self, number: int) -> int:
        with self._lock:
            if self._number is None:
                self._number = number
            return self._number

    def _age_s(self) -> float:
        return self._clock() - self._begun_s

    def _run(self) -> None:
        with contextlib.suppress(Exception):  # Whatever a store raises whose other end has gone.
            while self.turn():
                if self._stopping.wait(self.wait_s()):
                    break
        self._over, self._store = True, None
