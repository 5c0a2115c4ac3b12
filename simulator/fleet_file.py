"""A fleet from the text of its YAML file.

Rule of this file: pure. Whoever gets a ``FleetSpec`` from here need not check it again; an error is one sentence that
names the file, the line and the part.
"""

import re
from typing import Any

import msgspec

from .fleet_checks import PlaceError, check
from .fleet_spec import FaultPlan, FleetSpec, JobPlan, NodeGroup, Sampling, Silence
from .moments import Length, Moment, moment, seconds
from .yaml_document import YamlDocument, YamlError


class FleetError(ValueError):
    """A fleet that cannot be: where and why, on one line."""


def read(text: str, file: str = "the fleet", *, seed: int | None = None, start_s: float | None = None) -> FleetSpec:
    """The fleet that ``text``, YAML, describes; ``file`` is how errors call it.

    ``seed`` and ``start_s`` (Unix time) stand for its own where they are given.

    Raises:
        FleetError: it describes none.
    """
    try:
        document = YamlDocument(text)
    except YamlError as error:
        raise FleetError(f"{file}, {error}") from error
    try:
        spec = msgspec.convert(document.data, FleetSpec, strict=False, dec_hook=_from_text)
        changed = {"seed": seed, "start": None if start_s is None else Moment(unix_s=start_s)}
        spec = msgspec.structs.replace(spec, **{key: value for key, value in changed.items() if value is not None})
        check(spec)
    except msgspec.ValidationError as error:
        path, message = _reworded(str(error), document.data)
        raise FleetError(f"{file}, line {document.line(path)}: {path or 'the whole'}: {message}") from error
    except PlaceError as error:
        raise FleetError(f"{file}, line {document.line(error.path)}: {error.path}: {error}") from error
    return spec


def _from_text(kind: type, value: Any) -> Any:
    """msgspec's way to types of our own."""
    if not isinstance(value, str):
        raise ValueError("a length of time is a word, as 90s")
    return Length(seconds(value)) if kind is Length else moment(value)


_KEYS: dict[str, type[msgspec.Struct]] = {"": FleetSpec, "nodes[]": NodeGroup, "jobs[]": JobPlan, "jobs[].faults[]": FaultPlan}
_KEYS |= {"silences[]": Silence, "sampling": Sampling}


def _reworded(said: str, data: Any) -> tuple[str, str]:
    """msgspec's message as (path, sentence)."""
    message, _, place = said.partition(" - at `$")
    path = place.rstrip("`").removeprefix(".")
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", message, re.S)
    if not unknown:
        return path, message[0].lower() + message[1:] + _quoted(path, data)
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
