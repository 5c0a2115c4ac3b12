"""One placement: where and how a training command runs, and what it is called.

Rule of this file: pure data. A dimension that a trial does not vary is None, and then the command's own affair.
"""

import re
from dataclasses import dataclass, field
from math import prod


@dataclass(frozen=True)
class Placement:
    """One combination. ``shares`` are the samples that each rank has of a step, where a split says so."""

    number: int
    gpus: tuple[int, ...] | None = None
    cpus: tuple[int, ...] | None = None
    numa: int | None = None
    ranks: int | None = None
    nodes: int | None = None
    on: tuple[str, ...] | None = None
    loader_workers: int | None = None
    batch_size: int | None = None
    global_batch: int | None = None
    split: str | None = None
    shares: tuple[int, ...] | None = None
    environ: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, str] = field(default_factory=dict)

    @property
    def world(self) -> int:
        """Ranks in all."""
        return (self.ranks or 1) * (self.nodes or 1)

    @property
    def samples(self) -> int | None:
        """Samples a step, as asked for; None where only the recording tells."""
        if self.global_batch is not None or self.batch_size is None or self.ranks is None:
            return self.global_batch
        return self.batch_size * self.world

    @property
    def cost(self) -> tuple[int, int, int]:
        """What it occupies, to choose among equals: devices, ranks, loader workers in all."""
        devices = len(self.gpus) if self.gpus else len(self.cpus) if self.cpus else self.ranks or 1
        nodes = self.nodes or 1
        return devices * nodes, self.world, (self.loader_workers or 0) * self.world

    def values(self) -> dict[str, str]:
        """What it sets, by the name of its placeholder, as text."""
        plain = {
            "gpus": numbered(self.gpus),
            "cpus": numbered(self.cpus),
            "numa": self.numa,
            "ranks": self.ranks,
            "nodes": self.nodes,
            "on": None if self.on is None else ",".join(self.on),
            "loader_workers": self.loader_workers,
            "batch_size": self.batch_size,
            "global_batch": self.global_batch,
            "split": None if self.shares is None else ",".join(map(str, self.shares)),
        }
        return {name: str(value) for name, value in plain.items() if value is not None} | self.arguments

    def label(self, varied: frozenset[str]) -> str:
        """Its name: what it has of the dimensions that differ.

        >>> Placement(1, ranks=2, batch_size=32).label(frozenset({"ranks"}))
        'ranks=2'
        """
        told = self.values() | ({"split": self.split} if self.split is not None else {}) | self.environ
        return " ".join(f"{name}={value}" for name, value in told.items() if name in varied) or "as it is"


def numbered(numbers: tuple[int, ...] | None) -> str | None:
    """A set as people write it: ``0-3,8``.

    >>> numbered((0, 1, 2, 3, 8))
    '0-3,8'
    """
    if numbers is None:
        return None
    out: list[list[int]] = []
    for number in numbers:
        if out and out[-1][-1] + 1 == number:
            out[-1] = [out[-1][0], number]
        else:
            out.append([number])
    return ",".join("-".join(map(str, run)) for run in out)


def shared_out(total: int, weights: tuple[float, ...]) -> tuple[int, ...]:
    """``total`` samples by weight, whole numbers, the largest remainders first.

    >>> shared_out(64, (1.0, 3.0)), shared_out(10, (1.0, 1.0, 1.0))
    ((16, 48), (4, 3, 3))
    """
    whole = sum(weights)
    exact = [total * weight / whole for weight in weights]
    shares = [int(share) for share in exact]
    order = sorted(range(len(weights)), key=lambda rank: shares[rank] - exact[rank])
    for rank in order[: total - sum(shares)]:
        shares[rank] += 1
    return tuple(shares)


def combinations(sizes: list[int]) -> int:
    """How many placements dimensions of these sizes make."""
    return prod(sizes)


_PLACEHOLDER = re.compile(r"\{\{([a-z][a-z0-9_]*)\}\}|\{([a-z][a-z0-9_]*)\}")


def placeholders(command: tuple[str, ...]) -> list[str]:
    """The names that stand in braces in ``command``, in order, each once; doubled braces are a literal.

    >>> placeholders(("train.py", "--batch={batch_size}", "{{kept}}", '{"json": 1}'))
    ['batch_size']
    """
    found = [match[2] for word in command for match in _PLACEHOLDER.finditer(word) if match[2]]
    return list(dict.fromkeys(found))


def filled(command: tuple[str, ...], values: dict[str, str], kept: tuple[str, ...] = ()) -> tuple[str, ...]:
    """``command`` with ``values`` in place of their names; those ``kept`` are left for the node.

    >>> filled(("--batch={batch_size}", "{port}", "{{x}}"), {"batch_size": "8"}, ("port",))
    ('--batch=8', '{port}', '{x}')
    """

    def put(match: re.Match[str]) -> str:
        if match[1]:
            return "{" + match[1] + "}"
        return match[0] if match[2] in kept and match[2] not in values else values[match[2]]

    return tuple(_PLACEHOLDER.sub(put, word) for word in command)
