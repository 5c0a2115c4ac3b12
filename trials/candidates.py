"""From a trial's dimensions to its placements, and why the others cannot be.

Rule of this file: pure. What is impossible is told before anything runs, each with its reason; what is wrong with the
trial as a whole (a placeholder that nothing fills, a dimension that nothing uses) is an error.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from .placement import Placement, combinations, numbered, placeholders, shared_out
from .sets import cpu_sets, gpu_sets, numa_nodes
from .spec import NODE_WORDS, Spec, SpecError, numbers_of
from .topology import Topology

#: Dimensions that act without a word in the command.
ACTING = ("gpus", "cpus", "numa", "nodes", "on")


@dataclass(frozen=True)
class Impossible:
    """A placement that is left out, and why."""

    placement: Placement
    reason: str


@dataclass(frozen=True)
class Candidates:
    """What can run, what cannot, and the names of what differs."""

    possible: tuple[Placement, ...]
    impossible: tuple[Impossible, ...]
    varied: frozenset[str]

    def label(self, placement: Placement) -> str:
        """What ``placement`` is called in tables."""
        return placement.label(self.varied)


def expand(
    spec: Spec, command: tuple[str, ...], here: Topology | None, rated: Mapping[int, float] | None = None
) -> Candidates:
    """All placements of ``spec`` for ``command``. ``here`` is the machine that they run on; None: it is another one.
    ``rated`` is what each GPU of it was measured at, where all were.

    Raises:
        SpecError: the trial as a whole cannot be.
    """
    _check_words(spec, command)
    _check_size(spec)
    possible: list[Placement] = []
    impossible: list[Impossible] = []
    for placement in _different(spec, here):
        numbered_one = replace(placement, number=len(possible) + len(impossible) + 1)
        made, reason = _settled(numbered_one, spec, command, here, rated)
        if reason == _EXCLUDED:
            continue
        if reason:
            impossible.append(Impossible(made, reason))
        else:
            possible.append(made)
    everything = [*possible, *(one.placement for one in impossible)]
    if len(everything) > spec.most:
        raise SpecError(f"{len(everything)} placements; the spec allows {spec.most} (most:), and 1024 are the limit")
    return Candidates(tuple(possible), tuple(impossible), _varied(everything, spec))


def _check_words(spec: Spec, command: tuple[str, ...]) -> None:
    """Placeholders that nothing fills, and dimensions that nothing uses."""
    named = set(placeholders(command))
    held = spec.placements
    given = {name for name in held.__struct_fields__ if name not in ("environ", "arguments") and getattr(held, name)}
    fills = given | {*held.arguments} | {*NODE_WORDS}
    if held.gpus:
        fills.add("ranks")
    if held.global_batch:
        fills.add("batch_size")
    if given & {"batch_size", "global_batch"} and "ranks" in fills:
        fills.add("global_batch")
    if strange := sorted(named - fills):
        raise SpecError(
            f"{{{strange[0]}}} in the command: no dimension of this spec fills it; there are "
            f"{', '.join(sorted(fills))}; write {{{{{strange[0]}}}}} for the word itself"
        )
    used = named | {*spec.reads} | {*ACTING} | ({"global_batch"} if named & {"batch_size", "split"} else set())
    for name in sorted(given | {*held.arguments}):
        if name not in used:
            raise SpecError(
                f"placements.{name}: nothing in the command uses it; write {{{name}}} there, or, where the script "
                f"reads PACELINE_TRIAL_{name.upper()} itself, say so: reads: [{name}]"
            )


def _check_size(spec: Spec) -> None:
    held = spec.placements
    sizes = [len(getattr(held, name)) or 1 for name in held.__struct_fields__ if name not in ("environ", "arguments")]
    sizes += [len(values) for values in (*held.environ.values(), *held.arguments.values())]
    count = combinations(sizes)
    if count > 16 * spec.most:
        raise SpecError(
            f"{count} combinations, and the spec allows {spec.most} (most:, 1024 is the limit): fewer values, or "
            "dimensions one after the other"
        )


def _different(spec: Spec, here: Topology | None) -> list[Placement]:
    """The placements of all combinations, each once: a set may be both written and found."""
    found = {repr(one): one for raw in _combined(spec) for one in _with_sets(raw, spec, here)}
    return list(found.values())


def _combined(spec: Spec) -> Iterator[dict[str, Any]]:
    """Every combination of values, as they are written, the last dimension fastest."""
    held = spec.placements
    axes: list[list[tuple[str, Any]]] = [
        [(name, value) for value in values]
        for name in held.__struct_fields__
        if name not in ("environ", "arguments") and (values := getattr(held, name))
    ]
    axes += [[(f"environ {name}", value) for value in values] for name, values in held.environ.items()]
    axes += [[(f"arguments {name}", value) for value in values] for name, values in held.arguments.items()]
    for values in product(*axes):
        yield dict(values)


def _with_sets(raw: dict[str, Any], spec: Spec, here: Topology | None) -> Iterator[Placement]:
    """The placements that a combination stands for: ``auto`` is several, or one without a set where there is none."""
    gpus = _sets(raw.get("gpus"), lambda: gpu_sets(here, raw.get("ranks") or len(here.gpus)) if here else [])
    cpus = _sets(raw.get("cpus"), lambda: cpu_sets(here) if here else [])
    numa = [None] if "numa" not in raw else [int(raw["numa"])] if raw["numa"] != "auto" else None
    numa = numa if numa is not None else (list(numa_nodes(here)) if here else []) or [None]
    split = raw.get("split")
    for gpu_set, cpu_set, node in product(gpus, cpus, numa):
        yield Placement(
            number=0,
            gpus=gpu_set,
            cpus=cpu_set,
            numa=node,
            ranks=raw.get("ranks") or (len(gpu_set) if gpu_set else None),
            nodes=raw.get("nodes") or (len(raw["on"]) if raw.get("on") else None),
            on=tuple(raw["on"]) if raw.get("on") else None,
            loader_workers=raw.get("loader_workers"),
            batch_size=raw.get("batch_size"),
            global_batch=raw.get("global_batch"),
            split=split if split is None or isinstance(split, str) else ":".join(f"{one:g}" for one in split),
            environ={name.split()[1]: value for name, value in raw.items() if name.startswith("environ ")},
            arguments={name.split()[1]: value for name, value in raw.items() if name.startswith("arguments ")},
        )


def _sets(value: Any, auto: Callable[[], list[tuple[int, ...]]]) -> list[tuple[int, ...] | None]:
    if value is None:
        return [None]
    numbers = numbers_of(value)
    return [numbers] if numbers is not None else [*auto()] or [()]


_EXCLUDED = "excluded"


def _settled(
    placement: Placement,
    spec: Spec,
    command: tuple[str, ...],
    here: Topology | None,
    rated: Mapping[int, float] | None,
) -> tuple[Placement, str]:
    """``placement`` with the batch of each rank, and why it cannot be, or ""."""
    told = placement.values() | ({"split": placement.split} if placement.split else {}) | placement.environ
    left_out = [{name: _excluded_text(name, value) for name, value in wanted.items()} for wanted in spec.exclude]
    if any(wanted.items() <= told.items() for wanted in left_out):
        return placement, _EXCLUDED
    for rule in (_machine_reason, _nodes_reason):
        if reason := rule(placement, spec, command, here):
            return placement, reason
    return _batched(placement, command, rated)


def _excluded_text(name: str, value: str | list[str]) -> str:
    """A value of ``exclude`` as placements are called."""
    if name in ("gpus", "cpus"):
        return numbered(numbers_of(value)) or ""
    if name == "split" and isinstance(value, list):
        return ":".join(f"{float(one):g}" for one in value)
    return ",".join(value) if isinstance(value, list) else value


def _machine_reason(placement: Placement, spec: Spec, command: tuple[str, ...], here: Topology | None) -> str:
    """What the devices speak against."""
    if () in (placement.gpus, placement.cpus):
        what = "gpus" if placement.gpus == () else "cpus"
        return f"{what}: auto finds none here ({_missing(what, here, placement)}); write the sets"
    if placement.gpus and placement.ranks and placement.ranks > len(placement.gpus):
        return f"{placement.ranks} ranks a node on {len(placement.gpus)} GPUs: one GPU a rank at least"
    if here is None:
        return "numa: auto is known of this machine alone; write the numbers" if _auto_numa(placement, spec) else ""
    known = {gpu.index: gpu for gpu in here.gpus}
    for gpu in placement.gpus or ():
        if gpu not in known:
            return f"GPU {gpu} is not there: {_gpus_there(here)}"
        if known[gpu].mig:
            return f"GPU {gpu} is cut into MIG instances, which a trial does not place: turn MIG off, or leave it out"
    if missing := sorted({*(placement.cpus or ())} - {*here.cpus}):
        return f"CPU {missing[0]} is not there, or not allowed to us: we have {numbered(here.cpus)}"
    if placement.numa is not None:
        return _numa_reason(placement, placement.numa, here)
    return "numa: auto finds no memory node here" if _auto_numa(placement, spec) else ""


def _auto_numa(placement: Placement, spec: Spec) -> bool:
    return bool(spec.placements.numa) and placement.numa is None


def _missing(what: str, here: Topology | None, placement: Placement) -> str:
    if here is None:
        return "another machine runs it"
    if what == "cpus":
        return "no CPU is allowed to us"
    return f"{placement.ranks or 'all'} GPUs wanted, {_gpus_there(here)}"


def _gpus_there(here: Topology) -> str:
    if not here.gpus:
        return "; ".join(("there is no GPU", *here.why))
    whole = [str(gpu.index) for gpu in here.gpus if not gpu.mig]
    return f"there are {', '.join(whole) or 'none'}" + (" without MIG" if len(whole) < len(here.gpus) else "")


def _numa_reason(placement: Placement, node: int, here: Topology) -> str:
    if node not in here.numa:
        return f"memory node {node} is not there: there are {', '.join(map(str, sorted(here.numa))) or 'none'}"
    if placement.cpus and not {*placement.cpus} <= {*here.numa[node]}:
        return f"CPUs {numbered(placement.cpus)} are not all of memory node {node} ({numbered(here.numa[node])})"
    return ""


def _nodes_reason(placement: Placement, spec: Spec, command: tuple[str, ...], here: Topology | None) -> str:
    """What the number of nodes speaks against."""
    nodes = placement.nodes or 1
    if placement.on is not None and (len(placement.on) != nodes or len({*placement.on}) != len(placement.on)):
        return f"on: {', '.join(placement.on)}: {nodes} different nodes wanted"
    if nodes > 1 and spec.executor_name == "local":
        return f"{nodes} nodes: the local executor has this one; executor: slurm or kubernetes has more"
    if nodes > 1 and not {"nodes", "node_rank"} & {*placeholders(command)}:
        return f"{nodes} nodes: the command has no {{nodes}} and {{node_rank}}, so each node would train alone"
    return ""


def _batched(
    placement: Placement, command: tuple[str, ...], rated: Mapping[int, float] | None
) -> tuple[Placement, str]:
    """``placement`` with its shares, or why no split divides its batch."""
    total, world = placement.global_batch, placement.world
    if placement.split is None and total is None:
        return replace(placement, global_batch=placement.samples), ""
    if placement.ranks is None:
        return placement, "a global batch and a split need the number of ranks: give ranks"
    if total is None and placement.batch_size is None:
        return placement, "a split needs a batch to split: give batch_size or global_batch"
    total = total if total is not None else (placement.batch_size or 0) * world
    weights, reason = _weights(placement, world, rated)
    if reason:
        return placement, reason
    if len({*weights}) == 1 and total % world:
        return placement, f"a global batch of {total} is not divided evenly by {world} ranks"
    shares = shared_out(total, weights)
    if min(shares) < 1:
        return placement, f"a global batch of {total} split {placement.split} leaves a rank without a sample"
    even = len({*shares}) == 1
    if not even and "batch_size" in placeholders(command):
        return placement, f"split {placement.split} gives ranks different batches: the command needs {{split}}"
    return replace(placement, global_batch=total, batch_size=shares[0] if even else None, shares=shares), ""


def _weights(placement: Placement, world: int, rated: Mapping[int, float] | None) -> tuple[tuple[float, ...], str]:
    if placement.split in (None, "even"):
        return (1.0,) * world, ""
    if placement.split == "rated":
        gpus = placement.gpus or ()
        if (placement.nodes or 1) > 1:
            return (), "split rated: only this machine's ratings are known here; write the weights"
        if rated is None or len(gpus) < world or any(gpu not in rated for gpu in gpus[:world]):
            return (), "split rated: no rating of each GPU of the set; run paceline benchmark first, and give gpus"
        return tuple(rated[gpu] for gpu in gpus[:world]), ""
    weights = tuple(map(float, str(placement.split).split(":")))
    return weights, "" if len(weights) == world else f"split has {len(weights)} weights for {world} ranks"


def _varied(placements: list[Placement], spec: Spec) -> frozenset[str]:
    """What differs, of what the spec names: what follows from it need not be told."""
    held = spec.placements
    named = {*held.environ, *held.arguments, *(name for name in held.__struct_fields__ if getattr(held, name))}
    told = [one.values() | ({"split": one.split} if one.split is not None else {}) | one.environ for one in placements]
    return frozenset(name for name in named if len({values.get(name) for values in told}) > 1)
