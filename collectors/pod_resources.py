"""The kubelet's pod-resources API: which container has which device, asked over its socket on this node.

Rule of this file: a door. What the names mean is said in ``pod_devices``. A kubelet may be away, restart (its socket is
another one then), refuse, hang or answer anything: time and size are bounded, and the answer is either whole or a
reason. grpcio and protobuf, which take as much memory as all else, are imported when a socket is there, not before.
"""

import errno
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from paceline.install import install
from paceline.visible import visible

from .pod_devices import Held
from .pod_messages import LIST, classes

#: Where a kubelet listens.
SOCKET = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
#: Seconds that one answer may take, and bytes that it may have: it tells of all pods, of those without a GPU, too.
TIMEOUT_S = 2.0
MOST_BYTES = 16 * 2**20
#: Pods, containers and devices of an answer: a node has a few hundred pods. And names that CDI may have for a device.
MOST_PARTS, MOST_NAMES = 100_000, 64
_MOUNT = "mount its folder from the node, not the socket alone, which is another one after a restart of the kubelet"
_OPTIONS = (
    ("grpc.max_receive_message_length", MOST_BYTES),
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
    # A path is no host name, and servers in Go refuse one in its place.
    ("grpc.default_authority", "localhost"),
)


class PodResourcesError(Exception):
    """The kubelet does not tell: why, and how to mend it, in one line; ``absent``: there is not even a socket."""

    def __init__(self, why: str, *, absent: bool = False) -> None:
        super().__init__(why)
        self.absent = absent


class PodResources:
    """The kubelet behind the socket at ``path``."""

    def __init__(self, path: Path, timeout_s: float = TIMEOUT_S) -> None:
        self.path = path
        self._timeout_s = timeout_s
        self._classes: dict[str, Any] | None = None
        self._lock = threading.Lock()
        self._asked: Any = None
        self._closed = False

    def ask(self) -> list[Held]:
        """What every container on this node holds.

        Raises:
            PodResourcesError: no answer, not in time, or one that cannot be read.
        """
        self._reach()
        try:
            import grpc

            self._classes = self._classes or classes()
        except (ImportError, TypeError) as error:
            raise PodResourcesError(f"no gRPC ({visible(str(error))}); {install('collectors')}") from error
        return held_in(self._classes, self._call(grpc))

    def _reach(self) -> None:
        """Connect once without gRPC, which tells less of what is wrong."""
        probe = socket.socket(socket.AF_UNIX)
        probe.settimeout(self._timeout_s)
        try:
            probe.connect(str(self.path))
        except (OSError, ValueError) as error:
            absent = isinstance(error, FileNotFoundError | NotADirectoryError)
            raise PodResourcesError(self._why_unreached(error), absent=absent) from error
        finally:
            probe.close()

    def _why_unreached(self, error: Exception) -> str:
        number = getattr(error, "errno", None)
        if number in (errno.ENOENT, errno.ENOTDIR):
            return f"no socket of the kubelet at {visible(str(self.path))}; {_MOUNT}"
        if number in (errno.EACCES, errno.EPERM):
            return f"no permission for the kubelet's socket {visible(str(self.path))}; run the collector as root"
        if number == errno.ECONNREFUSED:
            return f"no kubelet listens at {visible(str(self.path))}; {_MOUNT}"
        if isinstance(error, TimeoutError) or number == errno.EAGAIN:
            return f"the kubelet accepts no connection within {self._timeout_s:g} s"
        return f"no connection to {visible(str(self.path))}: {visible(str(error))[:200]}"

    def _call(self, grpc: Any) -> bytes:
        """The answer as it came: reading it is not left to gRPC, which logs what it cannot read."""
        channel = grpc.insecure_channel(f"unix:{quote(os.path.abspath(self.path))}", options=_OPTIONS)
        try:
            with self._lock:
                if self._closed:
                    raise PodResourcesError("the collector ends")
                self._asked = channel.unary_unary(LIST).future(b"", timeout=self._timeout_s)
            return bytes(self._asked.result())
        except (grpc.RpcError, grpc.FutureCancelledError) as error:
            raise PodResourcesError(self._why_refused(grpc, error)) from error
        finally:
            channel.close()

    def _why_refused(self, grpc: Any, error: Any) -> str:
        code = error.code() if isinstance(error, grpc.Call) else None
        details = visible(str(error.details() if isinstance(error, grpc.Call) else "given up"))[:200]
        words = {
            grpc.StatusCode.DEADLINE_EXCEEDED: f"the kubelet gives no answer within {self._timeout_s:g} s",
            grpc.StatusCode.UNIMPLEMENTED: "this kubelet has no pod-resources API v1; Kubernetes has it from 1.20 on",
            grpc.StatusCode.RESOURCE_EXHAUSTED: "the kubelet's answer is over the bound of "
            f"{MOST_BYTES // 2**20} MiB, or it is asked too often: {details}",
        }
        return words.get(code, f"the kubelet does not tell: {details}")

    def close(self) -> None:
        """Give up what is being asked, from any thread; nothing is asked any more."""
        with self._lock:
            self._closed = True
            if self._asked is not None:
                self._asked.cancel()


def held_in(made: dict[str, Any], answer: bytes) -> list[Held]:
    """What ``answer`` says that containers hold, read by the classes ``made``.

    Raises:
        PodResourcesError: it is no kubelet's.
    """
    from google.protobuf.message import DecodeError

    response = made["ListPodResourcesResponse"]()
    try:
        response.ParseFromString(answer)
    except (DecodeError, UnicodeDecodeError, ValueError) as error:
        raise PodResourcesError(f"what answers is no kubelet: {visible(str(error))[:200]}") from error
    held = []
    for at, one in enumerate(_walk(response)):
        if at >= MOST_PARTS:
            raise PodResourcesError(f"what answers is no kubelet: more than {MOST_PARTS:,} containers and devices")
        if one is not None:
            held.append(one)
    return held


def _walk(response: Any) -> Iterator[Held | None]:
    """Every device; None for whatever holds devices, or none, so that whoever counts can end it."""
    for pod in response.pod_resources:
        yield None
        for container in pod.containers:
            yield None
            for devices in container.devices:
                yield None
                for name in devices.device_ids:
                    yield Held(pod.namespace, pod.name, container.name, devices.resource_name, (name,))
            for claim in container.dynamic_resources:
                yield None
                for one in claim.claim_resources:
                    yield Held(pod.namespace, pod.name, container.name, *_of_claim(one))


def _of_claim(one: Any) -> tuple[str, tuple[str, ...]]:
    """Driver and names. Kubelets before 1.31 tell no driver, but CDI's names begin with what it calls itself there."""
    cdi = (device.name for device in one.cdi_devices[:MOST_NAMES])
    names = tuple(filter(None, (one.device_name, *cdi)))
    return one.driver_name or "".join(names[:1]).partition("=")[0], names
