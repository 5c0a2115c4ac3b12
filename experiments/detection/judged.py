"""One job through every rule: Paceline's processor as it runs on the bus, and the others on the same rows.

Rule of this file: events in, accusations out, by the rule's name; it knows nothing of what is true.
"""

from collections.abc import Callable, Iterable

from experiments.detection.phases import Phases, Tables
from experiments.detection.rules import dlrover, last, nvrx, traceml
from experiments.detection.verdict import Accusation
from paceline.events import Event, Finding
from paceline.topics import Topic
from streams.processor import Processor
from streams.routes import ROUTES

PACELINE = "Paceline"
Rule = Callable[[Tables, Phases], list[Accusation]]
OTHERS: dict[str, Rule] = {rule.NAME: rule.judge for rule in (nvrx, traceml, dlrover, last)}
RULES = (PACELINE, *OTHERS)
#: What makes findings; windows are left out, which nothing here looks at and which take their time.
FINDERS = {
    name: tuple(kind for kind in kinds if not kind.__name__.endswith("Windows")) for name, kinds in ROUTES.items()
}


def judge(messages: Iterable[tuple[float, Topic, Event]], *, others: bool = True) -> dict[str, list[Accusation]]:
    """What every rule says of the messages, each with the time at which it was sent."""
    processor, phases = Processor(FINDERS), Phases()
    found: list[Accusation] = []
    for time_s, topic, event in messages:
        if topic.name in FINDERS:
            for _, answer in processor.update(topic, event):
                if isinstance(answer, Finding):
                    found.append(_accusation(answer, time_s))
        if others:
            phases.update(event)
    found += [_accusation(answer, time_s) for _, answer in processor.finish() if isinstance(answer, Finding)]
    said = {PACELINE: found}
    if others:
        tables = phases.tables()
        said |= {name: rule(tables, phases) for name, rule in OTHERS.items()}
    return said


def _accusation(finding: Finding, time_s: float) -> Accusation:
    ranks = frozenset(finding.ranks)
    return Accusation(
        ranks, finding.state, finding.kind, finding.cause, finding.first_step, finding.last_step, time_s, finding.id
    )
