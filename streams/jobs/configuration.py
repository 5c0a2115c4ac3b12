"""Are the ranks of a job set up alike: versions, transports, variables, as words that each rank tells of itself.

Rule of this file: pure and bounded. A fact is compared where all ranks should say the same; what belongs to a node or
its board may differ. Who differs from a clear majority is named; without one nobody is. A word is no noise: it is told
at once, a later word of a rank replaces its earlier one, and when all say the same it is over.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from paceline.events import Evidence, RankFacts

from ..episodes.finding import Said, Subject, number
from ..episodes.tracker import Episode, Measured, Tracker
from ..stored import Kept, Stored

#: A job has one configuration.
_JOB = "configuration"
#: Facts of a job that are kept, and different words of a fact: more are somebody's mistake.
MOST_FACTS, MOST_WORDS = 128, 64
#: Ranks that are named, of each fact, and facts.
_MOST_NAMED, _MOST_TOLD = 8, 8
_SURE = 0.99

#: What all ranks of a job should say alike, and why; a variable of NCCL's too, but for those of ``_OF_A_NODE``.
COMPARED: dict[str, str] = {
    "nccl_version": "ranks of different versions may not understand each other, and choose different algorithms",
    "pytorch_version": "another PyTorch uses other kernels at other speeds, and may communicate differently",
    "cuda_version": "another CUDA has other libraries, which choose other kernels",
    "driver_version": "another driver has other features; a difference is rarely intended",
    "cuda_driver": "another driver has other features; a difference is rarely intended",
    "network": "all ranks run at the speed of the slowest network: one that fell back to sockets slows all",
    "net_plugin": "a node without the plugin of its peers uses NCCL's own network",
    "transport_between": "the same, from the connections",
    "channels": "a collective has as many channels as its rank with the fewest",
}
_VARIABLE = "NCCL_"
#: Variables that name what each node has of its own: interfaces, adapters, files, addresses, places.
_OF_A_NODE = ("IFNAME", "_HCA", "_FILE", "_PATH", "HOSTID", "COMM_ID", "_CUDA_DEVICE", "_DEBUG", "_GID_INDEX", "_RANK")


class Odd(msgspec.Struct, frozen=True):
    """A fact that is reported in several words: how many ranks say the commonest ``word``, and what ``others`` say.

    ``clear``: so many say it that the others are those who differ.
    """

    fact: str
    word: str
    count: int
    clear: bool
    #: (rank, its word), of ranks that say something else; ``differing`` counts all of them.
    others: tuple[tuple[int, str], ...]
    differing: int


class ConfigurationEvidence(Measured, frozen=True, kw_only=True):
    """What differs, and the ranks in the minority where there is a clear majority."""

    odd: tuple[Odd, ...]
    ranks: tuple[int, ...]


ConfigurationEpisode = Episode[str, ConfigurationEvidence]


class _Words(Stored):
    """What the ranks of a job say of one fact: ``of`` each rank, and how many say each word."""

    of: Kept[dict[int, str]]

    def __init__(self) -> None:
        self.of = {}
        self.counts: Counter[str] = Counter()

    def loaded(self) -> None:
        """Count the words again."""
        self.counts = Counter(self.of.values())

    def put(self, rank: int, word: str) -> bool:
        """``rank`` says ``word`` now; whether that is news."""
        before = self.of.get(rank)
        if word == before or (word not in self.counts and len(self.counts) >= MOST_WORDS):
            return False
        if before is not None:
            self.counts[before] -= 1
            self.counts += Counter()  # Forgets what nobody says any more.
        self.of[rank] = word
        self.counts[word] += 1
        return True

    def others(self, word: str) -> list[int]:
        """The ranks that say something else."""
        return sorted(rank for rank, own in self.of.items() if own != word)


def compared(fact: str) -> bool:
    """Whether ranks should say the same of ``fact``.

    >>> compared("nccl_version"), compared("NCCL_ALGO"), compared("NCCL_SOCKET_IFNAME"), compared("transport_inside")
    (True, True, False, False)
    """
    if fact.startswith(_VARIABLE):
        return not any(part in fact for part in _OF_A_NODE)
    return fact in COMPARED


class Configuration(Stored):
    """What the ranks of one job say of themselves."""

    words: Kept[dict[str, _Words]]
    begun: Kept[int]
    tracker: Kept[Tracker[Any, Any]]

    def __init__(self) -> None:
        self.words = {}
        self.begun = 0
        self.tracker = Tracker(ConfigurationEpisode)

    def update(self, facts: RankFacts) -> ConfigurationEpisode | None:
        """Take in what some ranks say; the episode where it has something new to tell."""
        news = False
        for fact, told in facts.words.items():
            if compared(fact):
                news |= self._keep(fact, facts.ranks, told)
        return self._judge() if news else None

    def _keep(self, fact: str, ranks: list[int], told: list[str]) -> bool:
        if fact not in self.words and len(self.words) >= MOST_FACTS:
            return False
        words = self.words.setdefault(fact, _Words())
        news = [words.put(rank, word) for rank, word in zip(ranks, told, strict=True) if word]
        return any(news)

    def _judge(self) -> ConfigurationEpisode | None:
        seen = self._evidence()
        episode = self.tracker.get(_JOB)
        if episode is None:
            if not seen.odd:
                return None
            episode = self.tracker.begin(_JOB, self.begun, "configuration")
            self.begun += 1
        if not seen.odd:
            return self.tracker.revise(_JOB, "calm", 0.0)
        news, episode.evidence = episode.evidence not in (None, seen), seen
        return self.tracker.revise(_JOB, "persistent", 0.0, news=news)

    def _evidence(self) -> ConfigurationEvidence:
        odd = [_odd(fact, words) for fact, words in sorted(self.words.items()) if len(words.counts) > 1]
        accused = {rank for one in odd if one.clear for rank in self.words[one.fact].others(one.word)}
        return ConfigurationEvidence(odd=tuple(odd), ranks=tuple(sorted(accused)))


def _odd(fact: str, words: _Words) -> Odd:
    """What is odd about a fact that is told in several words."""
    word, count = min(words.counts.items(), key=lambda item: (-item[1], item[0]))
    # Of two that differ, neither is the odd one out; of three, one may be.
    clear = 3 * count >= 2 * len(words.of) and len(words.of) > 2
    others = words.others(word)
    named = tuple((rank, words.of[rank]) for rank in others[:_MOST_NAMED])
    return Odd(fact, word, count, clear, named, len(others))


def said(episode: ConfigurationEpisode, nodes: Mapping[int, str]) -> Said:
    """What is said of ranks that are set up differently; ``nodes``: the node of each rank."""
    seen = episode.measured
    evidence = [one for odd in seen.odd[:_MOST_TOLD] for one in _numbers(odd)]
    # Without nodes: a finding that has some, and no steps, is one of a node's samples.
    subject = Subject("configuration_mismatch", _JOB, ranks=seen.ranks, has_steps=False)
    more = len(seen.odd) - _MOST_TOLD
    summary = (
        "Ranks are set up differently: "
        + "; ".join(_sentence(odd, nodes) for odd in seen.odd[:_MOST_TOLD])
        + (f"; and {more} more facts" if more > 0 else "")
        + ". Set the same versions and variables on every node, and restart the job; no device is to blame."
    )
    cleared = ("every device: ranks are set up differently, which is no fault of the hardware",)
    over = "All ranks report the same versions, transports and variables again."
    return Said(subject, evidence, summary, cleared, over=over, severity="warning", confidence=_SURE)


def _sentence(odd: Odd, nodes: Mapping[int, str]) -> str:
    if not odd.clear:
        words = sorted({odd.word, *(word for _, word in odd.others)})
        return f"ranks differ in {odd.fact}: {' or '.join(words[:_MOST_NAMED])}, and none is the rule"
    on = {rank: f" on {nodes[rank]}" for rank, _ in odd.others if nodes.get(rank)}
    named = ", ".join(f"rank {rank}{on.get(rank, '')} has {word}" for rank, word in odd.others)
    more = odd.differing - len(odd.others)
    named += f" and {more} more differ" if more else ""
    return f"{odd.fact}: {named}, where {odd.count} ranks have {odd.word}"


def _numbers(odd: Odd) -> Iterator[Evidence]:
    """How many say each rank's word, beside how many say the commonest; the words stand in the rule."""
    same = Counter(word for _, word in odd.others)
    why = COMPARED.get(odd.fact, "a variable of NCCL's that every rank should have alike")
    for rank, word in odd.others:
        rule = f"{word}, where {odd.count} ranks have {odd.word}: {why}"
        yield msgspec.structs.replace(number(odd.fact, same[word], "ranks", odd.count, rule), rank=rank)
