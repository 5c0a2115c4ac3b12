"""However much there is and whatever it says: requests, memory and the size of what is written are bounded."""

import json
import tracemalloc
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from annotator import documents
from annotator.book import Book
from annotator.budget import EVERY_S
from annotator.documents import MOST_BYTES, MOST_BYTES_OF_ALL
from annotator.steady import news, same
from paceline.events import DeviceDescribed, DevicePod
from paceline.visible import visible
from tests.annotator.world import NOW_S, World, device_samples, held_by, job, node_described, profile
from tests.derived_events import HOSTILE, finding

PODS, NODES = 1000, 125
LONG = HOSTILE + "\U0001f600" * 5_000


def large(world: World) -> list[Any]:
    """A Job of 1,000 pods with a GPU each, on 125 nodes."""
    world.owner("Job", "train")
    events: list[Any] = []
    for at in range(NODES):
        node = f"node-{at}"
        world.node(node)
        pods = []
        for gpu in range(8):
            name = f"train-{at}-{gpu}"
            world.pod(name, node, owner=("Job", "train"))
            pods += held_by(node, name, [gpu])
        events += [node_described(node, pods=pods), device_samples(node)]
    return events


@pytest.mark.slow
def test_a_thousand_pods_are_a_thousand_writes_and_a_few_reads(world: World) -> None:
    events = large(world)
    made = world.annotator("--no-events", "--rate", "50").list().hear(*events)
    began_s, reads = world.now_s, world.api.count("GET")
    assert reads <= 6  # Pages of pods and nodes.
    for _ in range(4):
        made.hear(*(device_samples(f"node-{at}", world.now_s) for at in range(NODES))).turns(10, 1.0)
    assert "gpu-use" in world.api.annotations("Pod", "train-124-7", "ml")
    assert world.api.annotations("Job", "train", "ml")["gpu-use"]["gpu_count"] == PODS
    span_s = world.now_s - began_s
    assert PODS + NODES <= world.api.count("PATCH") <= PODS + NODES + span_s / EVERY_S + 2
    # Its owner once, discovery once, and once before each write to the owner.
    assert world.api.count("GET") - reads <= 2 + span_s / EVERY_S + 2
    written = world.api.count("PATCH")
    for _ in range(4):
        made.hear(*(device_samples(f"node-{at}", world.now_s) for at in range(NODES))).turns(10, 1.0)
    assert world.api.count("PATCH") == written


def test_writes_keep_to_the_rate(world: World) -> None:
    for at in range(30):
        world.node(f"node-{at}")
    made = world.annotator("--no-events", "--rate", "2").list()
    made.hear(*(node_described(f"node-{at}") for at in range(30)))
    made.turns(10, 1.0)
    assert 18 <= world.api.count("PATCH") <= 21  # Two at once, and two a second.


@pytest.mark.slow
def test_memory_reaches_a_plateau(world: World) -> None:
    """Jobs, pods and findings come and go for hours; what is held of them does not grow."""
    book = Book("default")

    def hours(first: int, count: int) -> None:
        for at in range(first, first + count):
            now_s = NOW_S + 60 * at
            book.update(node_described(sequence=at), now_s)
            book.update(device_samples(at_s=now_s), now_s)
            book.update(finding(cluster="default", id=f"f{at % 50}", revision=at), now_s)
            book.update(profile(f"j{at % 50}"), now_s)
            book.update(job(f"j{at % 50}", attempt=at), now_s)

    hours(0, 120)
    tracemalloc.start()
    hours(120, 60)
    before = tracemalloc.get_traced_memory()[0]
    hours(180, 300)
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert after - before < 200_000


