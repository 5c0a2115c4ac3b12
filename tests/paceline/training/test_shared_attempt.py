"""One run is one attempt: what its ranks agree on, whatever each agent of torchrun counts."""

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from paceline.training.attempt_note import AttemptNote, Word, read_word
from paceline.training.shared_attempt import (
    EVERY_S,
    KEY,
    LATER_S,
    MOST_WAIT_S,
    PATIENCE_S,
    SharedAttempt,
    chosen,
    store_of,
)


class Store:
    """A store as PyTorch's: text goes in, bytes come out, and a key that is missing is not asked for."""

    def __init__(self, held: bytes | None = None) -> None:
        self.held = {} if held is None else {KEY: held}

    def check(self, keys: list[str]) -> bool:
        return all(key in self.held for key in keys)

    def get(self, key: str) -> bytes:
        return self.held[key]

    def set(self, key: str, value: str) -> None:
        self.held[key] = value.encode()


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


#: Of a node that keeps none.
NOTE = AttemptNote("/nowhere/socket", "train")


class Run:
    """The ranks of one run on ``store``: what each one's agent has counted, and what they agree on."""

    def __init__(self, store: Any, counts: list[int], name: str = "run", nodes: list[str] | None = None) -> None:
        self.clock = Clock()
        notes = [AttemptNote(node, "train") for node in nodes] if nodes else [NOTE] * len(counts)
        self.ranks = [
            SharedAttempt(store, rank, own, f"{name}-{rank}", note, clock=self.clock)
            for rank, (own, note) in enumerate(zip(counts, notes, strict=True))
        ]

    def turns(self, ranks: list[int]) -> None:
        """These ranks ask, one after the other."""
        for rank in ranks:
            self.ranks[rank].turn()
        self.clock.now_s += EVERY_S

    def agreed(self) -> list[int]:
        """The attempts, once all are known."""
        for _ in range(3):
            self.turns(list(range(len(self.ranks))))
        assert all(rank.known() for rank in self.ranks)
        return [rank.number() for rank in self.ranks]


@pytest.mark.parametrize("counts", [[0, 0, 1, 1], [1, 1, 0, 0], [1, 0, 7, 3]])
def test_ranks_that_restart_on_some_nodes_only_are_of_one_attempt(counts: list[int]) -> None:
    """That of rank 0, whoever asks first."""
    assert Run(Store(), counts).agreed() == [counts[0]] * 4
    late = Run(Store(), counts)
    late.turns([3, 2, 1, 3, 2, 1])
    assert not any(rank.known() for rank in late.ranks)
    assert late.agreed() == [counts[0]] * 4


def test_a_job_that_shrinks_and_grows_has_an_attempt_for_each_size() -> None:
    """8 -> 6 -> 8 ranks: agents count no restart for it, and their store still holds the word of the run before."""
    store = Store()
    sizes = [Run(store, [0] * ranks, f"run {ranks} {at}".replace(" ", "-")) for at, ranks in enumerate((8, 6, 8))]
    assert [run.agreed() for run in sizes] == [[0] * 8, [1] * 6, [2] * 8]


def test_where_each_run_has_a_store_of_its_own_a_nodes_note_tells_it_from_the_one_before(tmp_path: Path) -> None:
    """8 -> 6 -> 8 once more, and rank 0 is on another node each time."""
    nodes = [str(tmp_path / name) for name in "abcdefgh"]
    runs = [(nodes, "x"), (nodes[3:] + nodes[:1], "y"), (nodes[::-1], "z")]
    agreed = [Run(Store(), [0] * len(there), name, there).agreed() for there, name in runs]
    assert agreed == [[0] * 8, [1] * 6, [2] * 8]


def test_a_note_of_another_job_is_none(tmp_path: Path) -> None:
    socket = str(tmp_path / "socket")
    AttemptNote(socket, "first").write(Word(3, "a", 1))
    assert AttemptNote(socket, "first").read() == Word(3, "a", 1)
    assert AttemptNote(socket, "second").read() is None
    AttemptNote(socket, "second").write(Word(0, "b", 1))
    assert AttemptNote(socket, "first").read() is None


