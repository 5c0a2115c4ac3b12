"""Three Apache Kafka nodes on this machine: every partition on all three, and two of them must have a message.

Rule of this file: starting, hurting and mending nodes; who is hurt and when is decided elsewhere.
"""

import contextlib
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen, TimeoutExpired

from paceline import child
from paceline.kafka.errors import BusError
from paceline.kafka.reach import wait_for_broker
from paceline.kafka.settings import BrokerSettings

from ..processes import READY_S, ROOT, RunError, free_ports

NODES = 3
_PROPERTIES = """\
node.id={number}
listeners=CLIENT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=CLIENT://127.0.0.1:{port}
controller.quorum.voters={voters}
default.replication.factor=3
min.insync.replicas=2
offsets.topic.replication.factor=3
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
share.coordinator.state.topic.replication.factor=3
share.coordinator.state.topic.min.isr=2
unclean.leader.election.enable=false
"""


class Node:
    """One node: its folder, its port, its process."""

    def __init__(self, folder: Path, port: int, properties: str) -> None:
        self.folder, self.port = folder, port
        folder.mkdir(parents=True, exist_ok=True)
        self.properties = folder / "extra.properties"
        self.properties.write_text(properties)
        self.process: Popen[bytes] | None = None

    @property
    def data(self) -> Path:
        """Where its log lives: a disk of its own, where one is mounted there."""
        return self.folder / "data"

    def start(self) -> None:
        """Start it, where it does not run; it answers some seconds later."""
        if self.process is not None and self.process.poll() is None:
            return
        own = {"PORT": str(self.port), "DATA": str(self.data), "HEAP": "256m"}
        with (self.folder / "kafka.log").open("ab") as log:
            command = [str(ROOT / "deploy/kafka/kafka.sh")]
            self.process = child.spawn(command, log, {**os.environ, **own, "EXTRA_PROPERTIES": str(self.properties)})

    def signal(self, number: int) -> None:
        """Send it a signal, where it runs."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)

    def kill(self) -> None:
        """End it as a power cut would."""
        self.signal(signal.SIGKILL)
        if self.process is not None:
            self.process.wait()

    def stop(self) -> None:
        """End it in peace; hard, where it does not come to an end."""
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        with contextlib.suppress(TimeoutExpired):
            if self.process is not None:
                self.process.wait(20.0)
        self.kill()

    def answers(self) -> bool:
        """Whether it listens."""
        with socket.socket() as probe:
            probe.settimeout(1.0)
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


class Cluster:
    """All nodes."""

    def __init__(self, folder: Path) -> None:
        ports = free_ports(2 * NODES)
        controllers = ports[NODES:]
        voters = ",".join(f"{number}@127.0.0.1:{port}" for number, port in enumerate(controllers, 1))
        self.nodes = [
            Node(
                folder / f"node-{number}",
                port,
                _PROPERTIES.format(number=number, port=port, controller=controllers[number - 1], voters=voters),
            )
            for number, port in enumerate(ports[:NODES], 1)
        ]

    @property
    def settings(self) -> BrokerSettings:
        """How clients reach it: all nodes, so that one that is down stops nobody."""
        return BrokerSettings().with_brokers(",".join(f"127.0.0.1:{node.port}" for node in self.nodes))

    def heal(self) -> None:
        """Start what is down, wake what is stopped, and wait until all nodes listen.

        Raises:
            RunError: they do not, in time.
        """
        end = time.monotonic() + READY_S
        for node in self.nodes:
            node.signal(signal.SIGCONT)
            node.start()
        while not all(node.answers() for node in self.nodes):
            for node in self.nodes:
                node.start()  # Again, where its port or its folder was still taken.
            if time.monotonic() > end:
                raise RunError("the three nodes of Apache Kafka did not all start; see node-*/kafka.log")
            time.sleep(0.2)
        try:
            wait_for_broker(self.settings, READY_S)
        except BusError as error:
            raise RunError(str(error)) from error


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """Three nodes that run; they end with the block."""
    made = Cluster(folder)
    try:
        made.heal()
        yield made
    finally:
        for node in made.nodes:
            node.stop()
