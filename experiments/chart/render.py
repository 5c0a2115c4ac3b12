"""The chart as Helm renders it, by Helm 3 and 4, for each of the values files that tests know.

Rule of this file: it asks Helm and reads its answers; each is asked once a process, and nothing is judged.
"""

import re
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "paceline"
VALUES = ROOT / "tests" / "deploy" / "helm"
#: The loader that reads a megabyte of YAML in a second.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class ToolsError(RuntimeError):
    """Helm cannot be had here; the one line says why."""


@cache
def programs() -> Path:
    """The folder with Helm 3 and 4, fetched where it is missing.

    Raises:
        ToolsError: it cannot be fetched.
    """
    command = [str(ROOT / "deploy" / "helm" / "tools.sh")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ToolsError((done.stderr.strip().splitlines() or ["tools.sh failed"])[-1])
    return Path(done.stdout.strip())


def helm(version: int, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run that Helm; whatever it says."""
    command = [str(programs() / str(version) / "helm"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def template(version: int, *options: str, release: str = "paceline", namespace: str = "paceline") -> list[Any]:
    """What would be installed with those options, as objects.

    Raises:
        ValueError: Helm refuses; with what it says.
    """
    done = helm(version, "template", release, CHART, "--namespace", namespace, *options)
    if done.returncode:
        raise ValueError(done.stderr)
    return [one for one in yaml.load_all(done.stdout, Loader=LOADER) if one is not None]


@cache
def case(name: str, version: int = 4) -> tuple[dict[str, Any], ...]:
    """What is installed with the values file of that name."""
    return tuple(template(version, "--values", str(VALUES / f"{name}.yaml")))


def cases() -> list[str]:
    """The names of the values files."""
    return sorted(path.stem for path in VALUES.glob("*.yaml"))


def pod_of(one: dict[str, Any]) -> dict[str, Any] | None:
    """The pod template of an object that makes pods, or the pod itself."""
    if one["kind"] == "Pod":
        return one
    template = one.get("spec", {}).get("template")
    return template if one["kind"] in ("Deployment", "DaemonSet", "StatefulSet", "Job") else None


def started(name: str) -> list[tuple[str, dict[str, Any]]]:
    """Part -> its container, for every one of our images in the case of that name."""
    pods = [(component(one), pod) for one in case(name) if (pod := pod_of(one))]
    return [(part, pod["spec"]["containers"][0]) for part, pod in pods if part != "kafka"]


def environment(container: Mapping[str, Any], told: Mapping[str, str]) -> dict[str, str]:
    """A container's environment as a kubelet makes it; ``told`` is what the downward API says, by path.

    >>> ip = {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    >>> environment({"env": [ip, {"name": "NAMES", "value": "$(IP),$(ELSE)"}]}, {"status.podIP": "10.0.0.7"})
    {'IP': '10.0.0.7', 'NAMES': '10.0.0.7,$(ELSE)'}

    Raises:
        KeyError: the cluster would have to tell what ``told`` does not.
    """
    made: dict[str, str] = {}
    for variable in container.get("env", ()):
        value = variable.get("value")
        if value is None and "valueFrom" in variable:
            value = told[variable["valueFrom"]["fieldRef"]["fieldPath"]]
        made[variable["name"]] = re.sub(r"\$\((\w+)\)", lambda found: made.get(found[1], found[0]), str(value or ""))
    return made


def component(one: dict[str, Any]) -> str:
    """Which part of the chart an object belongs to."""
    return str(one["metadata"]["labels"]["app.kubernetes.io/component"])
