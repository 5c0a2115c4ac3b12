"""Workers as their users start them, on a real broker: what is sent to them, and what they publish, log and measure."""

import base64
import contextlib
import json
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

from paceline import topics, wire
from paceline.events import Command
from paceline.kafka import clients
from paceline.kafka.settings import BrokerSettings
from streams.processor import Processor
from tests.patience import PATIENCE_S


class Workers:
    """Starts workers as their users do, and reads what they publish."""

    def __init__(self, settings: BrokerSettings, until: Callable[..., None], log_path) -> None:
        self.settings = settings
        self.until = until
        self.processes: list[subprocess.Popen[bytes]] = []
        self.log = log_path.open("ab")
        told = (topics.FINDING, topics.SUGGESTION, topics.PLAN, topics.AUDIT, topics.DEADLETTER)
        self.reader = clients.consumer(settings, *told, from_beginning=True)
        self.seen: list[tuple[str, dict[str, object]]] = []

    def start(self, *options: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "streams", "--brokers", self.settings.address, *options]
        self.processes.append(subprocess.Popen(command, stdout=self.log, stderr=self.log))
        return self.processes[-1]

    def produce(self, events, topic=None) -> None:
        producer = clients.producer(self.settings, "test")
        for event in events:
            producer.send((topic or topics.OP).name, key=event.job.encode(), value=wire.encode(event))
        producer.flush()
        producer.close()

    def produce_raw(self, topic, key, value) -> None:
        producer = clients.producer(self.settings, "test")
        producer.send(topic.name, key=key, value=value).get(PATIENCE_S)
        producer.close()

    def read(self) -> None:
        for records in self.reader.poll(timeout_ms=200).values():
            for record in records:
                with contextlib.suppress(ValueError):  # Other tests send nonsense to the same brokers.
                    value = json.loads(record.value)
                    if isinstance(value, dict):
                        self.seen.append((record.topic, value))

    def findings(self, *jobs: str) -> list[dict[str, object]]:
        """What was published on ``jobs``, in order, repetitions included."""
        self.read()
        return [value for topic, value in self.seen if topic == topics.FINDING.name and value.get("job") in jobs]

    def suggestions(self, cluster: str) -> list[dict[str, object]]:
        """What was suggested to a cluster, in order, repetitions included."""
        self.read()
        return [
            value for topic, value in self.seen if topic == topics.SUGGESTION.name and value.get("cluster") == cluster
        ]

    def plans(self, job: str) -> list[dict[str, object]]:
        """What was proposed to a job's balancer, in order, repetitions included."""
        self.read()
        return [value for topic, value in self.seen if topic == topics.PLAN.name and value.get("job") == job]

    def answers(self, command: Command) -> list[dict[str, object]]:
        """What came of a command."""
        self.read()
        return [v for topic, v in self.seen if topic == topics.AUDIT.name and v.get("command_id") == command.id]

    def ask(self, cluster: str, suggestion: str, action: str, **fields: object) -> Command:
        """A command for a suggestion, sent."""
        expires_s = time.time() + 600.0
        asked = {
            "target": f"suggestion:{suggestion}",
            "action": action,
            "expires_s": expires_s,
            "issuer": "ada",
            **fields,
        }
        command = Command(id=uuid.uuid4().hex, cluster=cluster, **asked)
        self.produce_raw(topics.COMMAND, command.target.encode(), wire.encode(command))
        return command

    def dead_letters(self) -> list[dict[str, object]]:
        self.read()
        return [value for topic, value in self.seen if topic == topics.DEADLETTER.name]

    def put_aside(self) -> list[bytes]:
        """The first bytes of what went to the dead letters."""
        return [base64.b64decode(letter["excerpt"]) for letter in self.dead_letters()]

    def said(self) -> str:
        """What the workers logged."""
        return Path(self.log.name).read_text(errors="replace")

    def end(self) -> None:
        self.reader.close()
        for process in self.processes:
            process.terminate()
            process.wait()
        self.log.close()


def expected(events) -> list[dict[str, object]]:
    """The findings of an uninterrupted run of the same code, in process."""
    processor = Processor()
    answers = [answer for event in events for answer in processor.update(topics.OP, event)]
    return [json.loads(wire.encode(finding)) for topic, finding in answers if topic == topics.FINDING]


def upserted(findings) -> list[dict[str, object]]:
    """What a consumer holds that upserts by id and revision; repetitions must say the same."""
    kept: dict[tuple[object, object], dict[str, object]] = {}
    for finding in findings:
        key = (finding["id"], finding["revision"])
        assert kept.setdefault(key, finding) == finding, "a repeated revision says something else"
    return list(kept.values())


def metric(port: int, name: str, unsaid: float = 0.0) -> float:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_S) as answer:
        lines = answer.read().decode().splitlines()
    return next((float(line.split()[-1]) for line in lines if line.startswith(name)), unsaid)


def ready(port: int) -> bool:
    return readiness(port) == "ready\n"


def readiness(port: int) -> str:
    """What the worker says of itself; nothing while nobody answers."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=PATIENCE_S) as answer:
            return answer.read().decode()
    except HTTPError as error:
        with error:
            return error.read().decode()
    except OSError:
        return ""
