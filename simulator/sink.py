"""Where simulated messages go: into a recording, or onto the bus at a pace; and how what fails there is told.

Rule of this file: a door. Messages leave in the order in which they come.
"""

import contextlib
import os
from collections.abc import Callable, Iterator

from paceline import wire
from paceline.kafka.errors import BusError
from paceline.kafka.outbound import Outbound
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.topic_admin import ensure_topics
from paceline.pace import Pace
from paceline.recording import RecordingError, Writer
from paceline.terminal import say
from paceline.timed_event import TimedEvent

Sink = Callable[[TimedEvent], None]


@contextlib.contextmanager
def recorded(path: str) -> Iterator[Sink]:
    """Into the recording at ``path``.

    Raises:
        RecordingError: it cannot be written.
    """
    with contextlib.closing(Writer(path)) as writer:
        yield writer.write_event


@contextlib.contextmanager
def published(brokers: str | None, speed: float, first_s: float) -> Iterator[Sink]:
    """To ``brokers``, ``speed`` times as fast as time passes (0: as fast as possible); time begins at ``first_s``.

    Raises:
        BusError: they are away, or took not every message.
    """
    settings = BrokerSettings.from_environ(os.environ, brokers)
    ensure_topics(settings)
    with Outbound(settings, "paceline-simulate") as outbound:
        pace = Pace(speed, first_s)

        def send(message: TimedEvent) -> None:
            outbound.wait_until(pace.due(message.time_s))
            key = (wire.key_of(message.topic, message.event) or "").encode()
            outbound.send(message.topic.name, key, wire.encode(message.event))

        yield send
    if outbound.refused:
        raise BusError(settings.address, f"{outbound.refused} messages were not taken", "run `paceline doctor`")


def exit_status(simulate: Callable[[], None], place: str) -> int:
    """Run ``simulate``, tell what stops it in one line, and give the exit status: 2 for what was asked, 1 for the rest.

    ``place`` is named where an error of the operating system names no file.
    """
    try:
        simulate()
    except (ValueError, RecordingError) as error:
        say(str(error))
        return 2
    except BusError as error:
        say(str(error))
        return 1
    except OSError as error:
        say(f"{error.filename or place}: {error.strerror or error}")
        return 1
    return 0
