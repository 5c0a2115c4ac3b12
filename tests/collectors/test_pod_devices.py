"""What Kubernetes calls a device, and which device of this node that is."""

import pytest

from collectors.device_names import DeviceName
from collectors.pod_devices import MOST_PODS, Held, Names, of_processes, told
from paceline import wire
from paceline.events import DevicePod, NodeDescribed
from paceline.topics import NODE

A, B = "GPU-51ed0000-0000-4000-8000-0000000000aa", "GPU-51ed0001-0000-4000-8000-0000000000BB"
ONE, TWO, THREE = (f"MIG-3160000{place}-0000-4000-8000-000000000000" for place in (1, 2, 3))
#: Two GPUs whose files are numbered otherwise than NVML counts them; the second is split.
DEVICES = [
    DeviceName(A, 0, "00000000:3B:00.0", minor=3),
    DeviceName(B, 1, "0000:86:00.0", minor=0),
    DeviceName(ONE, 2, None, B, "1g.10gb", gpu_instance=7, compute_instance=0),
    DeviceName(TWO, 3, None, B, "1g.10gb", gpu_instance=8, compute_instance=0),
    DeviceName(THREE, 4, None, B, "3g.40gb", gpu_instance=1, compute_instance=0),
]


def held(*names, resource="nvidia.com/gpu", pod="p", namespace="ml", container="c"):
    return Held(namespace, pod, container, resource, names)


def devices(*helds):
    return [one.device for one in told(helds, Names(DEVICES)).pods]


@pytest.mark.parametrize(
    ("name", "uuid"),
    [
        # NVIDIA's device plugin: whole, shared in the ways that it and others write that
        (A, A),
        (B.lower(), B),
        (f"{A}::3", A),
        (f"{A}-replica-12", A),
        (f"{A}-3", A),
        (ONE, ONE),
        (f"{ONE}::0", ONE),
        # drivers before R470
        (f"MIG-{B}/8/0", TWO),
        (f"MIG-{B}/9/0", None),
        # Google's: by the number of the file, not NVML's
        ("nvidia0", B),
        ("nvidia3", A),
        ("nvidia3/vgpu1", A),
        ("nvidia0/gi7", ONE),
        ("nvidia0/gi7/vgpu0", ONE),
        ("nvidia1", None),
        # AMD's
        ("0000:3b:00.0", A),
        ("0000:86:00.0", B),
        ("00000000:86:00.0", B),
        ("0000:86:00.1", None),
        ("amdgpu_xcp_30", None),
        # DRA, by the number of the file
        ("gpu-0", B),
        ("gpu-3", A),
        ("gpu-0-mig-3g40gb-9-4", THREE),
        # two of that size: the GPU, a part of which the pod has
        ("gpu-0-mig-1g10gb-19-0", B),
        ("gpu-7-mig-1g10gb-19-0", None),
        # CDI
        ("nvidia.com/gpu=0", A),
        ("nvidia.com/gpu=1", B),
        (f"nvidia.com/gpu={A}", A),
        ("nvidia.com/gpu=gpu-0", B),
        ("nvidia.com/gpu=all", None),
        ("k8s.gpu.nvidia.com/device=gpu-3", A),
        ("k8s.gpu.nvidia.com/claim=dab5ab50-d59a-42a6-af16-cfd4628c0f7a-gpu-3", A),
        ("k8s.gpu.nvidia.com/claim=dab5ab50-d59a-42a6-af16-cfd4628c0f7a-gpu-0-mig-3g40gb-9-4", THREE),
        # what is none
        ("GPU-51ed0009-0000-4000-8000-0000000000aa", None),
        (f"{A}x", None),
        (f"{A}::", None),
        (f"{A}::3::3", None),
        ("", None),
        ("=", None),
        ("=" * 100_000, None),
        ("0" * 100_000, None),
        (f"{A}::{'9' * 100_000}x", None),
        ("gpu-٣", None),
    ],
)
def test_a_name_leads_to_one_device(name, uuid):
    """Or to none: never to another one."""
    assert Names(DEVICES).find(name) == uuid


def test_a_driver_that_tells_no_numbers_is_asked_by_index():
    """Files are numbered as NVML counts on nearly all machines; an exporter tells no more."""
    assert Names([DeviceName(A, 0), DeviceName(B, 1)]).find("nvidia1") == B


def test_a_name_that_two_devices_have_means_none():
    """Two drivers, or a driver that counts wrongly: not sure is not told."""
    assert Names([DeviceName(A, 0, minor=0), DeviceName(B, 1, minor=0)]).find("nvidia0") is None


