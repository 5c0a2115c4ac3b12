"""Where a service of the compose file is on this machine: an address of loopback for each, with its own ports.

Rule of this file: pure, text to text. All of 127.0.0.0/8 is this machine, so every container's ports stay as they are,
and two services may have the same one.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from .compose import Service

#: Addresses that stand for "here" in a container, or for all of its own.
EVERYWHERE = "0.0.0.0"


class Addresses:
    """``gateway`` is this machine as containers reach it; ``network`` the second and third number of the addresses."""

    def __init__(self, services: Mapping[str, Service], gateway: str, network: str) -> None:
        self._services = services
        self._gateway = gateway
        self._of = {name: f"127.{network}.{number}" for number, name in enumerate(services, 2)}
        self._of |= {name: self._of[service.beside] for name, service in services.items() if service.beside}
        self._published = {
            port: (name, target) for name, service in services.items() for port, target in service.published.items()
        }
        longest_first = sorted(services, key=len, reverse=True)
        self._names = re.compile(rf"(?<![\w.-])({'|'.join(map(re.escape, longest_first))}):(\d+)(?![\w-])")
        self._loopback = re.compile(r"\b(?:127\.0\.0\.1|localhost):(\d+)\b")

    def __getitem__(self, name: str) -> str:
        return self._of[name]

    def translated(self, name: str, text: str) -> str:
        """``text`` of a service's environment, command or configuration, for this machine."""
        own = self._of[name]
        text = self._names.sub(lambda found: f"{self._of[found[1]]}:{found[2]}", text)
        text = self._loopback.sub(lambda found: self._local(name, int(found[1])), text)
        text = text.replace("://:", f"://{own}:")  # A listener on all addresses, as Kafka writes it.
        return text.replace(EVERYWHERE, own).replace(self._gateway, own)

    def _local(self, name: str, port: int) -> str:
        """Loopback means the container itself, but on the host's network: there it is what is published."""
        published = self._published.get(port)
        if published is None or (not self._services[name].on_host and port in self._listens(name)):
            return f"{self._of[name]}:{port}"
        return f"{self._of[published[0]]}:{published[1]}"

    def _listens(self, name: str) -> set[int]:
        """Ports of the container itself, as far as the file tells."""
        service = self._services[name]
        said = [*(service.health.test if service.health else ()), service.environ.get("KAFKA_LISTENERS", "")]
        return {int(port) for text in said for port in re.findall(r":(\d+)", text)} | set(service.published.values())


def own_network(number: int) -> str:
    """The part of loopback that a process with that number has to itself, as good as surely.

    >>> own_network(4321)
    '81.71'
    """
    return f"{64 + number // 250 % 128}.{number % 250}"


def path_on_host(mounts: Mapping[str, Path], text: str) -> str:
    """``text`` with the places in a container at which something is mounted replaced by where that lies.

    >>> path_on_host({"/run/paceline": Path("/tmp/x")}, "/run/paceline/ca.pem")
    '/tmp/x/ca.pem'
    """
    targets = "|".join(re.escape(target) for target in sorted(mounts, key=len, reverse=True))
    return re.sub(rf"(?<![\w/.-])({targets})(?=/|$|[\s\"'])", lambda found: str(mounts[found[1]]), text)