def test_a_note_is_read_and_written_in_place_of_nothing_else(tmp_path: Path) -> None:
    """Neither through a link, nor where it waits for a reader, nor where there is no folder; and it is one's own."""
    kept = tmp_path / "kept"
    kept.write_bytes(b"3 a 1\ntrain")
    (tmp_path / "link.attempt").symlink_to(kept)
    os.mkfifo(tmp_path / "pipe.attempt")
    (tmp_path / "folder.attempt").mkdir()
    for name in ("link", "pipe", "folder", "nowhere/socket"):
        note = AttemptNote(str(tmp_path / name), "train")
        note.write(Word(5, "b", 1))
        assert note.read() is None
    assert kept.read_bytes() == b"3 a 1\ntrain"
    AttemptNote(str(tmp_path / "socket"), "train").write(Word(5, "b", 1))
    assert (tmp_path / "socket.attempt").stat().st_mode & 0o777 == 0o600


def test_attempts_grow_where_agents_count_some_restarts() -> None:
    """By rank 0's own count where it is ahead, by the store where that is; after a requeue by the thousand."""
    store = Store()
    runs = [Run(store, [own, 0], f"run{at}") for at, own in enumerate((0, 0, 1, 5, 5, 1000))]
    assert [run.agreed()[1] for run in runs] == [0, 1, 2, 5, 6, 1000]


def test_the_word_of_a_run_that_has_ended_is_not_taken() -> None:
    """It does not change; rank 0's own comes late here, and a rank gives up in the end."""
    store = Store(Word(4, "gone-0", 30).text().encode())
    run = Run(store, [0, 0])
    for _ in range(10):
        run.turns([1])
    assert not run.ranks[1].known()
    assert run.agreed() == [5, 5]
    alone = Run(Store(Word(4, "gone-0", 30).text().encode()), [0, 2])
    looks = 1
    while alone.ranks[1].turn():
        alone.clock.now_s += alone.ranks[1].wait_s()
        looks += 1
    assert PATIENCE_S <= alone.clock.now_s <= PATIENCE_S + MOST_WAIT_S
    assert looks < 10
    assert alone.ranks[1].number() == 2


def test_rank_0_is_heard_by_all_within_their_first_looks() -> None:
    """As each waits on a thread of its own: whoever begins first, by whatever part of a second."""
    for begins_s in (0.0, 0.05, 0.19, 0.5, 3.0):
        store, clock = Store(), Clock()
        ranks = [SharedAttempt(store, rank, 3 * (not rank), f"run-{rank}", NOTE, clock=clock) for rank in (0, 1)]
        due = {0: begins_s, 1: 0.0}
        while not ranks[1].known():
            rank = min(due, key=lambda one: due[one])
            clock.now_s = due[rank]
            ranks[rank].turn()
            due[rank] += ranks[rank].wait_s()
        assert ranks[1].number() == 3
        assert clock.now_s < begins_s + 2 * MOST_WAIT_S + EVERY_S


def test_who_joins_late_hears_it_as_well() -> None:
    """Rank 0 renews its word: a rank may take minutes to load."""
    store = Store()
    early, late = Run(store, [3, 0]), Run(store, [3, 0])
    early.clock.now_s = LATER_S - 2.0
    for _ in range(3):
        early.turns([0])
        late.turns([1])
    assert (late.ranks[1].known(), late.ranks[1].number()) == (True, 3)
    early.clock.now_s = LATER_S
    assert not early.ranks[0].turn()


def test_a_process_that_joins_again_goes_on_with_its_attempt() -> None:
    store = Store()
    assert Run(store, [0, 0]).agreed() == [0, 0]
    assert Run(store, [0, 0]).agreed() == [0, 0]


