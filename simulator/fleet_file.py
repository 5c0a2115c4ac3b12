"""A fleet from the text of its YAML file.

Rule of this file: pure. Whoever gets a ``FleetSpec`` from here need not check it again; an error is one sentence that
names the file, the line and the part.
"""

import re
from itertools import chain, islice
from typing import Any

import msgspec

from paceline.decoders import convert
from paceline.yaml_document import YamlDocument, YamlError

from .fleet_checks import PlaceError, check
from .fleet_spec import MOST_NODES, FaultPlan, FleetSpec, JobPlan, NodeGroup, Sampling, Silence, named
from .moments import Length, Moment, moment, seconds


class FleetError(ValueError):
    """A fleet that cannot be: where and why, on one line."""


def read(
    text: str,
    file: str = "the fleet",
    *,
    seed: int | None = None,
    start_s: float | None = None,
    otherwise_s: float | None = None,
) -> FleetSpec:
    """The fleet that ``text``, YAML, describes; ``file`` is how errors call it.

    ``seed`` and ``start_s`` (Unix time) stand for its own where they are given; ``otherwise_s`` is when it starts if
    neither says.

    Raises:
        FleetError: it describes none.
    """
    try:
        document = YamlDocument(text)
    except YamlError as error:
        raise FleetError(f"{file}, {error}") from error
    try:
        spec = convert(document.data, FleetSpec, strict=False, dec_hook=_from_text)
        spec = _completed(spec, seed, start_s if start_s is not None or spec.start is not None else otherwise_s)
        check(spec)
    except msgspec.ValidationError as error:
        path, message = _reworded(str(error), document.data)
        raise FleetError(f"{file}, line {document.line(path)}: {path or 'the whole'}: {message}") from error
    except PlaceError as error:
        raise FleetError(f"{file}, line {document.line(error.path)}: {error.path}: {error}") from error
    return spec


def _completed(spec: FleetSpec, seed: int | None, start_s: float | None) -> FleetSpec:
    """``spec`` with what was asked for instead, and with each job's nodes by name."""
    jobs = []
    for index, job in enumerate(spec.jobs):
        nodes = list(islice(chain.from_iterable(map(named, job.nodes)), MOST_NODES + 1))
        if len(nodes) > MOST_NODES:
            raise PlaceError(f"jobs[{index}].nodes", f"more than {MOST_NODES}")
        jobs.append(msgspec.structs.replace(job, nodes=tuple(nodes)))
    changed: dict[str, Any] = {"jobs": tuple(jobs)}
    if seed is not None:
        changed["seed"] = seed
    if start_s is not None:
        changed["start"] = Moment(unix_s=start_s)
    return msgspec.structs.replace(spec, **changed)


def _from_text(kind: type, value: Any) -> Any:
    """msgspec's way to types of our own."""
    if not isinstance(value, str):
        raise ValueError("a length of time is a word, as 90s")
    return Length(seconds(value)) if kind is Length else moment(value)


_KEYS: dict[str, type[msgspec.Struct]] = {
    "": FleetSpec,
    "nodes[]": NodeGroup,
    "jobs[]": JobPlan,
    "jobs[].faults[]": FaultPlan,
    "silences[]": Silence,
    "sampling": Sampling,
}


def _reworded(said: str, data: Any) -> tuple[str, str]:
    """msgspec's message as (path, sentence)."""
    message, _, place = said.partition(" - at `$")
    path = place.rstrip("`").removeprefix(".")
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", message, re.S)
    if not unknown:
        if message.startswith("Expected"):
            message = message.partition(", got")[0] + _quoted(path, data)
        return path, message[0].lower() + message[1:]
    keys = msgspec.structs.fields(_KEYS[re.sub(r"\[\d+\]", "[]", path)])
    inner = f"{path}.{unknown[1]}" if path else unknown[1]
    return inner, f"no such key; there are {', '.join(key.encode_name for key in keys)}"


def _quoted(path: str, data: Any) -> str:
    """What stands at ``path``, where it is a text."""
    for key, index in re.findall(r"([A-Za-z_]\w*)|\[(\d+)\]", path):
        try:
            data = data[key or int(index)]
        except (KeyError, IndexError, TypeError):
            return ""
    return f", not {data[:40]!r}" if isinstance(data, str) else ""
