"""A trial from the text of its YAML file: what is measured, how long, and over which placements.

Rule of this file: pure, strict and bounded. Whoever gets a ``Spec`` from here need not check a number of it again; an
error is one sentence that names the file, the line and the part, and what is allowed there.
"""

import re
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from paceline.decoders import convert
from paceline.yaml_document import YamlDocument, YamlError

#: The executors that there are.
EXECUTORS = ("local", "slurm", "kubernetes")
#: Placements in all, and values of one dimension, that a trial may have.
MOST_PLACEMENTS, MOST_VALUES = 1024, 256
MOST_DEVICE, MOST_TRIAL_RANKS, MOST_NODES = 4095, 4096, 4096
#: How long the runs of the last rung may be measured; steps, where they are counted.
MOST_SECONDS, MOST_STEPS = 7 * 86_400.0, 10**7

Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")]
Word = Annotated[str, Meta(pattern=r"^[^\x00\n\r]*\Z", max_length=1024)]
Variable = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}\Z")]
Argument = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,62}\Z")]
Count = Annotated[int, Meta(ge=1, le=2**20)]
Ranks = Annotated[int, Meta(ge=1, le=MOST_TRIAL_RANKS)]
Device = Annotated[int, Meta(ge=0, le=MOST_DEVICE)]
Weight = Annotated[float, Meta(gt=0, le=1e6)]
Seconds = Annotated[float, Meta(ge=0.5, le=86_400)]


class SpecError(ValueError):
    """A trial that cannot be: where and why, on one line."""


class Dimensions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What placements differ in: the values of each dimension, of which every combination is one.

    ``gpus``, ``cpus`` and ``numa`` are of each node: sets of numbers, or ``auto``. ``split`` is how a global batch is
    shared among the ranks: ``even``, ``rated``, or a weight a rank.
    """

    gpus: Annotated[list[str | list[Device]], Meta(max_length=MOST_VALUES)] = []
    cpus: Annotated[list[str | list[Device]], Meta(max_length=MOST_VALUES)] = []
    numa: Annotated[list[str], Meta(max_length=MOST_VALUES)] = []
    ranks: Annotated[list[Ranks], Meta(max_length=MOST_VALUES)] = []
    nodes: Annotated[list[Annotated[int, Meta(ge=1, le=MOST_NODES)]], Meta(max_length=MOST_VALUES)] = []
    on: Annotated[list[list[Name]], Meta(max_length=MOST_VALUES)] = []
    loader_workers: Annotated[list[Annotated[int, Meta(ge=0, le=1024)]], Meta(max_length=MOST_VALUES)] = []
    batch_size: Annotated[list[Count], Meta(max_length=MOST_VALUES)] = []
    global_batch: Annotated[list[Count], Meta(max_length=MOST_VALUES)] = []
    split: Annotated[list[str | list[Weight]], Meta(max_length=MOST_VALUES)] = []
    environ: dict[Variable, Annotated[list[Word], Meta(min_length=1, max_length=MOST_VALUES)]] = {}
    arguments: dict[Argument, Annotated[list[Word], Meta(min_length=1, max_length=MOST_VALUES)]] = {}


class Spec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A trial. A run is measured for ``seconds`` or ``steps`` after ``warm_up`` steps, ``eta`` times as long on each
    rung as on the one before; of the placements on a rung about one in ``eta`` stays, ``keep`` at least.

    ``repeats`` runs a rung and placement. A run hangs whose first step takes longer than ``start_s``, in which no step
    ends for ``hang_s``, or that is not over after ``limit_s``. ``reads`` are the dimensions that the script reads from
    its environment. ``exclude`` leaves out placements that have all of the values of one entry.
    """

    name: Name
    placements: Dimensions
    seconds: Seconds | None = None
    steps: Annotated[int, Meta(ge=20, le=10**7)] | None = None
    warm_up: Annotated[int, Meta(ge=0, le=10**6)] = 20
    rungs: Annotated[int, Meta(ge=1, le=10)] = 3
    eta: Annotated[float, Meta(ge=1.5, le=10)] = 2.0
    keep: Annotated[int, Meta(ge=1, le=MOST_PLACEMENTS)] = 1
    repeats: Annotated[int, Meta(ge=1, le=100)] = 2
    seed: Annotated[int, Meta(ge=0, le=2**53)] = 0
    start_s: Seconds = 180.0
    hang_s: Seconds = 60.0
    limit_s: Annotated[float, Meta(ge=1, le=MOST_SECONDS)] | None = None
    most: Annotated[int, Meta(ge=1, le=MOST_PLACEMENTS)] = 64
    executor: str | dict[str, Any] = "local"
    reads: Annotated[list[Argument], Meta(max_length=64)] = []
    exclude: Annotated[list[dict[str, str | list[str]]], Meta(max_length=MOST_VALUES)] = []

    @property
    def executor_name(self) -> str:
        """Which executor runs it."""
        return self.executor if isinstance(self.executor, str) else next(iter(self.executor))

    @property
    def executor_options(self) -> dict[str, Any]:
        """What the spec tells that executor."""
        return {} if isinstance(self.executor, str) else self.executor[self.executor_name] or {}


