"""What ranks say of how they are set up, in the words of an event.

Rule of this file: pure, and bounded: only facts that have a name travel.
"""

from collections.abc import Mapping
from typing import get_args

from paceline.events import RankFact, RankFacts
from paceline.sidecar.columns import LONGEST_WORD
from paceline.training.messages import Hello

_NAMED = get_args(RankFact)


def facts_of(hello: Mapping[int, Hello]) -> RankFacts | None:
    """The versions that these ranks run on; None where no rank tells any, as those of an older Paceline."""
    ranks = sorted(hello)
    told = {name: [hello[rank].versions.get(name, "")[:LONGEST_WORD] for rank in ranks] for name in _NAMED}
    words = {name: said for name, said in told.items() if any(said)}
    return RankFacts(ranks=ranks, words=words) if words else None
