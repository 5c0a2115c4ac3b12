"""The collectives of a job's step: groups, operations, sizes and numbers.

Rule of this file: tables from a spec; when they happen is the timeline's business.
"""

from dataclasses import dataclass

from .spec import BUS_BYTES_PER_S, Spec

#: Without phases, every so many steps there is one collective more (a loss that is logged), as in real jobs.
EXTRA_EVERY = 10


@dataclass(frozen=True)
class Collective:
    """One collective of a step: ``per_step`` of its group come in a step, and it is number ``index`` of them."""

    operation: str
    group: str
    size: int
    bytes: int
    index: int
    per_step: int

    def sequence(self, step: int, *, extra: bool) -> int:
        """Its number within its group in ``step``; ``extra`` where one more comes every ``EXTRA_EVERY`` steps."""
        return step * self.per_step + self.index + (-(-step // EXTRA_EVERY) if extra else 0)


def collectives_of(spec: Spec, rank: int) -> list[Collective]:
    """The collectives of one step of ``rank``, in order; every rank has as many."""
    if not spec.collectives:
        return []
    if spec.pp > 1 or spec.tp > 1:
        _, tp, pp = spec.place(rank)
        operation = "reduce_scatter" if spec.fsdp else "all_reduce"
        size = _bytes(operation, spec.transfer_s, spec.dp)
        return [
            Collective(operation, f"dp-{pp}-{tp}", spec.dp, size, 0, 1),
            Collective("all_reduce", "world", spec.ranks, 8, 0, 1),
        ]
    if spec.fsdp:
        each = spec.transfer_s / (2 * spec.blocks) / spec.microbatches
        pairs = [(word, each) for word in ["all_gather"] * spec.blocks + ["reduce_scatter"] * spec.blocks]
    else:
        pairs = [("all_reduce", spec.transfer_s / 4)] * (spec.collectives - 1) + [("all_reduce", spec.transfer_s)]
    return [
        Collective(word, "world", spec.ranks, _bytes(word, seconds, spec.ranks), index, len(pairs))
        for index, (word, seconds) in enumerate(pairs)
    ]


def _bytes(operation: str, seconds: float, members: int) -> int:
    """What each of ``members`` ranks puts in that takes ``seconds`` at the rated bus bandwidth (of nccl-tests)."""
    turns = {"all_reduce": 2 / members, "all_gather": 1.0}.get(operation, 1 / members) * (members - 1)
    return int(BUS_BYTES_PER_S * seconds / (turns or 1.0))
