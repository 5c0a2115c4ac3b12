"""Logs of NCCL (NCCL_DEBUG=INFO) of all ranks, in one file or many, to what each rank says of itself.

Rule of this file: a line belongs to a thread; a thread that joins a communicator is a rank of it, and the largest one
is the job. What another thread of a process says holds for its one rank, for the one of that device, or, of versions
and variables, for all of them. Logs of two jobs, or of two attempts of one, are refused.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import IO, NamedTuple

from paceline import columns
from paceline.events import RANK_LIMIT, RankFact, RankFacts, Speakers, StepTimings
from paceline.timed_event import TimedEvent
from paceline.topics import OP
from paceline.utf8 import as_utf8

from .log_wrappers import pieces
from .nccl_log_lines import MOST_LINE, Channel, Init, Speaker, Told, Warned, bare_version, speech
from .notes import Notes, SourceError

#: Threads that are remembered, words of one fact of a thread, variables of one, and ranks that are named in a remark.
MOST_THREADS, _MOST_WORDS, _MOST_FACTS, _MOST_NAMED = 2**17, 8, 64, 8
#: Lines of a host whose name is another's with text before it, beyond which it is a host of its own.
_FEW_LINES = 2
#: So many ranks of one word show what NCCL's word is.
_MANY = 3
#: What NCCL's names have behind others of NCCL's: ``IBext_v8``.
_NAMED_SO = re.compile(r"ext(?:_v\d+)?|Tree|\d+(?:_v\d+)?|_v\d+", re.ASCII)
#: What a thread says for itself, and not for its process.
_OF_A_RANK = ("channels", "transport_between", "transport_inside", "gpu_direct")
#: What is said of ranks that agree, in this order.
_TOLD: dict[RankFact, str] = {
    "nccl_version": "NCCL {}",
    "cuda_driver": "CUDA driver {}",
    "network": "network {}",
    "net_plugin": "network plugin {}",
    "transport_inside": "{} inside nodes",
    "transport_between": "{} between them",
    "channels": "channels {}",
}


class _Process(NamedTuple):
    host: str
    pid: int


class _Thread:
    """What one thread has said."""

    def __init__(self) -> None:
        self.lines = 0
        self.words: dict[str, str] = {}
        self.between: set[str] = set()
        self.inside: set[str] = set()
        self.direct: set[bool] = set()
        #: By communicator's size: the rank in it, and the ids of communicators of that size.
        self.ranks: dict[int, int] = {}
        self.ids: dict[int, set[str]] = defaultdict(set)
        self.warned: Counter[str] = Counter()
        self._channels, self._size = "", 0

    def take(self, said: Init | Channel | Told | Warned) -> None:
        """One more line."""
        self.lines += 1
        if isinstance(said, Init):
            self._join(said)
        elif isinstance(said, Channel):
            for words, word in ((self.between, said.between), (self.inside, said.inside)):
                if word and len(words) < _MOST_WORDS:
                    words.add(word)
            if said.between:
                self.direct.add(said.direct)
        elif isinstance(said, Warned):
            if said.text in self.warned or len(self.warned) < _MOST_WORDS:
                self.warned[said.text] += 1
        elif said.fact == "channels":
            self._channels = said.word
        elif said.fact in self.words or len(self.words) < _MOST_FACTS:
            self.words[said.fact] = said.word

    def _join(self, init: Init) -> None:
        if not 0 <= init.rank < init.size <= RANK_LIMIT:
            return
        if len(self.ranks) < _MOST_WORDS or init.size in self.ranks:
            self.ranks[init.size] = init.rank
            if init.id and len(self.ids[init.size]) < _MOST_FACTS:
                self.ids[init.size].add(init.id)
        # Channels are told before the communicator is complete that has them: those of the largest count.
        if init.complete and self._channels:
            if init.size >= self._size:
                self.words["channels"], self._size = self._channels, init.size
            self._channels = ""

    def merge(self, other: "_Thread") -> None:
        """What the same thread has said under another name; what it said under its own counts more."""
        self.words = other.words | self.words
        self.between |= other.between
        self.inside |= other.inside
        self.direct |= other.direct
        self.warned += other.warned
        self._channels = self._channels or other._channels
        for size, rank in other.ranks.items():
            self.ranks.setdefault(size, rank)
            self.ids[size] |= other.ids[size]

    def facts(self) -> dict[str, str]:
        """Fact -> word."""
        words = dict(self.words)
        if self._channels:
            words.setdefault("channels", self._channels)
        if self.between:
            words["transport_between"] = "+".join(sorted(self.between))
            words["gpu_direct"] = "some" if len(self.direct) > 1 else "yes" if True in self.direct else "no"
        if self.inside:
            words["transport_inside"] = "+".join(sorted(self.inside))
        return words


class NcclLogs:
    """Takes in logs, then gives ``messages``."""

    def __init__(self, job: str, notes: Notes) -> None:
        self.job = job
        self.notes = notes
        self._threads: dict[Speaker, _Thread] = {}
        self._hosts: set[str] = set()
        self._bare: Counter[str] = Counter()
        self._modified_s = 0.0

    def read(self, stream: IO[bytes], modified_s: float) -> None:
        """Take in one log, written last at ``modified_s``."""
        self._modified_s = max(self._modified_s, modified_s)
        bare: Counter[str] = Counter()
        before = set(self._threads)
        heard: set[_Process] = set()
        text = as_utf8(stream)
        for raw in iter(lambda: text.readline(MOST_LINE), b""):
            if b"NCCL" not in raw and b"RCCL" not in raw:
                continue
            for piece in pieces(raw.decode("utf-8", "replace"), self._hosts):
                told = speech(piece.text)
                if told is None:
                    version = bare_version(piece.text)
                    if version is not None:
                        bare[version] += 1
                    continue
                speaker, said = told
                if piece.runs_on and isinstance(said, Told):
                    self.notes.drop("lines that another line runs into")
                    said = None
                heard.add(_Process(speaker.host, speaker.pid))
                self._take(speaker, said)
        if len(heard) == 1 and len(bare) == 1:  # A file of one process: its version is that one's.
            new = [speaker for speaker in self._threads if speaker not in before]
            for speaker in new[:1]:
                self._threads[speaker].words.setdefault("nccl_version", next(iter(bare)))
        self._bare += bare

    def _take(self, speaker: Speaker, said: Init | Channel | Told | Warned | None) -> None:
        thread = self._threads.get(speaker)
        if thread is None:
            if len(self._threads) >= MOST_THREADS:
                self.notes.drop(f"lines of more than {MOST_THREADS:,} threads")
                return
            thread = self._threads[speaker] = _Thread()
            self._hosts.add(speaker.host)
        if said is not None:
            thread.take(said)

    def messages(self) -> Iterator[TimedEvent]:
        """What the ranks say, a message a host.

        Raises:
            SourceError: no rank says anything, or they are of more than one job.
        """
        self._join_names()
        world, ranks = self._ranks()
        facts = self._facts(ranks)
        cut = plain_words(facts)
        if cut:
            self.notes.drop("words behind NCCL's own", cut)
        self._remark(world, facts)
        hosts: dict[str, list[int]] = defaultdict(list)
        for rank, speaker in sorted(ranks.items()):
            hosts[speaker.host].append(rank)
        for host, own in sorted(hosts.items()):
            yield TimedEvent(self._modified_s, OP, self._event(host, own, world, facts))

    def _join_names(self) -> None:
        """A line that begins right behind another's end has that end before its host's name: it is the host's."""
        same: dict[tuple[int, int, str], list[Speaker]] = defaultdict(list)
        for speaker in self._threads:
            same[speaker.pid, speaker.tid, speaker.device].append(speaker)
        for one in same.values():
            (whole, *longer) = sorted(one, key=lambda speaker: len(speaker.host))
            for speaker in longer:
                # A thread of its own says more.
                if speaker.host.endswith(whole.host) and self._threads[speaker].lines <= _FEW_LINES:
                    self._threads[whole].merge(self._threads.pop(speaker))

    def _ranks(self) -> tuple[int, dict[int, Speaker]]:
        """The size of the job, and the thread of each rank."""
        world = max((size for thread in self._threads.values() for size in thread.ranks), default=0)
        if not world:
            raise SourceError("no rank in it: NCCL writes them with NCCL_DEBUG=INFO, and NCCL_DEBUG_SUBSYS with INIT")
        ranks: dict[int, Speaker] = {}
        for speaker, thread in self._threads.items():
            rank = thread.ranks.get(world)
            if rank is None:
                continue
            other = ranks.setdefault(rank, speaker)
            if (other.host, other.pid) != (speaker.host, speaker.pid):
                raise SourceError(f"two processes are rank {rank}: these logs are of more than one job or attempt")
        if len(_components([self._threads[speaker].ids[world] for speaker in ranks.values()])) > 1:
            raise SourceError("ranks of different communicators: these logs are of more than one job or attempt")
        return world, ranks

    def _facts(self, ranks: dict[int, Speaker]) -> dict[int, dict[str, str]]:
        """Rank -> fact -> word."""
        of_process: dict[_Process, list[int]] = defaultdict(list)
        for rank, speaker in ranks.items():
            of_process[_Process(speaker.host, speaker.pid)].append(rank)
        threads = {speaker: rank for rank, speaker in ranks.items()}
        facts: dict[int, dict[str, str]] = {rank: {} for rank in ranks}
        for speaker, thread in self._threads.items():
            own = of_process.get(_Process(speaker.host, speaker.pid), [])
            if not own:
                self.notes.drop("threads of processes that name no rank of the job")
                continue
            for fact, word in thread.facts().items():
                for rank in _whose(speaker, fact, own, ranks, threads):
                    # What a rank's own thread says counts more than what another of its process does.
                    if speaker == ranks[rank] or fact not in facts[rank]:
                        facts[rank][fact] = word
            for rank in own[:1]:
                self._warnings(rank, thread)
        return facts

    def _warnings(self, rank: int, thread: _Thread) -> None:
        for text, count in thread.warned.items():
            times = f" ({count} times)" if count > 1 else ""
            if len(self.notes.remarks) < _MOST_NAMED:
                self.notes.remark(f"rank {rank} warns{times}: {text}")
            else:
                self.notes.drop("more warnings of NCCL", count)

    def _event(self, host: str, own: list[int], world: int, facts: dict[int, dict[str, str]]) -> StepTimings:
        names = sorted({fact for rank in own for fact in facts[rank]})
        return StepTimings(
            cluster="imported",
            producer=f"import-{self.job}-{host}",
            sequence=0,
            job=self.job,
            attempt=0,
            node=host,
            t0_s=self._modified_s,
            speakers=Speakers(
                ranks=columns.whole(own), world_sizes=columns.whole([world] * len(own)), devices=[""] * len(own)
            ),
            rank=columns.whole([]),
            step=columns.whole([]),
            start_s=columns.encoded("f8", []),
            step_s=columns.encoded("f8", []),
            phases={},
            facts=RankFacts(ranks=own, words={name: [facts[rank].get(name, "") for rank in own] for name in names}),
        )

    def _remark(self, world: int, facts: dict[int, dict[str, str]]) -> None:
        """What the ranks say, and who says something else."""
        agreed = []
        for fact, wording in _TOLD.items():
            words: dict[str, list[int]] = defaultdict(list)
            for rank, told in sorted(facts.items()):
                if fact in told:
                    words[told[fact]].append(rank)
            if len(words) == 1:
                agreed.append(wording.format(next(iter(words))))
            elif words:
                said = sorted(words.items(), key=lambda item: (-len(item[1]), item[0]))
                parts = (f"{word} ({_named(own)})" for word, own in said[:_MOST_NAMED])
                self.notes.remark(f"{fact} differs: {', '.join(parts)}")
        missing = f" of {world}" if len(facts) < world else ""
        self.notes.remark(f"{len(facts)}{missing} ranks: {', '.join(agreed) or 'nothing that all tell alike'}")
        if self._bare and not any("nccl_version" in told for told in facts.values()):
            self.notes.remark(f"NCCL {', '.join(sorted(self._bare)[:_MOST_NAMED])}, in lines that name no process")
        self._remark_sockets(facts)

    def _remark_sockets(self, facts: dict[int, dict[str, str]]) -> None:
        """Who talks between nodes by sockets: slow, and mostly not meant."""
        slow = [rank for rank, told in sorted(facts.items()) if "NET/Socket" in told.get("transport_between", "")]
        if slow:
            self.notes.remark(f"fell back to sockets between nodes: {_named(slow)}")


