"""Which device of this node a pod holds: from what the kubelet calls a device to the UUID that rows and messages have.

Rule of this file: a decision. What a name means is only as sure as these lines; a name that could mean two devices
means none, and what was meant to be a GPU and is none of this node's is counted and told.

- NVIDIA's device plugin: the UUID of a GPU or an instance; ``::3``, ``-replica-3`` or ``-3`` behind it where several
  pods share it. ``MIG-GPU-<uuid>/1/0`` from drivers before R470: GPU instance 1, compute instance 0 of that GPU.
- Google's device plugin: ``nvidia0``, ``nvidia0/gi1``, ``nvidia0/vgpu3``, by the number of the device file.
- AMD's device plugin: the address on the PCI bus.
- Dynamic resource allocation (DRA): the driver's name for the device, ``gpu-0`` or ``gpu-0-mig-1g10gb-19-0`` of
  NVIDIA's, by the number of the device file; else the names of CDI, ``nvidia.com/gpu=0`` or a UUID, by NVML's number.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from paceline.events import DevicePod
from paceline.visible import visible

from .device_names import DeviceName

#: Pods that are told of at most: 16 GPUs of 7 instances, each shared by 8, are not as many.
MOST_PODS = 1024
#: No name of Kubernetes is longer, and no event takes a longer one.
LONGEST = 253
#: Resources and drivers of claims that are GPUs. Others of the same makers are not (network cards, memory domains), and
#: other makers call their devices ``gpu-0``, too: of any other resource, a UUID alone says that it is a GPU.
_GPU = re.compile(
    r"nvidia\.com/(?:gpu|mig-|vgpu)|amd\.com/(?:gpu|[a-z]px_nps\d)|(?:k8s\.)?gpu\.(?:nvidia|amd)\.com(?:/|\Z)", re.ASCII
)
_SHARED = re.compile(r"(?:::|-replica-|/vgpu)\d+\Z", re.ASCII)
#: A UUID has a fixed form, so that a number behind it is none of its own.
_UUID = re.compile(r"((?:gpu|mig)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:-\d+)?\Z", re.ASCII)
_CLAIM = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}-(?=gpu-)", re.ASCII)
_DRA_INSTANCE = re.compile(r"(gpu-\d+)-mig-([0-9a-z]+)-\d+-\d+\Z", re.ASCII)
_PCI = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])\Z", re.ASCII)


class Held(NamedTuple):
    """A container's device, as the kubelet tells it: ``resource`` is the plugin's resource or the claim's driver, and
    ``names`` what the device is called, the surest first."""

    namespace: str
    pod: str
    container: str
    resource: str
    names: tuple[str, ...]


class Told(NamedTuple):
    """The pods that hold devices, and why there may be more, or None."""

    pods: list[DevicePod]
    why_not: str | None


class Names:
    """What the devices of a node are called by Kubernetes.

    >>> names = Names([DeviceName("GPU-51ed0000-0000-4000-8000-000000000000", 0, "00000000:01:00.0", minor=0)])
    >>> names.find("GPU-51ed0000-0000-4000-8000-000000000000::3") == names.find("nvidia0") == names.find("0000:01:00.0")
    True
    >>> names.find("nvidia1")
    """

    def __init__(self, devices: Sequence[DeviceName]) -> None:
        self._uuids: dict[str, set[str]] = defaultdict(set)
        gpus = {device.uuid: device for device in devices if device.parent is None}
        for device in devices:
            for name in _gpu_names(device) if device.parent is None else _instance_names(device, gpus):
                self._uuids[name].add(device.uuid)

    def find(self, name: str) -> str | None:
        """The UUID of the GPU that is called ``name``; None where it is none of these, or not sure."""
        called = name.lower()
        # CDI: vendor/class=device, and of NVIDIA's claims the device stands behind the claim's UID.
        bare = _SHARED.sub("", _CLAIM.sub("", called.rpartition("=")[2]))
        return self._only(called) or self._by_uuid(bare) or self._only(bare) or self._of_claim(bare)

    def by_uuid(self, name: str) -> str | None:
        """The same where ``name`` is a UUID, and nothing else will do."""
        return self._by_uuid(_SHARED.sub("", name.lower()))

    def _by_uuid(self, bare: str) -> str | None:
        uuid = _UUID.match(bare)
        return self._only(uuid[1]) if uuid else None

    def _of_claim(self, name: str) -> str | None:
        """An instance by DRA: the GPU's only one of that size, else the GPU, a part of which the pod has."""
        instance = _DRA_INSTANCE.match(name)
        if instance is None:
            return self._only(_pci(name) or "")
        return self._only(f"{instance[1]}-mig-{instance[2]}") or self._only(instance[1])

    def _only(self, name: str) -> str | None:
        uuids = self._uuids.get(name, ())
        return next(iter(uuids)) if len(uuids) == 1 else None


