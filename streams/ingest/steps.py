"""Rows of many ranks, in any batching, to whole steps in order.

Rule of this file: a step is handed on once, in step order, when every rank that speaks has closed it. That depends on
what the rows say and never on how they were batched or when they came, so a replay hands on the same steps. A rank that
falls silent is waited for once, and not with each step again.

Ranks whose probes keep to a budget report one step in so many, not all of them the same number. A step that any of
them left out on purpose is not whole: its sums are of other ranks than those of the steps around it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from paceline.events import OPS

from ..limits import ABSURD_S
from ..raw_columns import Floats, Ints
from ..robust import Array, known_or_zero
from ..runs import distinct
from ..stored import Kept, Stored
from .coverage import CoverageTracker
from .microbatches import OpenMicrobatches, Pairs
from .step_rows import TOTAL, MicrobatchRows, StepRows

_IMPOSSIBLE = "rows with an impossible step or duration"
#: A rank this few steps behind is on its way though they last longer than the patience, up to ``FEW_S`` together; and
#: one that is behind by so few that a message more makes up for it, however long they last.
FEW_STEPS, FEW_S = 20, 60.0
MESSAGE_STEPS = 2
#: By how much one step of a rank moves the job on, at most, while it is counted how long others are silent.
_MOST_PUSH_S = 10.0
#: New steps times ranks that are tabulated in one pass: more share no cost worth their memory.
_MOST_CELLS = 4096
#: In place of a step: an op that a rank has not reported yet.
NEVER = 2**63 - 1


@dataclass(frozen=True)
class StepsConfig:
    """How long ranks that speak wait for one that does not, on their own clock, and the most steps kept meanwhile.

    Most ranks are waited for longer than one: what they could not send, they send together when they can again.
    """

    patience_s: float = 10.0
    most_patience_s: float = 300.0
    pending_steps: int = 8192


class Step(NamedTuple):
    """One step of the whole job: ``seconds`` has shape (len(OPS), ranks), NaN columns for ranks not heard in it.

    ``starts_s`` is when each rank began it, by its node's clock; ``pairs`` are its micro-batches, where there are any.
    ``whole``: no rank left it out on purpose. Since the whole step before it, no rank reported ``skipped`` steps, and
    ``left_out`` were left out by some or all on purpose; ``by_all`` of them, the last ones, by all.
    """

    step: int
    seconds: Array
    starts_s: Array
    pairs: Pairs | None = None
    skipped: int = 0
    left_out: int = 0
    whole: bool = True
    by_all: int = 0

    @property
    def ends_s(self) -> Array:
        """When each rank closed it."""
        ends_s: Array = self.starts_s + self.seconds[TOTAL]
        return ends_s


class Steps(Stored):
    """Collects the rows of one job into steps."""

    ranks: Kept[int]
    tables: Kept[dict[int, Array]]
    starts: Kept[dict[int, Array]]
    pairs: Kept[OpenMicrobatches]
    closed: Kept[Ints]
    passed: Kept[Ints]
    until: Kept[Ints]
    silent: Kept[NDArray[np.bool_]]
    furthest: Kept[Ints]
    gaps: Kept[dict[int, Ints]]
    skipped: Kept[int]
    left_out: Kept[int]
    first_told: Kept[Ints]
    first_s: Kept[Array]
    last_s: Kept[Array]
    done: Kept[int]
    waited_for: Kept[bool]

    def __init__(self, config: StepsConfig, coverage: CoverageTracker) -> None:
        self.config = config
        self.coverage = coverage
        self.ranks = 0
        self.tables = {}
        self.starts = {}
        self.pairs = OpenMicrobatches()
        self.closed = np.empty(0, dtype=np.int64)  # per rank: last step it closed, -1 before the first
        self.passed = np.empty(0, dtype=np.int64)  # per rank: the last step of those that it leaves out right after it
        self.until = np.empty(0, dtype=np.int64)  # per rank: the same, of the steps that are done
        #: Per rank: whether it is waited for no longer, until it reports again.
        self.silent = np.empty(0, dtype=np.bool_)
        #: Per rank: the last step that any rank had passed when it last reported.
        self.furthest = np.empty(0, dtype=np.int64)
        #: How many steps each rank leaves out right after a step, where any does.
        self.gaps = {}
        #: Before the next step that is handed on: steps that no rank told, and that were left out.
        self.skipped = self.left_out = 0
        #: By op and rank: the first step in which it was reported.
        self.first_told = np.empty((len(OPS), 0), dtype=np.int64)
        self.first_s = np.empty(0)  # per rank: start of its first row, on its own clock
        self.last_s = np.empty(0)
        self.done = -1
        self.waited_for = False
        #: How many steps were open when it was last asked who has been silent for long.
        self._looked = 0
        #: What was odd, and how often, since it was last asked for.
        self._odd: dict[str, int] = {}

    def take_notes(self) -> dict[str, int]:
        """What was odd about the rows, and how often, since the last call; to be noted where coverage is counted."""
        odd, self._odd = self._odd, {}
        return odd

    def _note(self, what: str, times: int) -> None:
        if times:
            self._odd[what] = self._odd.get(what, 0) + times

    def update(self, rows: StepRows) -> list[Step]:
        """Take in the rows of a few messages; hand on the steps that they completed, in order."""
        self._note("rows of an unknown op", rows.unknown)
        rank, step, start, seconds, left = rows.rank, rows.step, rows.start_s, rows.seconds, rows.left_out
        sound, seconds = self._sound(rank, step, seconds)
        if np.count_nonzero(sound) < sound.size:
            rank, step, start, seconds = rank[sound], step[sound], start[sound], seconds[:, sound]
            left = left[sound]
        if rank.size:
            self._widen(int(rank.max()) + 1)
            self._tabulate(rank, step, start, seconds)
            self._close(rank, step, start, seconds[TOTAL])
            self._leave_out(rank, step, left)
            self.furthest[rank] = self.passed.max()
        self._pair(rows)
        return self._complete()

    def _sound(self, rank: Ints, step: Ints, seconds: Floats) -> tuple[NDArray[np.bool_], Floats]:
        """Which rows can be used, and their seconds; what is odd about the others is counted, an op at a time."""
        odd_rank = (rank < 0) | (rank >= self.coverage.plausible_ranks)
        late = step <= self.done
        odd_step = step < 0
        told = ~np.isnan(seconds)
        impossible = told & ~((seconds >= 0) & (seconds <= ABSURD_S))
        any_impossible = np.count_nonzero(impossible) > 0
        if any_impossible:
            seconds = np.where(impossible, np.nan, seconds)
        sound = ~(odd_rank | odd_step | late)
        if any_impossible or np.count_nonzero(sound) < sound.size:
            impossible |= told & odd_step
            self._note("rows with an impossible rank", int(told[:, odd_rank].sum()))
            self._note(_IMPOSSIBLE, int(impossible.sum()))
            after = told & ~impossible
            self._note("rows after their step was judged", int(after[:, late & ~odd_rank].sum()))
        return sound, seconds

    def _widen(self, ranks: int) -> None:
        more = ranks - self.ranks
        if more <= 0:
            return
        self.ranks = ranks
        none = np.full(more, -1, dtype=np.int64)
        self.closed, self.passed = np.concatenate([self.closed, none]), np.concatenate([self.passed, none])
        self.until = np.concatenate([self.until, none])
        self.silent = np.pad(self.silent, (0, more))
        self.furthest = np.concatenate([self.furthest, none])
        self.gaps = {step: np.pad(gaps, (0, more)) for step, gaps in self.gaps.items()}
        self.first_s = np.concatenate([self.first_s, np.full(more, np.nan)])
        self.last_s = np.concatenate([self.last_s, np.full(more, np.nan)])
        for step, table in self.tables.items():
            self.tables[step] = np.pad(table, ((0, 0), (0, more)))
            self.starts[step] = np.pad(self.starts[step], (0, more), constant_values=np.nan)
        self.first_told = np.pad(self.first_told, ((0, 0), (0, more)), constant_values=NEVER)

    def _tabulate(self, rank: Ints, step: Ints, start: Array, seconds: Array) -> None:
        """Add up the seconds in the tables of their steps, and take down when each rank began one it has closed."""
        numbers, filled = distinct(step), known_or_zero(seconds)
        told = ~np.isnan(seconds)
        whole = told[TOTAL]
        if np.count_nonzero(earlier := told & (step < self.first_told[:, rank])):
            op, row = np.nonzero(earlier)
            np.minimum.at(self.first_told, (op, rank[row]), step[row])
        ops = np.arange(len(OPS))[:, None] * self.ranks
        if len(numbers) * self.ranks <= _MOST_CELLS and self.tables.keys().isdisjoint(numbers):
            at = np.searchsorted(np.array(numbers), step)
            shape = (len(numbers), len(OPS), self.ranks)
            cells = ops + (at * (shape[1] * shape[2]) + rank)
            # Sums in the rows' order, as below.
            sums = np.bincount(cells.reshape(-1), filled.reshape(-1), shape[0] * shape[1] * shape[2])
            closed = np.full((len(numbers), self.ranks), np.nan)
            closed[at[whole], rank[whole]] = start[whole]
            # Copies: one step that lasts would hold the room of all.
            self.tables.update(zip(numbers, map(np.copy, sums.reshape(shape)), strict=True))
            self.starts.update(zip(numbers, map(np.copy, closed), strict=True))
            return
        for number, mine in _by_step(step, numbers):
            table = self.tables.get(number)
            if table is None:
                table = self.tables[number] = np.zeros((len(OPS), self.ranks))
                self.starts[number] = np.full(self.ranks, np.nan)
            ranks, closing = rank[mine], whole[mine]
            np.add.at(table.reshape(-1), (ops + ranks).reshape(-1), filled[:, mine].reshape(-1))
            self.starts[number][ranks[closing]] = start[mine][closing]

    def _close(self, rank: Ints, step: Ints, start: Array, seconds: Array) -> None:
        whole = ~np.isnan(seconds)
        self.silent[rank] = False
        np.maximum.at(self.closed, rank[whole], step[whole])
        np.fmin.at(self.first_s, rank, start)
        np.fmax.at(self.last_s, rank, start)

    def _leave_out(self, rank: Ints, step: Ints, left: Ints) -> None:
        """Take down what ranks leave out after these steps; what a rank says last of it holds."""
        newest = step == self.closed[rank]
        self.passed[rank[newest]] = step[newest] + left[newest]
        for number in distinct(step[left > 0]):
            mine = step == number
            self.gaps.setdefault(number, np.zeros(self.ranks, dtype=np.int64))[rank[mine]] = left[mine]

    def _pair(self, rows: StepRows) -> None:
        """Take in the micro-batches, of steps that are sound and of ranks that have reported one."""
        told = rows.microbatches
        if not told.rank.size:
            return
        sound = (told.rank >= 0) & (told.rank < min(self.ranks, self.coverage.plausible_ranks))
        sound &= told.step > self.done
        for seconds in (told.forward_s, told.backward_s):
            sound &= np.isnan(seconds) | ((seconds >= 0) & (seconds <= ABSURD_S))
        self.pairs.update(MicrobatchRows(*(column[sound] for column in told)))  # type: ignore[arg-type]

    def _complete(self) -> list[Step]:
        """Hand on every step that no speaking rank still owes rows for."""
        speaking = self.closed > self.done
        if not np.count_nonzero(speaking):
            return []
        return self._hand_on(self._frontier(speaking))

    def drain(self) -> list[Step]:
        """All steps that are open, as they are: no rank reports more."""
        return self._hand_on(max(self.tables, default=self.done))

    def left_out_next(self) -> int:
        """How many steps right after the last that was handed on all ranks leave out on purpose, as far as is known."""
        told = self.until[self.until >= self.done] if self.done >= 0 else self.until[:0]
        return int(told.min()) - self.done if told.size else 0

    def _hand_on(self, frontier: int) -> list[Step]:
        """The open steps up to ``frontier``."""
        out = []
        for step in sorted(number for number in self.tables if number <= frontier):
            table = self.tables.pop(step)
            heard = table[TOTAL] > 0.0
            if np.count_nonzero(heard) < heard.size:
                table[:, ~heard] = np.nan  # a rank that never closed this step was not heard in it
            starts, pairs = self.starts.pop(step), self.pairs.pop(step)
            by_all, whole = self._count(step, heard)
            out.append(Step(step, table, starts, pairs, self.skipped, self.left_out, whole, by_all))
            if whole:
                self.skipped = self.left_out = 0
            else:
                self.left_out += 1
        self.pairs.forget(self.done)
        return out

    def _count(self, step: int, heard: NDArray[np.bool_]) -> tuple[int, bool]:
        """Take down that ``step`` is done; how many right before it all left out on purpose, and whether none left out
        this one."""
        between = step - self.done - 1 if self.done >= 0 else 0
        on_purpose = min(max(int(self.until.max()) - self.done, 0), between) if between else 0
        by_all = np.count_nonzero(heard) == heard.size
        whole = by_all or bool((heard | (self.until < step)).all())
        self.skipped += between - on_purpose
        self.left_out += on_purpose
        gaps = self.gaps.pop(step, None)
        if by_all and gaps is None:
            self.until.fill(step)
        else:
            self.until[heard] = step + (0 if gaps is None else gaps[heard])
        self.done = step
        return on_purpose, whole

    def _frontier(self, speaking: NDArray[np.bool_]) -> int:
        """The last step that is complete, or may be waited for no longer."""
        heard = ~np.isnan(self.first_s)
        self._pass_over(heard)
        awaited = heard & ~self.silent
        passed = np.sort(self.passed[awaited])
        if not passed.size:
            return self.done  # No rank says when its steps began.
        lead = self._lead(passed)
        if np.count_nonzero(heard) < self.coverage.expected and not self.waited_for:
            if self._patience_left(speaking):
                return self.done
            self.waited_for = True
        if passed[0] == lead:
            return lead  # nobody is behind
        # Steps that no rank tells, because its probe was off or messages were lost, put nobody behind.
        told = np.sort(np.fromiter(self.tables, dtype=np.int64))
        behind = np.searchsorted(told, lead, side="right") - np.searchsorted(told, self.passed, side="right")
        present = awaited & (behind <= MESSAGE_STEPS)
        if np.count_nonzero(present) < passed.size:
            behind_s = behind * self._pace(lead)
            present |= awaited & (behind_s <= np.where(behind <= FEW_STEPS, FEW_S, self.config.patience_s))
            gone = awaited & ~present & (self.closed <= self.done)
            self._give_up(gone, gone & (self.passed >= self.done))
        return int(self.passed[present].min())

    def _pass_over(self, heard: NDArray[np.bool_]) -> None:
        """Wait no longer for ranks that have been silent while the one that is furthest went on for so long, however
        many they are: else a job would stand still whose most ranks lost their connection."""
        open_ = len(self.tables)
        # All open steps are looked at: not with each message while there are thousands.
        if open_ <= FEW_STEPS or self._looked <= open_ <= self._looked + self._looked // 16:
            return
        self._looked = open_
        ahead = int(np.argmax(np.where(heard & ~self.silent, self.passed, -1)))
        told = sorted((step, starts[ahead]) for step, starts in self.starts.items() if starts[ahead] == starts[ahead])
        steps, starts = np.array([step for step, _ in told], dtype=np.int64), np.array([start for _, start in told])
        # A clock that is set ahead in between is no time that has passed.
        went_on = np.cumsum(np.clip(np.diff(starts), 0.0, _MOST_PUSH_S))
        long_ago = int(np.searchsorted(went_on, went_on[-1:].sum() - self.config.most_patience_s, side="right"))
        if not long_ago:
            return
        gone = heard & ~self.silent & (self.closed <= self.done) & (self.furthest < steps[long_ago])
        self._give_up(gone, gone)

    def _give_up(self, gone: NDArray[np.bool_], noted: NDArray[np.bool_]) -> None:
        """Wait for ``gone`` no longer, until they report again; those in ``noted`` have not been counted before."""
        self.silent |= gone
        self._note("ranks that fell silent", int(np.count_nonzero(noted)))

    def _lead(self, passed: Ints) -> int:
        """How far the job is: the upper median of the ranks, ascending, so that one rank's absurd step misleads none.

        Where most ranks fell silent that would wait for ever, so beyond the bound it is the rank furthest ahead.
        """
        if len(self.tables) > self.config.pending_steps:
            return int(passed[-1])
        return int(passed[passed.size // 2])

    def _pace(self, lead: int) -> float:
        """Mean seconds from one open step to the next that was told, on the clock of a rank that leads.

        Never by the steps' numbers: a run that goes on from a checkpoint begins at thousands, and sampled steps are
        hundreds apart.
        """
        first = int(np.argmax(self.passed == lead))
        starts = np.array([starts[first] for starts in self.starts.values()])
        starts = starts[~np.isnan(starts)]
        return float((starts.max() - starts.min()) / (starts.size - 1)) if starts.size > 1 else 0.0

    def _patience_left(self, speaking: NDArray[np.bool_]) -> bool:
        spoken = (self.last_s - self.first_s)[speaking]
        return bool(np.nanmax(spoken) < self.config.patience_s) and len(self.tables) <= self.config.pending_steps

    def loaded(self) -> None:
        """Tables are as long as there are ranks: a damaged state must not choose that."""
        by_rank = [self.closed, self.passed, self.until, self.silent, self.furthest, self.first_s, self.last_s]
        rows = [*by_rank, *self.starts.values(), *self.gaps.values()]
        tables = [self.first_told, *self.tables.values()]
        alike = all(one.shape == (self.ranks,) for one in rows)
        alike = alike and all(one.shape == (len(OPS), self.ranks) for one in tables)
        if not alike or self.tables.keys() != self.starts.keys():
            raise ValueError("not a snapshot: tables of other sizes than there are ranks")


def _by_step(step: Ints, numbers: list[int]) -> Iterator[tuple[int, slice | Ints]]:
    """Each of ``numbers``, which are those of ``step``, with the rows of it in their order."""
    order = None if not np.count_nonzero(step[1:] < step[:-1]) else np.argsort(step, kind="stable")
    first = np.searchsorted(step if order is None else step[order], numbers).tolist()
    for number, begin, end in zip(numbers, first, [*first[1:], step.size], strict=True):
        yield number, slice(begin, end) if order is None else order[begin:end]
