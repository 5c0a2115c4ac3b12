"""A decision in the place of the advice, small enough to know what it says: it stands in tests of what carries it."""

from typing import Any

import msgspec

from paceline.events import Command, Finding, Suggestion
from streams.stored import Kept, StoredDecision

BLANK = {"action": "cordon_node", "target": "node:n1", "severity": "warning", "title": "t", "reason": "r"}
MADE_S, EXPIRES_S = 1_700_000_000.0, 1_700_086_400.0


class OneAFinding(StoredDecision):
    """Suggests something for each finding, once; what is new may be accepted or dismissed."""

    made: Kept[dict[str, Suggestion]]

    def __init__(self, config: Any = None) -> None:
        self.made = {}

    def update(self, event: Any) -> list[Suggestion]:
        if isinstance(event, Finding) and f"s-{event.id}" not in self.made:
            return [self._keep(suggestion(event.id, cluster=event.cluster, job=event.job))]
        if isinstance(event, Command):
            held = self.made.get(event.target.partition(":")[2])
            if held is not None and held.state == "new":
                state = {"accept": "accepted", "dismiss": "dismissed"}[event.action]
                because = str(event.arguments.get("because", ""))
                return [self._keep(msgspec.structs.replace(held, state=state, revision=2, because=because))]
        return []

    def _keep(self, made: Suggestion) -> Suggestion:
        self.made[made.id] = made
        return made

    def conclude(self) -> list[Suggestion]:
        return []


def suggestion(finding: str, cluster: str = "c", **fields: Any) -> Suggestion:
    """What ``OneAFinding`` suggests for the finding of that id."""
    times = {"created_s": MADE_S, "updated_s": MADE_S, "expires_s": EXPIRES_S}
    said = {"id": f"s-{finding}", "revision": 1, "cluster": cluster, "state": "new", "findings": [finding]}
    return Suggestion(**{**BLANK, **times, **said, **fields})