def _file_number(gpu: DeviceName) -> int:
    return gpu.number if gpu.minor is None else gpu.minor


def _gpu_names(gpu: DeviceName) -> list[str]:
    number = _file_number(gpu)
    place = _pci(gpu.pci_bus_id or "")
    names = [gpu.uuid.lower(), f"nvidia{number}", f"gpu-{number}", f"nvidia.com/gpu={gpu.number}"]
    return names if place is None else [*names, place]


def _instance_names(instance: DeviceName, gpus: dict[str, DeviceName]) -> list[str]:
    names, gpu = [instance.uuid.lower()], gpus.get(instance.parent or "")
    if gpu is None:
        return names
    number = _file_number(gpu)
    if instance.profile:
        names.append(f"gpu-{number}-mig-{instance.profile.replace('.', '')}")
    if instance.gpu_instance is not None:
        names.append(f"nvidia{number}/gi{instance.gpu_instance}")
        names.append(f"mig-{gpu.uuid.lower()}/{instance.gpu_instance}/{instance.compute_instance}")
    return names


def _pci(address: str) -> str | None:
    """One way to write an address: NVML's domain has eight digits, the kernel's four."""
    place = _PCI.match(address.lower())
    return None if place is None else f"{int(place[1], 16):04x}:{place[2]}:{place[3]}.{place[4]}"


def told(held: Iterable[Held], names: Names) -> Told:
    """What ``held`` says of the devices that have ``names``: a device that several pods share is there once a pod."""
    pods: dict[tuple[str, str, str], DevicePod] = {}
    strange: Counter[str] = Counter()
    beyond = 0
    for one in held:
        uuid, key = _device(one, names), None
        if uuid is not None and _is_named(one):
            key = (uuid, one.namespace, one.pod)
        if key is None:
            strange.update([f"{one.resource} {''.join(one.names[:1])}"] if _GPU.match(one.resource) else [])
        elif len(pods) < MOST_PODS or key in pods:
            pods.setdefault(key, DevicePod(device=key[0], namespace=key[1], pod=key[2], container=one.container))
        else:
            beyond += 1
    return Told([pods[key] for key in sorted(pods)], _why_not(strange, beyond))


def _device(one: Held, names: Names) -> str | None:
    find = names.find if _GPU.match(one.resource) else names.by_uuid
    return next(filter(None, map(find, one.names)), None)


def of_processes(uids: Iterable[tuple[str, str]]) -> list[DevicePod]:
    """The pods that (device, UID of a pod) tell, each once."""
    return [DevicePod(device=device, uid=uid) for device, uid in sorted(set(uids))[:MOST_PODS]]


def _is_named(one: Held) -> bool:
    """Whether pod and container are called as Kubernetes calls them: one line, and not too long."""
    return all(0 < len(name) <= LONGEST and name.isprintable() for name in (one.namespace, one.pod, one.container))


def _why_not(strange: Counter[str], beyond: int) -> str | None:
    words = []
    if strange:
        first = visible(min(strange)[:100])
        words.append(f"{strange.total()} GPUs that pods hold are not measured here, the first {first}")
    if beyond:
        words.append(f"{beyond} beyond the {MOST_PODS} that are reported")
    return "; ".join(words) or None