def test_a_claim_is_found_by_its_device_first():
    """The driver's own name is surer than what CDI calls the same; where that fails CDI's will do."""
    assert devices(held("gpu-0", "nvidia.com/gpu=0", resource="gpu.nvidia.com")) == [B]
    assert devices(held("unheard-of", "nvidia.com/gpu=0", resource="gpu.nvidia.com")) == [A]
    assert devices(held("nvidia.com/gpu=0", resource="nvidia.com/gpu")) == [A]
    assert devices(held(resource="gpu.nvidia.com")) == []


def test_one_pod_with_many_devices_and_many_pods_on_one():
    """Every pair is told once, whatever replicas, containers and order the kubelet lists."""
    many = [held(A, pod="a"), held(ONE, pod="a"), held(f"{A}::0", pod="b"), held(f"{A}::1", pod="b")]
    many += [held(A, pod="a", container="sidecar"), held(A, pod="a", namespace="other")]
    answers = [told(order, Names(DEVICES)) for order in (many, [many[1], many[0], *many[2:]])]

    assert answers[0] == answers[1]
    assert [(one.device, one.namespace, one.pod, one.container) for one in answers[0].pods] == [
        (A, "ml", "a", "c"),
        (A, "ml", "b", "c"),
        (A, "other", "a", "c"),
        (ONE, "ml", "a", "c"),
    ]
    assert answers[0].why_not is None


@pytest.mark.parametrize(
    ("resource", "name"),
    [
        ("example.com/foo", "gpu-0"),
        ("gpu.example.com", "gpu-0"),
        ("nvidia.com/hostdev", "0000:86:00.0"),
        ("nvidia.com/rdma_shared_device_a", "nvidia0"),
        ("compute-domain.nvidia.com", "channel-0"),
        ("hugepages", "0"),
        ("", "nvidia0"),
    ],
)
def test_what_is_no_gpu_is_passed_over(resource, name):
    """Others number their devices, too; that they are not measured here is nothing to tell."""
    assert told([held(name, resource=resource)], Names(DEVICES)) == ([], None)


def test_a_uuid_says_it_whatever_the_resource_is_called():
    """Cluster owners rename resources."""
    assert devices(held(f"{A}::2", resource="example.com/shared-gpu")) == [A]


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "nvidia.com/gpu.shared"])
def test_a_gpu_that_is_not_here_is_told(resource):
    """A collector that sees some GPUs alone must not look like one whose node is idle; the name is made harmless."""
    pods, why = told([held("GPU-\x1b[31m", resource=resource), held(A)], Names(DEVICES))
    assert [one.device for one in pods] == [A]
    assert why == f"1 GPUs that pods hold are not measured here, the first {resource} GPU-\\u001b[31m"


@pytest.mark.parametrize(
    "wrong",
    [
        {"pod": "p" * 300},
        {"pod": "p\nq"},
        {"namespace": "\x1b[2J"},
        {"pod": ""},
        {"namespace": ""},
        {"container": "c\0"},
    ],
)
def test_a_pod_with_a_name_that_none_can_have_is_left_out(wrong):
    """An event that nobody can read would cost the whole inventory."""
    pods, why = told([held(A, **wrong), held(A, pod="good")], Names(DEVICES))
    assert [one.pod for one in pods] == ["good"]
    assert why is not None


def test_names_of_full_length_fit_the_event():
    pods = told([held(A, pod="p" * 253, namespace="n" * 63, container="c" * 63)], Names(DEVICES)).pods
    host = {"time_s": 1.0, "cpu_model": None, "cpu_count": 1, "memory_total_bytes": 1, "kernel": "k"}
    event = NodeDescribed(cluster="c", producer="p", sequence=0, node="n", **host, pods=pods)
    assert wire.decode(NODE, wire.encode(event)).pods == pods


@pytest.mark.slow
def test_a_hundred_thousand_pods_are_bounded():
    """And that some are left out is said."""
    pods, why = told((held(A, pod=f"p{n}") for n in range(100_000)), Names(DEVICES))
    assert len(pods) == MOST_PODS
    assert why == f"{100_000 - MOST_PODS} beyond the {MOST_PODS} that are reported"
    strange = told((held(f"GPU-x{n}") for n in range(100_000)), Names(DEVICES))
    assert strange == ([], "100000 GPUs that pods hold are not measured here, the first nvidia.com/gpu GPU-x0")


@pytest.mark.long
def test_processes_tell_pods_by_uid():
    """Many processes of a pod are one pod; each device it is on is told."""
    uids = [(A, "u"), (A, "u"), (B, "u"), (A, "v")]
    assert of_processes(uids) == [
        DevicePod(device=A, uid="u"),
        DevicePod(device=A, uid="v"),
        DevicePod(device=B, uid="u"),
    ]
    assert len(of_processes((A, str(n)) for n in range(100_000))) == MOST_PODS
