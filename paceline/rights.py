"""Who may do what on the brokers: the least that each service needs, by the topic table.

Rule of this file: data, and what follows from it; pure. `paceline rights` writes it as a script or gives it to the
brokers, and docs/deploy.md shows it; none repeats it.
"""

from collections.abc import Mapping
from typing import NamedTuple

from paceline.topics import (
    AUDIT,
    BALANCE,
    CAPTURE,
    COLLECTIVE,
    COMMAND,
    DEADLETTER,
    DEVICE,
    FINDING,
    FORECAST,
    HOST,
    JOB,
    NODE,
    OP,
    PLAN,
    PROFILE,
    SESSION,
    STREAMS_GROUP,
    SUGGESTION,
    THRESHOLD,
    TOPICS,
    WINDOW,
    Topic,
)

#: Files on their way, and what cannot be decoded, are not archived.
NOT_ARCHIVED = (CAPTURE, DEADLETTER)


class Service(NamedTuple):
    """What a service reads and writes; ``group`` is its consumer group, and prefix of the topics that are its own."""

    about: str
    reads: tuple[Topic, ...]
    writes: tuple[Topic, ...]
    group: str = ""

    @property
    def uses(self) -> frozenset[Topic]:
        """All topics that it reads or writes."""
        return frozenset((*self.reads, *self.writes))


class Rule(NamedTuple):
    """``operations`` that ``principal`` is allowed on a resource; of all whose names begin so where ``prefixed``."""

    principal: str
    resource: str
    name: str
    operations: tuple[str, ...]
    prefixed: bool = False


SERVICES: Mapping[str, Service] = {
    "collectors": Service("`paceline collect` on every node", (COMMAND,), (DEVICE, HOST, NODE, AUDIT)),
    "training": Service(
        "training jobs, with `paceline run` or their own sidecars",
        (COMMAND, PLAN),
        (OP, COLLECTIVE, JOB, BALANCE, PLAN, CAPTURE, AUDIT),
    ),
    "streams": Service(
        "`paceline streams`",
        (OP, COLLECTIVE, DEVICE, HOST, NODE, JOB, THRESHOLD, PROFILE, FORECAST, COMMAND, BALANCE),
        (WINDOW, FINDING, SUGGESTION, PLAN, COMMAND, AUDIT, DEADLETTER),
        STREAMS_GROUP,
    ),
    "forecaster": Service("`paceline forecaster`", (JOB, WINDOW, DEVICE), (FORECAST, PROFILE)),
    "control": Service(
        "`paceline control` and the sessions that it records", TOPICS, (SESSION, COMMAND, THRESHOLD, PLAN, AUDIT)
    ),
    "archive": Service("`paceline archive`", tuple(topic for topic in TOPICS if topic not in NOT_ARCHIVED), ()),
    "page": Service(
        "`paceline ui`, which asks control for every change",
        (
            JOB,
            WINDOW,
            FINDING,
            PROFILE,
            FORECAST,
            SUGGESTION,
            PLAN,
            AUDIT,
            DEADLETTER,
            OP,
            BALANCE,
            DEVICE,
            HOST,
        ),
        (),
    ),
    "alerts": Service("`paceline alerts`", (JOB, FINDING, SUGGESTION), ()),
    "annotator": Service("`paceline annotate`", (DEVICE, NODE, JOB, FINDING, PROFILE), ()),
    "people": Service(
        "terminals: `top`, `tail`, `record`, `suggestions`, `ask`, `thresholds`", TOPICS, (COMMAND, THRESHOLD)
    ),
}


def default_principals() -> dict[str, str]:
    """Each service as a user of its own.

    >>> default_principals()["page"]
    'User:paceline-page'
    """
    return {name: f"User:paceline-{name}" for name in SERVICES}


def rules(name: str, principal: str) -> list[Rule]:
    """What the service ``name`` is allowed, as ``principal``.

    >>> [rule.name for rule in rules("alerts", "User:bell")]
    ['paceline.job.v1', 'paceline.finding.v1', 'paceline.suggestion.v1']
    """
    service = SERVICES[name]
    made = []
    for topic in TOPICS:
        asked = [word for word, held in (("Read", service.reads), ("Write", service.writes)) if topic in held]
        if asked:
            made.append(Rule(principal, "topic", topic.name, ("Describe", *asked)))
    if service.group:
        made.append(Rule(principal, "topic", f"{service.group}-", ("All",), prefixed=True))
        made.append(Rule(principal, "group", service.group, ("Describe", "Read")))
    return made
