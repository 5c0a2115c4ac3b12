"""Which pod of Kubernetes a process is in, by the name of its cgroup.

Rule of this file: pure. The text is /proc/PID/cgroup's, of either version of cgroups, written by the kubelet's systemd
or cgroupfs driver for any container runtime. Of several pods in one path the outermost counts: that is the kubelet of
this node, and what runs in its pod may name groups of its own below as it likes.
"""

import re

#: A pod's UID, with the kubelet's dashes or systemd's underscores; that of a static pod is a hash without any.
_UID = r"[0-9a-f]{8}(?P<sep>[-_]?)(?:[0-9a-f]{4}(?P=sep)){3}[0-9a-f]{12}"
#: ``pod<uid>`` by cgroupfs, ``kubepods-burstable-pod<uid>.slice`` by systemd, with the prefix that kind and others add.
_POD = re.compile(rf"(?:(?P<systemd>[\w.-]*kubepods(?:-\w+)?)-)?pod(?P<uid>{_UID})(?:\.slice)?", re.IGNORECASE)
#: containerd writes ``…-pod<uid>.slice:cri-containerd:<id>`` where its own driver is not the kubelet's.
_SEGMENTS = re.compile(r"[/:]")
#: A path that begins so is seen from a cgroup namespace: what is above is not shown, ``kubepods`` least of all.
_ABOVE = "/.."
#: Groups that a user may make, and call as it likes.
_USERS = "/user.slice"


def pod_uid(text: str) -> str | None:
    """The UID of the pod, as the API server writes it; None where the process is in none.

    >>> pod_uid("0::/kubepods.slice/kubepods-pod0a1b2c3d_1111_2222_3333_444455556666.slice/cri-containerd-9f.scope")
    '0a1b2c3d-1111-2222-3333-444455556666'
    >>> pod_uid("0::/system.slice/sshd.service")
    """
    uids = (_of_path(line.split(":", 2)[-1]) for line in text.splitlines())
    return next(filter(None, uids), None)


def _of_path(path: str) -> str | None:
    if path.startswith(_USERS):
        return None
    below_kubepods = path.startswith(_ABOVE)
    for segment in _SEGMENTS.split(path):
        found = _POD.fullmatch(segment)
        if found is not None and (below_kubepods or found["systemd"]):
            return _dashed(found["uid"])
        below_kubepods = below_kubepods or segment.endswith("kubepods")
    return None


def _dashed(uid: str) -> str:
    return uid.lower().replace("_", "-")