def read(text: str, file: str = "the spec") -> Spec:
    """The trial that ``text``, YAML, describes; ``file`` is how errors call it.

    Raises:
        SpecError: it describes none.
    """
    try:
        document = YamlDocument(text)
    except YamlError as error:
        raise SpecError(f"{file}, {error}") from error
    data = _with_lists(document.data)
    try:
        spec = convert(data, Spec, strict=False)
        _check(spec)
    except msgspec.ValidationError as error:
        path, message = _reworded(str(error), data)
        raise SpecError(f"{file}, line {document.line(path)}: {path or 'the whole'}: {message}") from error
    except _PartError as error:
        raise SpecError(f"{file}, line {document.line(error.path)}: {error.path}: {error}") from error
    return spec


class _PartError(ValueError):
    def __init__(self, path: str, reason: str) -> None:
        super().__init__(reason)
        self.path = path


def _with_lists(data: Any) -> Any:
    """One value of a dimension may stand without its list."""
    if not isinstance(data, dict) or not isinstance(data.get("placements"), dict):
        return data
    dimensions = {
        name: _listed(values) if name in ("environ", "arguments") and isinstance(values, dict) else _list(values)
        for name, values in data["placements"].items()
    }
    return data | {"placements": dimensions}


def _listed(values: dict[str, Any]) -> dict[str, Any]:
    return {name: _list(value) for name, value in values.items()}


def _list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _check(spec: Spec) -> None:
    """What single values do not tell."""
    if (spec.seconds is None) == (spec.steps is None):
        raise _PartError("seconds", "say how long a run is measured, by seconds or by steps, one of them")
    if isinstance(spec.executor, dict) and len(spec.executor) != 1:
        raise _PartError("executor", f"one of {', '.join(EXECUTORS)}")
    if spec.executor_name not in EXECUTORS:
        raise _PartError("executor", f"{spec.executor_name[:40]!r} is none; there are {', '.join(EXECUTORS)}")
    if not isinstance(spec.executor_options, dict):
        raise _PartError(f"executor.{spec.executor_name}", "its options are keys and values")
    if spec.executor_name == "local" and spec.executor_options:
        raise _PartError("executor.local", "it has no options")
    _check_length(spec)
    _check_values(spec.placements)
    _check_names(spec)


def _check_length(spec: Spec) -> None:
    longer = spec.eta ** (spec.rungs - 1)
    if (spec.seconds or 0.0) * longer > MOST_SECONDS:
        raise _PartError("seconds", f"{longer:.4g} times as long on the last rung (eta, rungs): a week at most")
    if (spec.steps or 0) * longer > MOST_STEPS:
        raise _PartError("steps", f"{longer:.4g} times as many on the last rung (eta, rungs): {MOST_STEPS} at most")
    last_s = (spec.seconds or 0.0) * longer
    if spec.limit_s is not None and spec.limit_s < last_s / 2:
        why = f"a run of the last rung measures {last_s:g} s, and would end before half of that (seconds, eta, rungs)"
        raise _PartError("limit_s", why)


