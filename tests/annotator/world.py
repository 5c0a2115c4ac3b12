"""A cluster and what the bus tells of it, for tests of the annotator: real requests to a server of the tests' own.

Rule of this file: time is an argument, and starts at ``NOW_S``; the annotator's parts are those of the service, but for
the bus, whose events are handed over.
"""

import argparse
import json
import threading
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from annotator import service
from annotator.__main__ import owner_kinds, parser
from annotator.kube_api import KubeApi, configuration
from paceline import wire
from paceline.events import (
    DeviceDescribed,
    DevicePod,
    DeviceSamples,
    JobDescribed,
    JobProfile,
    NodeDescribed,
    RankPlace,
)
from paceline.kafka.settings import BrokerSettings
from tests.annotator.api_server import ApiServer
from tests.derived_events import described as job_described

NOW_S = 1_700_000_000.0
GPUS = 8


def uuid(node: str, index: int) -> str:
    return f"GPU-{node}-{index}"


def node_described(
    node: str = "node-1", pods: Iterable[DevicePod] = (), gpus: int = GPUS, **changes: Any
) -> NodeDescribed:
    devices = [
        DeviceDescribed(index=at, uuid=uuid(node, at), name="NVIDIA H100 80GB HBM3", memory_total_bytes=85_899_345_920)
        for at in range(gpus)
    ]
    held: dict[str, Any] = {
        "cluster": "default", "producer": f"collect-{node}", "sequence": 0, "node": node, "time_s": NOW_S,
        "cpu_model": "Xeon", "cpu_count": 128, "memory_total_bytes": 2**40, "kernel": "6.8", "driver": "550.90",
        "cuda": "12.4", "devices": devices, "pods": list(pods),
    }  # fmt: skip
    return NodeDescribed(**{**held, **changes})


def device_samples(node: str = "node-1", at_s: float = NOW_S, gpus: int = GPUS, **columns: Any) -> DeviceSamples:
    """One row a GPU, at ``at_s``; a column of ``columns`` is one value for all GPUs or one each."""
    empty = {name: [None] * gpus for name in wire.sample_columns(DeviceSamples)}
    told = {
        "utilization_ratio": 0.9,
        "fb_used_bytes": 40 * 2**30,
        "fb_total_bytes": 80 * 2**30,
        "power_w": 600.0,
        **columns,
    }
    filled = {name: value if isinstance(value, list) else [value] * gpus for name, value in told.items()}
    rows = {"device": list(range(gpus)), "time_s": [0.0] * gpus}
    head = {"cluster": "default", "producer": f"collect-{node}", "sequence": int(at_s), "node": node, "t0_s": at_s}
    return DeviceSamples(**{**empty, **head, "uuids": [uuid(node, at) for at in range(gpus)], **rows, **filled})


def job(
    name: str = "train", node: str = "node-1", pod: str = "", gpus: Iterable[int] = range(GPUS), **changes: Any
) -> JobDescribed:
    places = [RankPlace(rank=at, local_rank=at, node=node, device=uuid(node, at), pid=100 + at) for at in gpus]
    labels = {"kubernetes_pod": pod, "kubernetes_namespace": "ml"} if pod else {}
    told = {
        "cluster": "default",
        "job": name,
        "node": node,
        "places": places,
        "labels": labels,
        "started_s": NOW_S - 300,
    }
    return job_described(**{**told, **changes})


def profile(name: str = "train", **changes: Any) -> JobProfile:
    held: dict[str, Any] = {
        "cluster": "default", "job": name, "attempt": 0, "time_s": NOW_S, "kind": "language_model",
        "kind_probability": 0.87, "cycle_period_s": 12.34, "cycle_confidence": 0.9,
    }  # fmt: skip
    return JobProfile(**{**held, **changes})


def held_by(node: str, pod: str, gpus: Iterable[int] = range(GPUS), **changes: Any) -> list[DevicePod]:
    return [DevicePod(**{"device": uuid(node, at), "namespace": "ml", "pod": pod, **changes}) for at in gpus]


def stamp(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class World:
    """A cluster, and annotators that come and go."""

    def __init__(self, api: ApiServer, folder: Path) -> None:
        self.api, self.folder, self.said = api, folder, list[str]()
        self.now_s = NOW_S
        self._stops: list[threading.Event] = []
        self._apis: list[KubeApi] = []

    def node(self, name: str = "node-1") -> None:
        self.api.put(
            "Node", name, metadata={"labels": {}}, status={"conditions": [{"type": "Ready", "status": "True"}]}
        )

    def pod(self, name: str, node: str = "node-1", owner: tuple[str, str] | None = None, **meta: Any) -> str:
        """A running pod that was created at ``NOW_S - 400``; its uid."""
        references = [self.reference(*owner)] if owner else []
        made = {"creationTimestamp": stamp(NOW_S - 400), "ownerReferences": references, "labels": {}, **meta}
        told = self.api.put("Pod", name, "ml", metadata=made, spec={"nodeName": node}, status={"phase": "Running"})
        return str(told["metadata"]["uid"])

    def reference(self, kind: str, name: str) -> dict[str, Any]:
        held = self.api.get(kind, name, "ml")
        meta = {"name": name, "uid": held["metadata"]["uid"], "controller": True, "blockOwnerDeletion": True}
        return {"apiVersion": held["apiVersion"], "kind": kind, **meta}

    def owner(self, kind: str, name: str, above: tuple[str, str] | None = None) -> None:
        references = [self.reference(*above)] if above else []
        self.api.put(kind, name, "ml", metadata={"ownerReferences": references}, spec={})

    def kubeconfig(self, token: str = "all") -> Path:
        path = self.folder / f"kubeconfig-{token}"
        user = {"name": "u", "user": {"token": token}}
        cluster = {"name": "c", "cluster": {"server": self.api.url}}
        context = {"name": "lab", "context": {"cluster": "c", "user": "u"}}
        told = {"apiVersion": "v1", "kind": "Config", "clusters": [cluster], "users": [user], "contexts": [context]}
        path.write_text(json.dumps({**told, "current-context": "lab"}))
        return path

    def annotator(self, *options: str, token: str = "all", every_s: float | None = None) -> "Running":
        args = parser().parse_args(["--kubeconfig", str(self.kubeconfig(token)), *options])
        return Running(self, args, every_s)

    def close(self) -> None:
        for stop in self._stops:
            stop.set()
        for api in self._apis:
            api.close()

    def begin(self, args: argparse.Namespace, every_s: float | None) -> service.Parts:
        stop = threading.Event()
        api = KubeApi(configuration(args.kubeconfig, args.context, {}))
        kinds = owner_kinds(args)
        self._stops.append(stop)
        self._apis.append(api)
        return service.build(api, BrokerSettings(), args, kinds, stop, self.said.append, every_s)


class Running:
    """One annotator: what it was told stays known until another one begins."""

    def __init__(self, world: World, args: argparse.Namespace, every_s: float | None) -> None:
        self.world, self.parts = world, world.begin(args, every_s)

    def hear(self, *events: Any) -> "Running":
        for event in events:
            self.parts.book.update(event, self.world.now_s)
        return self

    def list(self) -> "Running":
        """What its watchers do at the start."""
        for watcher in self.parts.watchers:
            watcher.list_all()
        return self

    def turns(self, count: int = 4, step_s: float = 3.0) -> "Running":
        """Let time go by, with a turn each ``step_s``."""
        for _ in range(count):
            self.parts.annotating.turn(self.world.now_s)
            self.world.now_s += step_s
        return self
