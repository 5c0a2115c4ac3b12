"""What docker-compose.yml and the Dockerfile say of a service, merged as Docker merges them.

Rule of this file: it reads; nothing is started, and nothing is changed for this machine.
"""

import json
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..processes import ROOT, RunError

COMPOSE = Path(sys.executable).with_name("docker-compose")
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
#: How the stack with the demo is asked for, in the clear and secured.
PROFILES = {
    "demo": ("--profile", "demo"),
    "secure": ("--env-file", "deploy/secure.env", "--profile", "secure", "--profile", "demo"),
}


@dataclass(frozen=True)
class Health:
    """A check: its command, and the seconds that a container has to become healthy."""

    test: list[str]
    within_s: float


@dataclass(frozen=True)
class Service:
    """A service as its container would be started; ``published`` is port on this machine -> port of the container.

    ``beside`` is the service whose network it shares.
    """

    name: str
    image: str
    own: bool
    command: list[str]
    environ: dict[str, str]
    mounts: dict[str, str] = field(default_factory=dict)
    waits_for: dict[str, str] = field(default_factory=dict)
    published: dict[int, int] = field(default_factory=dict)
    health: Health | None = None
    on_host: bool = False
    beside: str = ""


def services(*options: str) -> dict[str, Service]:
    """What `docker compose OPTIONS up` would start, in the order in which it would.

    Raises:
        RunError: Compose refuses the file.
    """
    stages = dockerfile(DOCKERFILE.read_text())
    file = _file(*options)["services"]
    for said in file.values():  # Whom a profile would bring is waited for only with it.
        said["depends_on"] = {name: how for name, how in said.get("depends_on", {}).items() if name in file}
    found = {name: service(name, said, stages) for name, said in file.items()}
    return {name: found[name] for name in in_order(found)}


def gateway() -> str:
    """The address by which containers reach their machine."""
    (config,) = _file()["networks"]["default"]["ipam"]["config"]
    return str(config["gateway"])


def _file(*options: str) -> dict[str, Any]:
    command = [str(COMPOSE), *options, "config", "--format", "json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RunError(done.stderr.strip())
    return dict(json.loads(done.stdout))


def in_order(found: dict[str, Service]) -> list[str]:
    """Names so that each comes after those it waits for.

    >>> made = {name: Service(name, "", True, [], {}, waits_for=after) for name, after in
    ...         {"ui": {"topics": ""}, "topics": {"kafka": ""}, "kafka": {}}.items()}
    >>> in_order(made)
    ['kafka', 'topics', 'ui']
    """
    order: list[str] = []

    def add(name: str) -> None:
        for before in found[name].waits_for:
            add(before)
        if name not in order:
            order.append(name)

    for name in found:
        add(name)
    return order


def service(name: str, said: dict[str, Any], stages: dict[str, dict[str, Any]]) -> Service:
    """One service of Compose's answer; what it does not say, its stage of the Dockerfile says."""
    stage = stages.get(said["build"]["target"], {}) if "build" in said else {}
    entry = said.get("entrypoint") or stage.get("ENTRYPOINT", [])
    command = said.get("command")
    if command is None:
        command = stage.get("CMD", []) if said.get("entrypoint") is None else []
    network = said.get("network_mode") or ""
    # Compose writes a dollar twice in what it prints, so that the text can be read by it again.
    return Service(
        name,
        said["image"],
        "build" in said,
        [part.replace("$$", "$") for part in [*entry, *command]],
        {key: str(value).replace("$$", "$") for key, value in (said.get("environment") or {}).items()},
        {mount["target"]: mount["source"] for mount in said.get("volumes", ())},
        {other: how["condition"] for other, how in said.get("depends_on", {}).items()},
        {int(port["published"]): port["target"] for port in said.get("ports", ())},
        _health(said.get("healthcheck") or {}, stage),
        network == "host",
        network.removeprefix("service:") if network.startswith("service:") else "",
    )


def _health(said: dict[str, Any], stage: dict[str, Any]) -> Health | None:
    if said.get("disable"):
        return None
    if "test" in said:
        every, grace = seconds(said.get("interval", "30s")), seconds(said.get("start_period", "0s"))
        return Health(said["test"][1:], grace + said.get("retries", 3) * every)
    return stage.get("HEALTHCHECK")


def seconds(raw: str) -> float:
    """A time as Docker writes it.

    >>> seconds("1m30s"), seconds("20s")
    (90.0, 20.0)
    """
    units = {"h": 3600.0, "m": 60.0, "s": 1.0}
    return sum(float(number) * units[unit] for number, unit in re.findall(r"([\d.]+)([hms])", raw))


def dockerfile(text: str) -> dict[str, dict[str, Any]]:
    """Stage -> its ENTRYPOINT, CMD and HEALTHCHECK, with those of the stage that it is made from.

    >>> found = dockerfile('FROM x AS a\\nENTRYPOINT ["run"]\\nFROM a AS b\\nCMD ["it"]\\n')
    >>> found["b"]
    {'ENTRYPOINT': ['run'], 'CMD': ['it']}
    """
    stages: dict[str, dict[str, Any]] = {}
    stage: dict[str, Any] = {}
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        word, _, rest = line.partition(" ")
        if word == "FROM":
            base, _, name = rest.split()
            stages[name] = stage = dict(stages.get(base, {}))
        elif word in ("ENTRYPOINT", "CMD"):
            stage[word] = json.loads(rest)
        elif word == "HEALTHCHECK":
            stage[word] = _image_health(rest)
    return stages


def _image_health(rest: str) -> Health | None:
    options, _, command = rest.partition("CMD ")
    if not command:
        return None
    said = dict(re.findall(r"--([a-z-]+)=(\S+)", options))
    grace, every = seconds(said.get("start-period", "0s")), seconds(said.get("interval", "30s"))
    return Health(json.loads(command), grace + 3 * every)
