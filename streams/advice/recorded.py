"""The advice of all clusters that a recording speaks of: what ``paceline analyze`` prints in place of findings.

Rule of this file: pure and bounded; it only hands each event to its cluster's advice.
"""

from paceline.events import Event
from paceline.events.suggestions import Suggestion

from .advice import Advice
from .config import AdviceConfig

#: Clusters of one recording that get advice.
MOST_CLUSTERS = 64


class RecordedAdvice:
    """By cluster, made when its first event comes. ``newest``: each suggestion as it was reported last."""

    def __init__(self, config: AdviceConfig | None = None) -> None:
        self.config = config
        self.clusters: dict[str, Advice] = {}
        self.newest: dict[str, Suggestion] = {}

    def update(self, event: Event) -> list[Suggestion]:
        """Take in one event; the suggestions that are new, or have something new to tell."""
        cluster = getattr(event, "cluster", "")
        if cluster not in self.clusters:
            if len(self.clusters) >= MOST_CLUSTERS:
                return []
            self.clusters[cluster] = Advice(self.config)
        return self._keep(self.clusters[cluster].update(event))

    def conclude(self) -> list[Suggestion]:
        """What is said at the end of all events."""
        return self._keep([one for advice in self.clusters.values() for one in advice.conclude()])

    def _keep(self, said: list[Suggestion]) -> list[Suggestion]:
        self.newest.update({one.id: one for one in said})
        return said
