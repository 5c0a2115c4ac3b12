"""Targets: what Kubernetes says of pods, and what stands at objects where our annotations should be.

Rule of this file: whoever may change a pod writes its metadata, and a broken server anything. An object that cannot be
read is refused; one that can is planned for, and what is to be written then is small and harmless.
"""

import json
from collections.abc import Iterator

import msgspec

from annotator import maxima
from annotator.book import Book
from annotator.documents import MOST_BYTES
from annotator.kube_objects import KubeObjects, Told, known
from annotator.owners import Owners
from annotator.plan import Planner
from annotator.steady import news
from paceline.decoders import json_decoder
from paceline.events import DevicePod, NodeDescribed
from paceline.visible import visible

from .target import Target

_NODE = NodeDescribed(
    cluster="default", producer="p", sequence=0, node="node-1", time_s=1.0, cpu_model="x", cpu_count=8,
    memory_total_bytes=2**33, kernel="6", pods=[DevicePod(device="GPU-1", namespace="ml", pod="train-0")],
)  # fmt: skip


def _feed_pod(data: bytes) -> None:
    """A pod as a list or a watch tells it, with a node that says that it has a GPU."""
    told = known(json_decoder(Told).decode(data), "v1", "Pod")
    objects, book, owners = KubeObjects(), Book("default"), Owners()
    objects.put(told)
    book.update(_NODE, 1.0)
    owners.top(told, 1.0)
    plan = Planner(book, objects, owners).plan(2.0)
    assert all(want.ref == told.ref for want in plan.wants), "a change of something else"
    objects.wrote(told.ref, {})
    objects.drop(told.ref)
    assert not objects.pods, "a pod that is gone is there"


def _feed_annotation(data: bytes) -> None:
    """What somebody wrote into an annotation of ours."""
    text = data.decode()
    held = maxima.written(text)
    document = maxima.document(maxima.merged(held, {"power_w": maxima.Highest(5.0, "now")}))
    written = news(text, document, 1.0)
    assert written is None or (len(written.encode()) <= MOST_BYTES and visible(written) == written), "not fit to write"


def _pods() -> Iterator[bytes]:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "o", "controller": True}
    meta = {
        "name": "train-0", "namespace": "ml", "uid": "u", "resourceVersion": "7", "ownerReferences": [owner],
        "creationTimestamp": "2026-11-25T02:00:00Z", "annotations": {"paceline.dev/job": "{}", "other": "x"},
    }  # fmt: skip
    yield json.dumps({"metadata": meta, "spec": {"nodeName": "node-1"}, "status": {"phase": "Running"}}).encode()


def _annotations() -> Iterator[bytes]:
    told = {name: {"value": bound / 2, "seen": "2026-11-25T02:00:00Z"} for name, bound in maxima.BOUNDS.items()}
    yield json.dumps({"schema_version": 1, **told, "at": "2026-11-25T02:00:00Z"}).encode()


TARGETS = (
    Target("kube.pod", _feed_pod, _pods, (msgspec.DecodeError, UnicodeDecodeError), "json"),
    Target("kube.annotation", _feed_annotation, _annotations, (UnicodeDecodeError,), "json"),
)
