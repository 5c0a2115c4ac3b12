"""The commands that a suggestion is followed with, ready to be copied into a shell.

Rule of this file: text. Names come from outside: each is quoted for a shell, and a name that no scheduler gives (a
space, a control character, a dash in front, a bracket that Slurm would expand) gets no command at all.
"""

import re
import shlex
from collections.abc import Mapping
from typing import Literal

Scheduler = Literal["slurm", "kubernetes", ""]

#: What nodes, pods and namespaces are called; Slurm expands brackets and commas, and ``-x`` is an option.
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}\Z", re.ASCII)
_SLURM_JOB = re.compile(r"[0-9]{1,12}(_[0-9]{1,12})?\Z", re.ASCII)


def scheduler_of(labels: Mapping[str, str]) -> Scheduler:
    """Who started a job with these labels.

    >>> scheduler_of({"slurm_user": "ada"}), scheduler_of({})
    ('slurm', '')
    """
    if any(name.startswith("slurm_") for name in labels):
        return "slurm"
    return "kubernetes" if any(name.startswith("kubernetes_") for name in labels) else ""


def drain(node: str, why: str, scheduler: Scheduler) -> list[str]:
    """Let no new work onto ``node``; what runs there may end. Both ways where nobody knows who starts jobs there.

    >>> drain("gpu-7", "XID 79", "slurm")
    ["scontrol update nodename=gpu-7 state=drain reason='paceline: XID 79'"]
    >>> drain("gpu-7; reboot", "XID 79", "slurm"), drain("--all", "", "kubernetes")
    ([], [])
    """
    if not _HOST.match(node):
        return []
    reason = shlex.quote("paceline: " + _printable(why)[:120])
    lines = {
        "slurm": f"scontrol update nodename={shlex.quote(node)} state=drain reason={reason}",
        "kubernetes": f"kubectl cordon {shlex.quote(node)}",
    }
    if scheduler:
        return [lines[scheduler]]
    return [f"{lines['slurm']}  # where Slurm starts the jobs", f"{lines['kubernetes']}  # where Kubernetes does"]


def elsewhere(job: str, nodes: tuple[str, ...], labels: Mapping[str, str]) -> list[str]:
    """Start ``job`` again without ``nodes``.

    >>> elsewhere("4711", ("gpu-7",), {"slurm_user": "ada"})
    ['scontrol requeuehold 4711', 'scontrol update jobid=4711 excnodelist=gpu-7', 'scontrol release 4711']
    """
    scheduler = scheduler_of(labels)
    named = [node for node in nodes if _HOST.match(node)]
    if scheduler == "slurm" and _SLURM_JOB.match(job) and named:
        without = shlex.quote(",".join(named))
        return [
            f"scontrol requeuehold {job}",
            f"scontrol update jobid={job} excnodelist={without}",
            f"scontrol release {job}",
        ]
    if scheduler == "kubernetes":
        return [f"kubectl cordon {shlex.quote(node)}" for node in named] + restart(job, labels)
    return []


def restart(job: str, labels: Mapping[str, str]) -> list[str]:
    """Start ``job`` again as it is.

    >>> restart("x", {"kubernetes_pod": "x-0", "kubernetes_namespace": "ml"})
    ['kubectl delete pod --namespace ml x-0']
    """
    if scheduler_of(labels) == "slurm":
        return [f"scontrol requeue {job}"] if _SLURM_JOB.match(job) else []
    pod, space = labels.get("kubernetes_pod", ""), labels.get("kubernetes_namespace", "default")
    if not (_HOST.match(pod) and _HOST.match(space)):
        return []
    return [f"kubectl delete pod --namespace {shlex.quote(space)} {shlex.quote(pod)}"]


def on_node(node: str, command: str) -> list[str]:
    """``command``, a fixed text, on ``node``.

    >>> on_node("gpu-7", "uptime"), on_node("-oProxyCommand=x", "uptime")
    (['ssh gpu-7 uptime'], [])
    """
    return (
        [f"ssh {shlex.quote(node)} {shlex.quote(command) if ' ' in command else command}"] if _HOST.match(node) else []
    )


def look_at_node(node: str, scheduler: Scheduler) -> list[str]:
    """What tells whether ``node`` is there."""
    if not _HOST.match(node):
        return []
    asks = {"slurm": [f"scontrol show node {shlex.quote(node)}"], "kubernetes": [f"kubectl describe node {node}"]}
    return [*on_node(node, "uptime"), *asks.get(scheduler, [])]


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)
