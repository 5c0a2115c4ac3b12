"""What control keeps of the bus is bounded in bytes, whatever names and sizes come."""

import itertools
import sys
from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec
import pytest

from control import book as books
from control.api.gswarm import FRESH_S, Fresh
from control.book import Book
from paceline import topics, wire
from paceline.events import AuditEntry, BalancePlan, JobDescribed, RankPlace, Thresholds
from paceline.held_bytes import size_of
from paceline.job_life import MOST_NODES as MOST_OF_A_JOB
from paceline.job_life import JobLife
from tests.control.conftest import node_described


def test_inventories_take_no_more_than_their_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 64 made-up nodes with half a megabyte each the newest are kept."""
    monkeypatch.setattr(books, "INVENTORY_BYTES", 4 * 2**20)
    book = Book()
    for number in range(64):
        event = msgspec.structs.replace(node_described(f"made-up-{number}", "p", number), cpu_model="x" * 2**19)
        raw = wire.encode(event)
        book.update(topics.NODE, "k", event, raw, 0.0)
    held = book.inventory()
    assert sum(map(len, held)) <= 4 * 2**20
    assert len(held) == 7
    assert b"made-up-63" in held[-1]


def test_plans_are_counted_as_they_are_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of numbers is several times its text."""
    monkeypatch.setattr(books, "PLAN_BYTES", 8 * 2**20)
    book = Book()
    for number in range(40):
        plan = BalancePlan(
            cluster="c", job=f"j{number}", attempt=0, time_s=1.0, version=1, shares=[1000] * 16384, made_by="streams"
        )
        book.update(topics.PLAN, "k", plan, wire.encode(plan), 0.0)
    kept = [number for number in range(40) if book.plan("c", f"j{number}") is not None]
    assert kept == list(range(40 - len(kept), 40))
    assert len(kept) * 16384 * 40 <= 8 * 2**20


def described(node: str, rank: int | None = None, **about: Any) -> JobDescribed:
    """What ``node`` says of a job: that it has ``rank``, and who started it when."""
    places = [] if rank is None else [RankPlace(rank=rank, local_rank=0, node="n", device="cpu", pid=1)]
    told: dict[str, Any] = {
        "cluster": "c", "producer": "p", "sequence": 0, "job": "j", "attempt": 0, "node": node, "world_size": 4,
        "backend": "gloo", "framework": "pytorch", "started_s": 10.0, "places": places,
    }  # fmt: skip
    return JobDescribed(**told | about)


def names_of(life: JobLife) -> list[str]:
    """All that are held of a job's nodes."""
    return [*life.nodes, *(teller for teller, _ in life.speakers.values())]


@pytest.mark.long
@pytest.mark.parametrize("ranks", [[None], [0], range(2000)])
def test_a_job_of_many_long_names_takes_no_more_than_its_share(ranks: Sequence[int | None]) -> None:
    """Of 2,000 who tell of one job, with names of 100,000 characters, as nodes and as those who speak for ranks."""
    book, held = Book(), []
    for number, rank in zip(range(2000), itertools.cycle(ranks), strict=False):
        book.update(topics.JOB, "k", described(f"{number}{'x' * 100_000}", rank, started_s=10.0 + number), b"", 0.0)
        known = book.job("c", "j")
        if known is not None and number % 50 == 0:
            held.append(sum(map(sys.getsizeof, names_of(known.life))))
            assert held[-1] <= known.life.held_bytes
    assert 0 < max(held) <= books.JOB_BYTES


def test_what_the_names_of_a_job_take_is_counted_to_the_byte() -> None:
    """Whoever comes, says goodbye, is replaced or comes back late."""
    book, random = Book(), Random(5)
    for _ in range(2000):
        told = described(
            f"node-{'é' * random.randrange(9)}",
            random.choice([None, 0, 1, 2]),
            started_s=random.uniform(10.0, 20.0),
            ended_s=random.choice([None, None, random.uniform(20.0, 30.0)]),
            attempt=random.choice([0] * 20 + [1]),
        )
        book.update(topics.JOB, "k", told, b"", 0.0)
        known = book.job("c", "j")
        assert known is not None
        assert known.life.name_bytes == sum(map(size_of, names_of(known.life)))