def test_an_attempt_that_was_said_stays() -> None:
    """A hello that could not wait has said this rank's own count; rank 0 tells the others what it said itself."""
    store = Store(Word(4, "gone-0", 1).text().encode())
    run = Run(store, [0, 7])
    assert [rank.number() for rank in run.ranks] == [0, 7]
    for _ in range(3):
        run.turns([0, 1])
    assert [rank.number() for rank in run.ranks] == [0, 7]
    assert read_word(store.get(KEY)) == Word(0, "run-0", 3)


@pytest.mark.parametrize(
    "held", [b"", b"5", b"5 a", b"-1 a 1", b"5 a x", b"5 a 1 1", b"9" * 14 + b" a 1", b"\xff a 1", b"5 a " + b"1" * 100]
)
def test_anything_else_under_the_key_is_no_word(held: bytes) -> None:
    """Neither for rank 0, which starts with its own count, nor for a rank that sees it appear."""
    assert read_word(held) is None
    assert Run(Store(held), [2, 0]).agreed() == [2, 2]
    store = Store()
    run = Run(store, [2, 0])
    run.turns([1])
    store.held[KEY] = held
    run.turns([1, 1])
    assert not run.ranks[1].known()


def test_a_store_that_fails_costs_the_agreement_alone() -> None:
    """Its other end has gone: the own count holds without a wait."""
    shared = SharedAttempt(SimpleNamespace(), 1, 6, "run-1", NOTE, clock=Clock())
    assert not shared.known()
    shared._run()
    assert (shared.known(), shared.number()) == (True, 6)


def test_a_store_that_hangs_is_waited_for_in_vain_for_a_while_only() -> None:
    clock = Clock()
    shared = SharedAttempt(Store(), 0, 6, "run-0", NOTE, clock=clock)
    assert not shared.known()
    clock.now_s = PATIENCE_S
    assert (shared.known(), shared.number()) == (True, 6)


def test_a_rank_0_without_a_run_before_counts_as_its_agent() -> None:
    assert [chosen(own, (None, None), "a") for own in (0, 3)] == [0, 3]


AGENTS = {"TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_USE_AGENT_STORE": "True"}


def distributed(find: Callable[[], Any]) -> Any:
    return SimpleNamespace(distributed_c10d=SimpleNamespace(_get_default_store=find))


def test_the_store_is_asked_for_under_torchrun_alone() -> None:
    """Other launchers count for all nodes; a group without a store, and a PyTorch that hides it, have none."""
    store = Store()
    assert store_of(distributed(lambda: store), {"TORCHELASTIC_RESTART_COUNT": "0"}) is store
    assert store_of(distributed(lambda: store), {"SLURM_RESTART_COUNT": "1"}) is None
    assert store_of(distributed(lambda: None), AGENTS) is None
    assert store_of(SimpleNamespace(), AGENTS) is None
    assert store_of(None, AGENTS) is None


def test_prefixes_of_an_agents_store_are_taken_off() -> None:
    """Under a prefix that names a count the number of the run before would not be found; a store of its own stays."""
    base = Store()
    prefixed = SimpleNamespace(underlying_store=SimpleNamespace(underlying_store=base))
    assert store_of(distributed(lambda: prefixed), AGENTS) is base
    assert store_of(distributed(lambda: prefixed), AGENTS | {"TORCHELASTIC_USE_AGENT_STORE": "False"}) is prefixed


@pytest.mark.e2e
@pytest.mark.xdist_group("pytorch")
@pytest.mark.parametrize("kind", ["HashStore", "FileStore", "TCPStore"])
def test_pytorchs_own_stores_hold_the_word(kind: str, tmp_path: Path) -> None:
    """For one run after another."""
    c10d = pytest.importorskip("torch.distributed")
    arguments = {"FileStore": (str(tmp_path / "store"), 2), "TCPStore": ("127.0.0.1", 0, None, True)}
    store = c10d.PrefixStore("default_pg", getattr(c10d, kind)(*arguments.get(kind, ())))
    runs = [Run(store, [2, 0], name) for name in ("first", "second")]
    assert [run.agreed() for run in runs] == [[2, 2], [3, 3]]