@pytest.mark.slow
def test_what_is_written_is_small_whatever_it_is_made_of(world: World) -> None:
    """Names of jobs are anybody's; a node may say that it has hundreds of GPUs."""
    world.node()
    world.owner("Job", "train")
    world.pod("p", owner=("Job", "train"))
    devices = [DeviceDescribed(index=at, uuid=f"{LONG}-{at}", name=f"{at}{LONG}") for at in range(300)]
    pods = [DevicePod(device=f"{LONG}-{at}", namespace="ml", pod="p") for at in range(300)]
    node = node_described(devices=devices, pods=pods, cpu_model=LONG, driver=LONG, cuda=LONG)
    samples = msgspec.structs.replace(device_samples(gpus=300), uuids=[one.uuid for one in devices])
    told = finding(
        cluster="default", id=LONG, kind=LONG, cause=LONG, severity=LONG, job=LONG, summary=LONG, nodes=["node-1"]
    )
    described = job(LONG, pod="p", gpus=range(300))
    made = world.annotator("--propose-taints", "--node-condition").list()
    made.hear(node, samples, described, profile(LONG, kind=LONG), told).turns(10)
    assert made.parts.annotating.failed == 0
    for kind, name, namespace in (("Node", "node-1", ""), ("Pod", "p", "ml"), ("Job", "train", "ml")):
        held = world.api.get(kind, name, namespace)["metadata"]["annotations"]
        sizes = {key: len(value.encode()) for key, value in held.items() if key.startswith("paceline.dev/")}
        assert sizes
        assert max(sizes.values()) <= MOST_BYTES
        assert sum(sizes.values()) <= MOST_BYTES_OF_ALL
        for value in held.values():
            read = json.loads(value)
            assert read["schema_version"] == 1
            assert visible(value) == value


words = st.text(max_size=500)


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(words, words, words, st.lists(words, max_size=20), st.floats(allow_nan=True))
def test_any_finding_fits_and_says_the_same_once_written(
    name: str, kind: str, summary: str, nodes: list[str], confidence: float
) -> None:
    book = Book("default")
    sure = confidence if abs(confidence) < 1e30 else 0.0
    book.update(
        finding(cluster="default", id=name, kind=kind, summary=summary, nodes=nodes, devices=nodes, confidence=sure),
        1.0,
    )
    (verdict,) = book.verdicts(2.0)
    document = documents.finding(verdict, 3)
    text = news(None, document, 5.0)
    assert text is not None
    assert len(text.encode()) <= MOST_BYTES
    assert visible(text) == text
    assert news(text, document, 99.0) is None


def test_a_document_that_was_cut_is_not_written_again_while_nothing_changes() -> None:
    document = {"schema_version": 1, "gpus": [{"kind": f"{at}" * 100, "count": 1} for at in range(90)]}
    text = news(None, document, 5.0)
    assert text is not None
    assert json.loads(text)["left_out"] > 0
    assert news(text, document, 99.0) is None
    assert news(text, {**document, "driver": "1"}, 99.0) is not None


def test_numbers_are_compared_by_what_they_are() -> None:
    """0.0 is a value, a truth value is no number, and a missing field is a difference."""
    assert same({"a_ratio": 0.5}, {"a_ratio": 0.52})
    assert not same({"a_ratio": 0.5}, {"a_ratio": 0.53})
    assert not same({"a_ratio": 0.0}, {"a_ratio": True})
    assert not same({"a_w": 500}, {"b_w": 500})
    assert not same([1, 2], [1])
    assert not same(None, {"a": 1})
    assert same({"a": 0.0, "at": "x"}, {"a": 0, "at": "y"})
    assert same({"power_w": {"value": 600, "seen": "1"}}, {"power_w": {"value": 605, "seen": "2"}})
    assert not same({"count": 3}, {"count": 4})


def test_lists_that_are_cut_say_how_much_is_left_out() -> None:
    devices = [DeviceDescribed(index=at, uuid=f"GPU-{at}", name=f"kind {at}") for at in range(11)]
    for told in (documents.node_inventory(node_described(devices=devices)), documents.owner_inventory(devices, 1, 1)):
        assert (len(told["gpus"]), told["left_out"]) == (8, 3)
    assert "left_out" not in documents.owner_inventory(devices[:8], 1, 1)
    book = Book("default")
    names = [f"n{at}" for at in range(10)]
    book.update(finding(cluster="default", nodes=names, devices=names[:9]), 1.0)
    (verdict,) = book.verdicts(2.0)
    assert documents.finding(verdict, 0)["left_out"] == 3
