"""What the rendered chart says of a container, as the twin of docker-compose.yml starts it.

Rule of this file: pure; a manifest in, a service out. Only what a cluster would fill in is put here: names of nodes.
"""

from collections.abc import Mapping
from typing import Any

from ..twin.compose import Health, Service
from .render import component, environment, pod_of

NODE = "node-1"
#: What the downward API would tell.
DOWNWARD = {"spec.nodeName": NODE, "status.podIP": "127.0.0.1"}


def host(one: Mapping[str, Any], objects: list[dict[str, Any]]) -> str:
    """The name by which others ask for a pod: that of its Service, as they write it; else its part's."""
    part = component(dict(one))
    for other in objects:
        if other["kind"] == "Service" and component(other) == part:
            name = str(other["metadata"]["name"])
            return f"{name}.{other['metadata']['namespace']}.svc" if part == "kafka" else name
    return part


def service(one: dict[str, Any], objects: list[dict[str, Any]]) -> Service:
    """The one container of what makes pods, as a service of the twin; its health is its readiness probe.

    Raises:
        KeyError: it has no pod, or the cluster would have to tell what is not known here.
    """
    pod = pod_of(one)
    if pod is None:
        raise KeyError(f"{one['kind']} makes no pods")
    (container,) = pod["spec"]["containers"]
    part = component(one)
    entry = [] if part == "kafka" else ["paceline"]
    return Service(
        host(one, objects),
        container["image"],
        part != "kafka",
        [*entry, *container.get("args", ())],
        environment(container, DOWNWARD),
        {
            mount["mountPath"]: f"{part}-{mount['name']}"
            for mount in container["volumeMounts"]
            if mount["mountPath"] != "/tmp"
        },
        health=_health(container),
    )


def files(one: dict[str, Any]) -> dict[str, list[str]]:
    """Volume out of Secrets -> the files in it."""
    found = {}
    for volume in (pod_of(one) or {"spec": {}})["spec"].get("volumes", ()):
        sources = volume.get("projected", {}).get(
            "sources", [{"secret": volume["secret"]}] if "secret" in volume else []
        )
        if sources:
            paths = [item["path"] for source in sources for item in source["secret"]["items"]]
            found[f"{component(one)}-{volume['name']}"] = paths
    return found


def _health(container: Mapping[str, Any]) -> Health | None:
    """The readiness probe, and the time that the startup probe gives."""
    if "readinessProbe" not in container:
        return None
    startup = container["startupProbe"]
    within_s = float(startup["periodSeconds"] * startup["failureThreshold"])
    probe = container["readinessProbe"].get("httpGet")
    if probe is None:  # A port that is open; asked of the twin as the compose file's check asks.
        return Health(["kafka-topics.sh", "--bootstrap-server", "localhost:29093", "--list"], within_s)
    (port,) = (port["containerPort"] for port in container["ports"] if port["name"] == probe["port"])
    return Health(["wget", f"http://0.0.0.0:{port}{probe['path']}"], within_s)  # As the kubelet asks: 200 or not.
