"""The pod of a process, by the paths that kubelets and container runtimes make."""

import pytest

from collectors.cgroup_pods import pod_uid

UID = "0a1b2c3d-1111-2222-3333-444455556666"
UNDER = UID.replace("-", "_")
ID = "9f" * 32


@pytest.mark.parametrize(
    "text",
    [
        # v2, systemd: containerd, CRI-O, cri-dockerd; guaranteed, burstable, best effort
        f"0::/kubepods.slice/kubepods-pod{UNDER}.slice/cri-containerd-{ID}.scope",
        f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UNDER}.slice/crio-{ID}.scope",
        f"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{UNDER}.slice/docker-{ID}.scope",
        # a group of the container's own below, as systemd in a container or an init makes
        f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UNDER}.slice/crio-{ID}.scope/init.scope",
        # v2, cgroupfs
        f"0::/kubepods/pod{UID}/{ID}",
        f"0::/kubepods/besteffort/pod{UID}/{ID}",
        # kind: the kubelet's groups in a container's
        f"0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/"
        f"kubelet-kubepods-besteffort-pod{UNDER}.slice/cri-containerd-{ID}.scope",
        f"0::/docker/{ID}/kubelet/kubepods/besteffort/pod{UID}/{ID}",
        f"0::/system.slice/docker-{ID}.scope/kubelet.slice/kubelet-kubepods.slice/"
        f"kubelet-kubepods-pod{UNDER}.slice/cri-containerd-{ID}.scope",
        # containerd with cgroupfs under a kubelet with systemd
        f"0::/system.slice/containerd.service/kubepods-burstable-pod{UNDER}.slice:cri-containerd:{ID}",
        # v1: a line a hierarchy, in any order, the unified one empty
        f"12:pids:/kubepods/burstable/pod{UID}/{ID}\n11:cpu,cpuacct:/kubepods/burstable/pod{UID}/{ID}\n0::/",
        f"1:name=systemd:/\n4:memory:/kubepods.slice/kubepods-pod{UNDER}.slice/docker-{ID}.scope",
        # seen from a collector with a cgroup namespace of its own
        f"0::/../../kubepods-besteffort-pod{UNDER}.slice/cri-containerd-{ID}.scope",
        f"0::/../../pod{UID}/{ID}",
        f"0::/../cri-containerd-x.scope/../../../besteffort/pod{UID}/{ID}",
    ],
)
def test_the_pod_is_in_the_path(text: str) -> None:
    """Whatever driver and runtime wrote it."""
    assert pod_uid(text) == UID


def test_a_static_pod_has_a_hash() -> None:
    """The kubelet calls it so; there are no dashes to put back."""
    assert pod_uid(f"0::/kubepods/burstable/pod{'0f' * 16}/{ID}") == "0f" * 16


def test_of_pods_in_pods_the_outermost_counts() -> None:
    """It is this node's kubelet; what is below may call itself as it likes."""
    other = "ffffffff-1111-2222-3333-444455556666"
    assert pod_uid(f"0::/kubepods/pod{UID}/{ID}/kubelet/kubepods/pod{other}/{ID}") == UID


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0::/",
        "garbage",
        "\0\xff\n:::\n",
        "0::/system.slice/sshd.service",
        f"0::/docker/{ID}",
        "0::/kubepods.slice/kubepods-burstable.slice",
        # no UID, another's, or one that is not whole
        "0::/kubepods/podinfo/x",
        f"0::/kubepods/pod{UID[:-1]}/{ID}",
        f"0::/kubepods/pod{UID}0/{ID}",
        "0::/kubepods/pod0a1b2c3d-1111_2222-3333_444455556666/x",
        # groups that nobody's kubelet made
        f"0::/pod{UID}/{ID}",
        f"0::/system.slice/pod{UID}.slice",
        f"0::/user.slice/user-1000.slice/user@1000.service/kubepods/pod{UID}/{ID}",
        f"0::/user.slice/user-1000.slice/kubepods-pod{UNDER}.slice/x",
        # Slurm's and systemd's
        "0::/system.slice/slurmstepd.scope/job_71/step_0/user/task_0",
    ],
)
def test_else_there_is_none(text: str) -> None:
    """A path that only looks like one names no pod."""
    assert pod_uid(text) is None


def test_a_long_text_is_read_in_time() -> None:
    """No path makes the pattern try again and again."""
    assert pod_uid("0::/" + "kubepods-" * 20_000 + "/" + "kubepods" * 20_000) is None