def _whose(
    speaker: Speaker, fact: str, own: list[int], ranks: dict[int, Speaker], threads: dict[Speaker, int]
) -> list[int]:
    """The ranks of a process that a thread's fact holds for."""
    if speaker in threads:
        return [threads[speaker]]
    if len(own) == 1:
        return own
    if fact in _OF_A_RANK:
        same = [rank for rank in own if ranks[rank].device == speaker.device]
        return same if len(same) == 1 else []
    return own


def plain_words(facts: dict[int, dict[str, str]]) -> int:
    """Take off, in place, what one rank alone has behind the word that most others have; how often.

    Another program's text can stand right behind NCCL's. A number that goes on is another number, a list that goes on
    another list, and NCCL's own names are names: these stay.

    >>> told = {0: {"network": "IB"}, 1: {"network": "IB"}, 2: {"network": "IB"}, 3: {"network": "IB|45%"}}
    >>> plain_words(told), told[3]
    (1, {'network': 'IB'})
    """
    cut = 0
    for fact in {fact for told in facts.values() for fact in told}:
        counts = Counter(told[fact] for told in facts.values() if fact in told)
        (word, times), *_ = counts.most_common(1)
        if times < _MANY or not word:
            continue
        for told in facts.values():
            own = told.get(fact, "")
            if counts[own] == 1 and own.startswith(word) and _is_foreign(word, own[len(word) :]):
                told[fact] = word
                cut += 1
    return cut


def _is_foreign(word: str, rest: str) -> bool:
    if not rest or rest[0] in ",;:+/-_.^=" or _NAMED_SO.fullmatch(rest):
        return False
    return not (word[-1].isdigit() and rest[0].isdigit())


def _components(ids: list[set[str]]) -> list[set[str]]:
    """Sets that share a member, joined; ranks that know no id are of any."""
    joined: list[set[str]] = []
    for own in ids:
        if own:
            touching = [one for one in joined if one & own]
            joined = [one for one in joined if not one & own] + [own.union(*touching)]
    return joined


def _named(ranks: list[int]) -> str:
    shown = ", ".join(map(str, ranks[:_MOST_NAMED])) + (", …" if len(ranks) > _MOST_NAMED else "")
    return f"{len(ranks)} ranks: {shown}" if len(ranks) > 1 else f"rank {ranks[0]}"
