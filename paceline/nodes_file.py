"""``nodes.yaml``: what the nodes of a cluster were measured to do, in one file that they share and people read.

Rule of this file: a node changes its own entry and no other, one node at a time, and the file is replaced as a whole.
Reading is bounded, and aliases are refused: a short file could grow without end by them. PyYAML is imported here alone,
and only when a file is read or written. Comments are lost on writing.
"""

import contextlib
import fcntl
import os
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from paceline.bounds import LATEST_S
from paceline.install import install
from paceline.rated import LONGEST_WORD, MOST_SPEEDS, Speed, replace, speed_of, versions_of

LAYOUT = 1
#: What a file may hold.
MOST_BYTES, MOST_NODES, MOST_DEVICES, DEEPEST = 16 * 2**20, 4096, 1024, 8
#: What a speed is known by, whatever node it is of: its name, its size and its ranks.
What = tuple[str, int | None, int | None]


class NodesFileError(ValueError):
    """A file that is not read or written: its path, why, and the fix."""


@dataclass(frozen=True)
class Node:
    """One node's entry. ``kind``: the model of its GPUs, or of its CPU where it has none; ``devices``: how many."""

    name: str
    kind: str
    devices: int
    time_s: float
    speeds: tuple[Speed, ...]
    versions: Mapping[str, str] = field(default_factory=dict)

    def speed(self, name: str) -> float | None:
        """What this node does at ``name``, its devices' mean, where that has no size (``gemm_bfloat16``)."""
        values = [one.value for one in self.speeds if (one.name, one.size_bytes) == (name, None)]
        return statistics.fmean(values) if values else None

    def by_what(self) -> dict[What, float]:
        """Each of its speeds, its devices' mean."""
        values: dict[What, list[float]] = {}
        for one in self.speeds:
            values.setdefault((one.name, one.size_bytes, one.ranks), []).append(one.value)
        return {what: statistics.fmean(each) for what, each in values.items()}


def read(path: Path) -> dict[str, Node]:
    """The nodes in the file at ``path``, by name, in its order.

    Raises:
        NodesFileError: it is not there, or holds something else.
    """
    try:
        with path.open("rb") as file:
            held = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise NodesFileError(f"{path}: {error.strerror}") from error
    return _nodes(path, held)


def put(path: Path, node: Node) -> None:
    """Write ``node`` into the file at ``path``; the other nodes stay as they are, also if they write meanwhile.

    Raises:
        NodesFileError: the file holds something else (it is left as it is), or cannot be written.
    """
    try:
        with _locked(path):
            nodes = read(path) if path.exists() else {}
            replace(path, _text({**nodes, node.name: node}))
    except OSError as error:
        raise NodesFileError(f"{path}: {error.strerror}") from error


def relative(nodes: Mapping[str, Node]) -> dict[str, dict[What, float]]:
    """Of each node each of its speeds, as a ratio to the median of all nodes of its kind, its own among them."""
    own = {name: node.by_what() for name, node in nodes.items()}
    kinds: dict[tuple[str, What], list[float]] = {}
    for name, node in nodes.items():
        for what, value in own[name].items():
            kinds.setdefault((node.kind, what), []).append(value)
    medians = {of: statistics.median(values) for of, values in kinds.items()}
    return {
        name: {what: value / medians[node.kind, what] for what, value in own[name].items()}
        for name, node in nodes.items()
    }


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Only one process holds this at a time; the lock stays beside the file, for whoever waits has it open."""
    path.parent.mkdir(parents=True, exist_ok=True)
    number = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.lockf(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)


def _yaml() -> Any:
    try:
        import yaml
    except ModuleNotFoundError as error:
        raise NodesFileError(f"nodes.yaml needs PyYAML; {install('trials')}") from error
    return yaml


def check() -> None:
    """Raise ``NodesFileError`` where files of this kind cannot be handled here, before anything is measured for one."""
    _yaml()


def _nodes(path: Path, held: bytes) -> dict[str, Node]:
    yaml = _yaml()
    if len(held) > MOST_BYTES:
        raise NodesFileError(f"{path}: larger than {MOST_BYTES} bytes")
    try:
        _bounded(yaml, held)
        document = yaml.load(held, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise NodesFileError(f"{path}: {' '.join(str(error).split())[:300]}") from error
    if document is None:
        return {}
    try:
        if document["layout"] != LAYOUT or len(document["nodes"]) > MOST_NODES:
            raise ValueError
        entries = list(document["nodes"].items())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NodesFileError(f"{path}: not what `paceline benchmark --nodes` writes (layout {LAYOUT})") from error
    return {str(name): _node(path, name, entry) for name, entry in entries}


def _node(path: Path, name: Any, entry: Any) -> Node:
    try:
        if len(entry["speeds"]) > MOST_SPEEDS or not isinstance(entry["speeds"], list):
            raise ValueError
        return Node(
            _word(name),
            _word(entry["kind"]),
            int(_number(entry["devices"], MOST_DEVICES)),
            _number(entry["time_s"], LATEST_S),
            tuple(map(speed_of, entry["speeds"])),
            versions_of(entry.get("versions") or {}),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NodesFileError(f"{path}: nodes.{str(name)[:64]}: not what `paceline benchmark` writes") from error


def _bounded(yaml: Any, held: bytes) -> None:
    """Refuse what would grow or sink, before anything is built of it.

    Raises:
        ValueError: an alias, or a nesting too deep.
    """
    depth = 0
    for event in yaml.parse(held, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        if isinstance(event, yaml.AliasEvent):
            raise ValueError(f"line {event.start_mark.line + 1}: aliases are not read; write it out")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEEPEST:
            raise ValueError(f"line {event.start_mark.line + 1}: nested deeper than {DEEPEST}")


def _text(nodes: Mapping[str, Node]) -> str:
    yaml = _yaml()
    document = {"layout": LAYOUT, "nodes": {name: _entry(node) for name, node in nodes.items()}}
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    told = yaml.dump(document, Dumper=dumper, sort_keys=False, allow_unicode=True, default_flow_style=None, width=240)
    return (
        "# Rated speeds of nodes, by `paceline benchmark --nodes`; comments in here are lost when a node writes.\n"
        + str(told)
    )


def _entry(node: Node) -> dict[str, Any]:
    entry = asdict(node)
    del entry["name"]
    entry["versions"] = dict(node.versions)
    entry["speeds"] = [{name: value for name, value in asdict(one).items() if value is not None} for one in node.speeds]
    return entry


def _word(held: Any) -> str:
    if not isinstance(held, str) or not held.isprintable() or not 0 < len(held) <= LONGEST_WORD:
        raise ValueError
    return held


def _number(held: Any, most: float) -> float:
    if isinstance(held, bool) or not isinstance(held, int | float) or not 0 <= held <= most:
        raise ValueError
    return float(held)
