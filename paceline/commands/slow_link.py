"""A network of its own for one rank, so that its link can be made slow: a namespace and a pair of virtual interfaces.

Rule of this file: Linux's ``ip`` and ``tc``, and root. What is missing is said before anything is made; what was made
is removed again.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

#: Delay that the slow link adds; where the kernel has no netem, a rate that does about the same to a step.
NETEM = "netem delay 25ms"
TBF = "tbf rate 40mbit burst 64kbit latency 200ms"


class LinkError(RuntimeError):
    """No network namespace can be had here: what is missing, on one line."""


@dataclass(frozen=True)
class SlowLink:
    """The namespace, the names of the interfaces on either side, and the address ranks meet at."""

    namespace: str
    outside: str
    inside: str
    address: str
    shaper: str

    @property
    def slow_down(self) -> str:
        """The command that makes the link slow, to run inside the namespace."""
        return f"tc qdisc replace dev {self.inside} root {self.shaper}"

    def wrap(self, rank: int, command: list[str]) -> list[str]:
        """``command`` for every local rank, with the one called ``rank`` inside the namespace."""
        script = (
            f'if [ "$LOCAL_RANK" = {rank} ]; then '
            f'GLOO_SOCKET_IFNAME={self.inside} exec ip netns exec {self.namespace} "$@"; fi; '
            f'GLOO_SOCKET_IFNAME={self.outside} exec "$@"'
        )
        return ["sh", "-c", script, "sh", *command]


@contextlib.contextmanager
def namespace() -> Iterator[SlowLink]:
    """A namespace with a fast link to here.

    Raises:
        LinkError: no root, no ``ip`` or ``tc``, or a kernel without namespaces.
    """
    if os.geteuid() != 0:
        raise LinkError("--fault link needs root, to give one rank a slow network of its own; try another fault")
    for tool in ("ip", "tc"):
        if shutil.which(tool) is None:
            raise LinkError(f"--fault link needs the command {tool!r} (Debian: apt-get install iproute2)")
    number = os.getpid()
    name, outside, inside = f"paceline-{number}", f"plo{number}"[:15], f"pli{number}"[:15]
    third, fourth = number // 64 % 256, number % 64 * 4
    ours, theirs = f"10.213.{third}.{fourth + 1}", f"10.213.{third}.{fourth + 2}"
    try:
        _do(f"ip netns add {name}")
        _do(f"ip link add {outside} type veth peer name {inside} netns {name}")
        _do(f"ip addr add {ours}/30 dev {outside}")
        _do(f"ip link set {outside} up")
        _do(f"ip -n {name} addr add {theirs}/30 dev {inside}")
        _do(f"ip -n {name} link set {inside} up")
        _do(f"ip -n {name} link set lo up")
        yield SlowLink(name, outside, inside, ours, _shaper(name, inside))
    finally:
        # Deleting the namespace takes the pair of interfaces with it; a pair that never moved goes by its name.
        for command in (f"ip link del {outside}", f"ip netns del {name}"):
            with contextlib.suppress(LinkError):
                _do(command)


def _shaper(name: str, interface: str) -> str:
    """Whichever way of slowing a link this kernel has."""
    for shaper in (NETEM, TBF):
        with contextlib.suppress(LinkError):
            _do(f"tc -n {name} qdisc replace dev {interface} root {shaper}")
            _do(f"tc -n {name} qdisc del dev {interface} root")
            return shaper
    raise LinkError("--fault link needs a kernel with sch_netem or sch_tbf; this one has neither")


def _do(command: str) -> None:
    done = subprocess.run(command.split(), capture_output=True, text=True, check=False)  # noqa: S603 - ip and tc
    if done.returncode:
        said = " ".join(done.stderr.split())
        raise LinkError(f"--fault link needs network namespaces: `{command}` failed: {said}")
