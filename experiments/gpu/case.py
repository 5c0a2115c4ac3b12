"""A case: what is predicted, how it is read, and what came of it.

Rule of this file: data only.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from experiments.gpu.bench import Bench

#: What a case may come to.
HOLDS, FAILS, NOT_RUN, BROKEN = "holds", "does not hold", "not run", "broken"


class Reading(NamedTuple):
    """What a case read, in words with their numbers, and whether the prediction holds.

    None: this machine cannot show it. ``broken``: the case itself failed, which says nothing about the prediction.
    """

    words: str
    holds: bool | None
    broken: bool = False

    @property
    def outcome(self) -> str:
        """The word for it.

        >>> [Reading("20.1 ms", holds).outcome for holds in (True, False, None)]
        ['holds', 'does not hold', 'not run']
        """
        if self.broken:
            return BROKEN
        return NOT_RUN if self.holds is None else HOLDS if self.holds else FAILS


class Case(NamedTuple):
    """One prediction. ``seconds`` is what it may take before it is ended; ``on_cpu`` says that it has a CPU form."""

    name: str
    seconds: float
    predicted: str
    proves: str
    read: "Callable[[Bench], Reading]"
    on_cpu: bool = True
