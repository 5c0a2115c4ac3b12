"""What the Pod Security Standards forbid of a pod, at the levels baseline and restricted, as Kubernetes publishes them.

Rule of this file: pure; a pod in, the controls that it breaks out. What a container does not say, its pod says; what
neither says is judged as the standard judges it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

#: Volume types that the restricted level allows.
VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
}
#: Capabilities that baseline lets a container add.
BASELINE_CAPABILITIES = {
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
}
SECCOMP = ("RuntimeDefault", "Localhost")


def containers(spec: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """All of them, of whatever sort."""
    for sort in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(sort) or ()


def baseline(spec: Mapping[str, Any]) -> list[str]:
    """The controls of the level baseline that a pod's spec breaks.

    >>> baseline({"hostPID": True, "containers": [{"name": "a", "ports": [{"hostPort": 80}]}]})
    ['hostPID', 'hostPort of a']
    """
    broken = [name for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name)]
    broken += [f"hostPath {volume['name']}" for volume in spec.get("volumes") or () if "hostPath" in volume]
    pod = spec.get("securityContext") or {}
    if (pod.get("seccompProfile") or {}).get("type") == "Unconfined":
        broken.append("seccomp Unconfined")
    if pod.get("sysctls"):
        broken.append("sysctls")
    for one in containers(spec):
        context = one.get("securityContext") or {}
        added = set((context.get("capabilities") or {}).get("add") or ())
        broken += [f"privileged {one['name']}"] if context.get("privileged") else []
        broken += [f"capabilities of {one['name']}"] if added - BASELINE_CAPABILITIES else []
        broken += [f"hostPort of {one['name']}" for port in one.get("ports") or () if port.get("hostPort")]
        broken += [f"procMount of {one['name']}"] if context.get("procMount", "Default") != "Default" else []
        if (context.get("seccompProfile") or {}).get("type") == "Unconfined":
            broken.append(f"seccomp of {one['name']} Unconfined")
    return broken


def restricted(spec: Mapping[str, Any]) -> list[str]:
    """The controls of the level restricted, those of baseline with them, that a pod's spec breaks.

    >>> good = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    >>> pod = {"securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}}
    >>> restricted({**pod, "containers": [{"name": "a", "securityContext": good}]})
    []
    >>> restricted({**pod, "containers": [{"name": "a", "securityContext": {**good, "runAsUser": 0}}]})
    ['a runs as root']
    """
    broken = baseline(spec)
    pod = spec.get("securityContext") or {}
    for volume in spec.get("volumes") or ():
        types = set(volume) - {"name"}
        broken += [f"volume {volume['name']}"] if not types <= VOLUMES and "hostPath" not in types else []
    broken += ["the pod runs as root"] if pod.get("runAsUser") == 0 else []
    for one in containers(spec):
        broken += _container(one["name"], one.get("securityContext") or {}, pod)
    return broken


def _container(name: str, context: Mapping[str, Any], pod: Mapping[str, Any]) -> Iterator[str]:
    capabilities = context.get("capabilities") or {}
    if context.get("allowPrivilegeEscalation") is not False:
        yield f"{name} may gain privileges"
    if context.get("runAsNonRoot", pod.get("runAsNonRoot")) is not True:
        yield f"{name} may run as root"
    if context.get("runAsUser") == 0:
        yield f"{name} runs as root"
    if ((context.get("seccompProfile") or pod.get("seccompProfile")) or {}).get("type") not in SECCOMP:
        yield f"{name} has no seccomp profile"
    if "ALL" not in (capabilities.get("drop") or ()):
        yield f"{name} keeps capabilities"
    if set(capabilities.get("add") or ()) - {"NET_BIND_SERVICE"}:
        yield f"{name} adds capabilities"