def test_jobs_of_as_many_nodes_as_there_may_be_are_kept() -> None:
    """Two have room, with long names as pods of Kubernetes have them; measured on a twentieth of one."""
    book = Book()
    book.update(topics.JOB, "k", described("n", 0, job="other"), b"", 0.0)
    for number in range(1000):
        book.update(topics.JOB, "k", described(f"node-{number:0100}", number), b"", 0.0)
    known = book.job("c", "j")
    assert known is not None
    assert len(known.life.nodes) == 1000
    assert known.life.held_bytes * MOST_OF_A_JOB / 1000 < books.JOB_BYTES / 2
    assert book.job("c", "other") is not None


def test_jobs_of_one_name_in_two_clusters_are_two_jobs() -> None:
    """With runs, thresholds and plans of their own."""
    book = Book()
    for cluster, size in (("east", 8), ("west", 4)):
        book.update(topics.JOB, "k", described("n", 0, cluster=cluster, world_size=size), b"", 0.0)
        values = {"sigmas": float(size)}
        book.update(topics.THRESHOLD, "j", Thresholds(cluster=cluster, job="j", attempt=0, values=values), b"", 0.0)
        plan = BalancePlan(cluster=cluster, job="j", attempt=0, time_s=1.0, version=size, shares=[1], made_by="streams")
        book.update(topics.PLAN, "j", plan, b"", 0.0)
    for cluster, size in (("east", 8), ("west", 4)):
        known, held, plan_held = book.job(cluster, "j"), book.thresholds(cluster, "j"), book.plan(cluster, "j")
        assert known is not None
        assert held is not None
        assert plan_held is not None
        assert (known.world_size, held.values, plan_held.version) == (size, {"sigmas": float(size)}, size)
    assert book.running() == ["j in west", "j in east"]


def test_the_job_that_runs_is_meant_by_its_name() -> None:
    """Rather than one that has ended, and that rather than one of which only thresholds are known."""
    book = Book()
    assert book.clusters("j") == ([], [], [])
    book.update(topics.THRESHOLD, "j", Thresholds(cluster="north", job="j", attempt=0, values={}), b"", 0.0)
    assert book.clusters("j").meant == ["north"]
    for cluster, ended_s in (("east", None), ("west", 20.0)):
        book.update(topics.JOB, "k", described("n", 0, cluster=cluster, ended_s=ended_s), b"", 0.0)
    assert book.clusters("j") == (["east"], ["west"], ["north"])
    assert book.clusters("j").meant == ["east"]
    book.update(topics.JOB, "k", described("n", 0, cluster="east", ended_s=30.0), b"", 0.0)
    assert book.clusters("j").ambiguity("j") == "'j' has ended in east and west: name one with cluster=..."
    assert book.clusters("other").ambiguity("other") is None


def entry(command: str, reason: str) -> AuditEntry:
    return AuditEntry(
        command_id=command,
        cluster="c",
        target="t",
        action="a",
        issuer="i",
        time_s=1.0,
        service="s",
        node="n",
        outcome="accepted",
        reason=reason,
    )


def test_answers_are_bounded_for_one_command_and_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(books, "ANSWER_BYTES", 2**20)
    book = Book()
    for number in range(1000):
        one = entry("same" if number % 2 else f"c{number}", "r" * 400)
        book.update(topics.AUDIT, "k", one, wire.encode(one), 0.0)
    assert len(book.answers("same")) == 100
    assert 0 < len(book.audit(10_000)) < 1000
    assert book.answers("c0") == []


def test_a_frame_is_made_once_a_second() -> None:
    now_s, made = [0.0], []

    def make() -> dict[str, Any]:
        made.append(now_s[0])
        return {"time": now_s[0]}

    frame = Fresh(make, lambda: now_s[0])
    assert [frame.get() for _ in range(100)] == [{"time": 0.0}] * 100
    now_s[0] = FRESH_S
    assert frame.get() == {"time": FRESH_S}
    assert made == [0.0, FRESH_S]
