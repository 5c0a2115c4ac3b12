"""What a run was set up with: versions, sizes, nodes, thresholds, plans; and in what two runs differ.

Rule of this file: pure and bounded. A fact is one word; where those who tell it disagree it is all their words.
"""

from collections.abc import Iterable
from typing import NamedTuple

from paceline.events import BalancePlan, JobDescribed, NodeDescribed, RankFacts, Thresholds

MOST_FACTS, MOST_WORDS, LONGEST = 400, 64, 200
#: Labels that name this very run: they always differ, and explain nothing.
_NAMES = ("job_id", "jobid", "pod", "uid", "run_id", "kubernetes_pod")


class FactDifference(NamedTuple):
    """A fact of both runs, "" where it was not told."""

    name: str
    first: str
    second: str


class RunFacts:
    """The facts of one run."""

    def __init__(self) -> None:
        self._words: dict[str, dict[str, None]] = {}
        self._nodes: dict[str, None] = {}
        self._inventory: dict[str, NodeDescribed] = {}

    def describe(self, event: JobDescribed) -> None:
        """What a node says of the job."""
        self._nodes[event.node] = None
        self._tell("ranks", str(event.world_size))
        self._tell("backend", event.backend)
        self._tell("framework", event.framework)
        if event.batch_size is not None:
            self._tell("batch size a rank", str(event.batch_size))
        for name, word in event.labels.items():
            if not name.lower().endswith(_NAMES):
                self._tell(f"label {name}", word)

    def tell_ranks(self, facts: RankFacts) -> None:
        """What ranks say of themselves."""
        for name, words in facts.words.items():
            for word in words[:4096]:
                if word:
                    self._tell(name.replace("_", " ") if name.islower() else name, word)

    def set_thresholds(self, event: Thresholds) -> None:
        """Thresholds changed for it."""
        for name, value in event.values.items():
            self._words[f"threshold {name}"[:LONGEST]] = {f"{value:g}": None}

    def plan(self, event: BalancePlan) -> None:
        """How its batches are shared out: the last plan that holds."""
        self._words["plan"] = {f"version {event.version} by {event.made_by}, {event.mode}": None}

    def describe_node(self, event: NodeDescribed) -> None:
        """A node, which may have to do with the run, or not."""
        if len(self._inventory) < 20_000:
            self._inventory[event.node] = event

    def words(self) -> dict[str, str]:
        """Every fact in a word."""
        told = {name: dict(words) for name, words in self._words.items()}
        for node in self._nodes:
            inventory = self._inventory.get(node)
            for name, word in _of_node(inventory) if inventory is not None else ():
                told.setdefault(name, {})[word] = None
        facts = {name: ", ".join(sorted(words)) for name, words in told.items()}
        if self._nodes:
            facts["nodes"] = f"{len(self._nodes)}: {', '.join(sorted(self._nodes)[:8])}"
        return facts

    def _tell(self, name: str, word: str) -> None:
        if not word or (name not in self._words and len(self._words) >= MOST_FACTS):
            return
        words = self._words.setdefault(name[:LONGEST], {})
        if len(words) < MOST_WORDS:
            words[word[:LONGEST]] = None


def _of_node(node: NodeDescribed) -> Iterable[tuple[str, str]]:
    versions = {f"{name} version": word for name, word in node.versions.items()}
    told = {"kernel": node.kernel, "CPU": node.cpu_model, "driver": node.driver, "CUDA": node.cuda} | versions
    models = sorted({one.name for one in node.devices})
    yield from ((name, word) for name, word in told.items() if word)
    yield from (("device model", model) for model in models)


def differences(first: RunFacts, second: RunFacts) -> list[FactDifference]:
    """Facts that are not the same, by name."""
    one, other = first.words(), second.words()
    names = sorted(one.keys() | other.keys())
    return [
        FactDifference(name, one.get(name, ""), other.get(name, ""))
        for name in names
        if one.get(name, "") != other.get(name, "")
    ]
