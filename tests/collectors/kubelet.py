"""A kubelet's pod-resources API, served by a real gRPC server on a socket: what it answers is the test's to choose."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from collectors.pod_messages import LIST, classes

MESSAGES = classes()


class Kubelet:
    """Answers ``answer``: bytes, or what a function of the call's context gives."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.answer: bytes | Callable[[Any], bytes] = b""
        self.asked = 0
        #: Until this is set a hanging kubelet hangs.
        self.release = threading.Event()
        self._server: grpc.Server | None = None

    def start(self) -> "Kubelet":
        _, service, method = LIST.split("/")
        handler = grpc.unary_unary_rpc_method_handler(self._list)
        self._server = grpc.server(ThreadPoolExecutor(2), options=[("grpc.max_send_message_length", -1)])
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, {method: handler})])
        self._server.add_insecure_port(f"unix:{self.path}")
        self._server.start()
        return self

    def _list(self, request: bytes, context: Any) -> bytes:
        self.asked += 1
        return self.answer(context) if callable(self.answer) else self.answer

    def hang(self) -> None:
        self.answer = lambda _: self.release.wait() and b""

    def stop(self) -> None:
        self.release.set()
        if self._server is not None:
            self._server.stop(0).wait()
        self._server = None


def pod(name: str, *ids: str, resource: str = "nvidia.com/gpu", namespace: str = "ml", container: str = "main") -> Any:
    """A pod whose container has devices of a device plugin."""
    made = MESSAGES["PodResources"](name=name, namespace=namespace)
    made.containers.add(name=container).devices.add(resource_name=resource, device_ids=ids)
    return made


def claiming(name: str, device: str, *cdi: str, driver: str = "gpu.nvidia.com") -> Any:
    """A pod whose container has a device by a resource claim."""
    made = MESSAGES["PodResources"](name=name, namespace="ml")
    claims = made.containers.add(name="main").dynamic_resources.add(claim_name="gpu", claim_namespace="ml")
    one = claims.claim_resources.add(driver_name=driver, pool_name="node", device_name=device)
    for called in cdi:
        one.cdi_devices.add(name=called)
    return made


def answer(*pods: Any) -> bytes:
    return bytes(MESSAGES["ListPodResourcesResponse"](pod_resources=pods).SerializeToString())