def _check_values(held: Dimensions) -> None:
    for name, values in (("gpus", held.gpus), ("cpus", held.cpus)):
        for index, value in enumerate(values):
            _check_set(f"placements.{name}[{index}]", value)
    for index, value in enumerate(held.numa):
        if value != "auto" and not re.fullmatch(r"\d{1,4}", value):
            raise _PartError(f"placements.numa[{index}]", f"a node's number or auto, not {value[:40]!r}")
    for index, split in enumerate(held.split):
        if isinstance(split, str) and split not in ("even", "rated"):
            raise _PartError(f"placements.split[{index}]", f"even, rated or a list of weights, not {split[:40]!r}")
    if held.batch_size and held.global_batch:
        raise _PartError("placements.global_batch", "batch_size (a rank) or global_batch, one of them")


def _check_names(spec: Spec) -> None:
    held = spec.placements
    names = {*DIMENSIONS, *held.arguments}
    if clash := sorted(names & {*held.arguments} & {*DIMENSIONS, *NODE_WORDS}):
        raise _PartError(f"placements.arguments.{clash[0]}", "a dimension has this name; call it otherwise")
    for index, wanted in enumerate(spec.exclude):
        if not wanted:
            raise _PartError(f"exclude[{index}]", "nothing in it would leave out everything")
        if strange := sorted({*wanted} - names - {*held.environ}):
            raise _PartError(f"exclude[{index}].{strange[0]}", f"no dimension; there are {', '.join(sorted(names))}")
        for name in {"gpus", "cpus"} & {*wanted}:
            _check_set(f"exclude[{index}].{name}", wanted[name])
    for name in held.environ:
        if name.startswith("PACELINE_TRIAL_") or (name == "CUDA_VISIBLE_DEVICES" and held.gpus):
            raise _PartError(f"placements.environ.{name}", "the trial sets it itself, from the other dimensions")
    if strange := sorted({*spec.reads} - names):
        raise _PartError("reads", f"{strange[0]} is no dimension; there are {', '.join(sorted(names))}")


#: Dimensions with a name of their own, as placeholders and in ``exclude``.
DIMENSIONS = tuple(name for name in Dimensions.__struct_fields__ if name not in ("environ", "arguments"))
#: What only a node can fill in.
NODE_WORDS = ("nodes", "node_rank", "master", "port")


def _check_set(path: str, value: str | list[int] | list[str]) -> None:
    try:
        numbers = numbers_of(value)
    except ValueError as error:
        raise _PartError(path, str(error)) from error
    if numbers is not None and len(set(numbers)) != len(numbers):
        raise _PartError(path, "a number is given twice")


def numbers_of(value: str | list[int] | list[str]) -> tuple[int, ...] | None:
    """The numbers of a set as it is written; None for ``auto``.

    Raises:
        ValueError: it is no set.

    >>> numbers_of("0-2,8"), numbers_of([3, 1]), numbers_of("auto")
    ((0, 1, 2, 8), (3, 1), None)
    """
    if not isinstance(value, str):
        if not value:
            raise ValueError("an empty set; leave the dimension out for all devices")
        return tuple(map(int, value))
    if value == "auto":
        return None
    out: list[int] = []
    for part in value.split(","):
        match = re.fullmatch(r"\s*(\d{1,4})(?:-(\d{1,4}))?\s*", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last or last > MOST_DEVICE:
            raise ValueError(f"a set as 0-3,8 with numbers to {MOST_DEVICE}, or auto, not {value[:40]!r}")
        out.extend(range(first, last + 1))
    return tuple(out)


def _reworded(said: str, data: Any) -> tuple[str, str]:
    """msgspec's message as (path, sentence)."""
    message, _, place = said.partition(" - at `")
    path = place.rstrip("`").removeprefix("key` in `").removeprefix("$").removeprefix(".").replace("[...]", "")
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", message, re.S)
    if unknown:
        kind = Dimensions if path == "placements" else Spec
        inner = f"{path}.{unknown[1][:60]}" if path else unknown[1][:60]
        return inner, f"no such key; there are {', '.join(kind.__struct_fields__)}"
    return path, message[0].lower() + message[1:] + _quoted(path, data)


def _quoted(path: str, data: Any) -> str:
    """What stands at ``path``, where it is a text."""
    for key, index in re.findall(r"([A-Za-z_]\w*)|\[(\d+)\]", path):
        try:
            data = data[key or int(index)]
        except (KeyError, IndexError, TypeError):
            return ""
    return f", not {data[:40]!r}" if isinstance(data, str) else ""
