"""How each service of the compose file is started without its image: by the same program, from another place.

Rule of this file: only what an image brings is replaced. Environment, command and configuration are the compose
file's own, with addresses and paths of this machine.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ..processes import ROOT, RunError, free_port
from .addresses import Addresses, path_on_host
from .compose import Service

KAFKA = ROOT / "deploy" / "kafka"
#: Images for which there is no program here.
#: Where those listen that Compose publishes to nobody.
UNPUBLISHED = {"prometheus": 9090, "alertmanager": 9093}
ABSENT = ("grafana/grafana", "nvcr.io/nvidia/k8s/dcgm-exporter")
#: What the Kafka image's starter reads itself: no properties of the broker.
NOT_PROPERTIES = ("KAFKA_HEAP_OPTS", "KAFKA_OPTS", "KAFKA_VERSION")


@dataclass(frozen=True)
class Program:
    """What is started; ``health`` is what its container's check would be."""

    command: list[str]
    environ: dict[str, str]
    health: list[str]


def absent(service: Service) -> bool:
    """Whether this machine has nothing to start it with."""
    return image(service) in ABSENT


def image(service: Service) -> str:
    """The image's name without its tag."""
    return service.image.partition(":")[0]


class Natively:
    """``folder`` takes volumes and configuration."""

    def __init__(self, addresses: Addresses, folder: Path) -> None:
        self._addresses, self._folder = addresses, folder
        fetch_kafka()

    def program(self, service: Service) -> Program:
        """How ``service`` is started here.

        Raises:
            RunError: a program is missing.
        """
        mounts = {target: self._mounted(service, source) for target, source in service.mounts.items()}
        mounts["/tmp"] = self._folder

        def here(text: str) -> str:
            return path_on_host(mounts, self._addresses.translated(service.name, text))

        environ = {key: here(value) for key, value in service.environ.items()}
        command = [here(part) for part in service.command]
        health = [here(part) for part in service.health.test] if service.health else []
        base = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(self._folder)}
        base |= {"TMPDIR": str(self._folder), "LANG": "C.UTF-8"}
        if service.own or service.name == "users":
            tools = {"KAFKA_CONFIGS": java("kafka.admin.ConfigCommand")} if service.name == "users" else {}
            return Program(command, {**base, **environ, **tools}, health)
        if image(service) == "apache/kafka":
            return Program([str(KAFKA / "kafka.sh")], base | self._kafka(environ), health)
        return self._debian(service, command, {**base, **environ}, health)

    def volume(self, name: str) -> Path:
        """Where a named volume lies."""
        path = self._folder / "volumes" / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def _mounted(self, service: Service, source: str) -> Path:
        """A named volume, or a folder of the repository: as it is, or with the addresses of this machine."""
        if not source.startswith("/"):
            return self.volume(source)
        if image(service) not in ("prom/prometheus", "prom/alertmanager"):
            return Path(source)
        copy = self._folder / "configuration" / service.name
        shutil.copytree(source, copy, dirs_exist_ok=True)
        for path in copy.glob("*.yml"):
            said = yaml.safe_load(self._addresses.translated(service.name, path.read_text()))
            path.write_text(yaml.safe_dump(self._without_dns(said)))
        return copy

    def _without_dns(self, said: Any) -> Any:
        """Names that Docker resolves, as the addresses that they have here."""
        for job in said.get("scrape_configs", ()):
            for found in job.pop("dns_sd_configs", ()):
                targets = [f"{self._addresses[name]}:{found['port']}" for name in found["names"]]
                job.setdefault("static_configs", []).append({"targets": targets})
        return said

    def _kafka(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The image's variables as properties, by the rule of the image's own starter."""
        lines = [
            f"{_property(key)}={value}"
            for key, value in environ.items()
            if key.startswith("KAFKA_") and key not in NOT_PROPERTIES
        ]
        properties = self._folder / "kafka.properties"
        properties.write_text("\n".join(lines) + "\n")
        own = {"EXTRA_PROPERTIES": str(properties), "DATA": str(self._folder / "kafka"), "PORT": str(free_port())}
        # Maven keeps what it has fetched at home.
        return {**own, "HEAP": "1g", "HOME": os.environ.get("HOME", "/")}

    def _debian(self, service: Service, command: list[str], environ: dict[str, str], health: list[str]) -> Program:
        """Prometheus and Alertmanager, as Debian has them."""
        name = service.name
        found = shutil.which(f"prometheus-{name}") or shutil.which(name)
        if found is None:
            raise RunError(f"no {name} here; fix: make system")
        port = UNPUBLISHED[name]
        return Program([found, *command, f"--web.listen-address={self._addresses[name]}:{port}"], environ, health)


def fetch_kafka() -> None:
    """Have Kafka's release here, which takes a while once.

    Raises:
        RunError: it cannot be fetched.
    """
    if subprocess.run([str(KAFKA / "kafka.sh"), "fetch"], check=False).returncode:
        raise RunError("Apache Kafka cannot be fetched; its message is above")


def java(tool: str) -> str:
    """One of Kafka's own tools, as a command line; ``fetch_kafka`` comes first."""
    libraries = next(folder for folder in (KAFKA / "libs").iterdir() if folder.name.isdecimal())
    return f"java -Xmx128m -Dlog4j2.configurationFile={KAFKA}/log4j2.properties -cp {libraries}/* {tool}"


def _property(variable: str) -> str:
    """The property that a variable of the Kafka image sets.

    >>> _property("KAFKA_LISTENER_NAME_HOST_SCRAM___SHA___512_SASL_JAAS_CONFIG")
    'listener.name.host.scram-sha-512.sasl.jaas.config'
    """
    words = variable.removeprefix("KAFKA_").lower().replace("_", ".")
    return words.replace("...", "-").replace("..", "_")
