"""The regression set: what the analysis says of each recording beside this file; ``make regression`` writes it anew.

Rule of this file: it knows ``paceline analyze`` and nothing inside it, so that the set outlives every move of the code.
"""

import contextlib
import hashlib
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from streams.analyze import main as analyze

HERE = Path(__file__).parent
ENDING = ".jsonl.zst"
RECORDINGS = sorted(path.name.removesuffix(ENDING) for path in HERE.glob(f"*{ENDING}"))
#: Windows are many: their number and hash stand for them, a line a recording.
WINDOWS = HERE / "windows.sha256"


@dataclass(frozen=True)
class Output:
    """What is printed for one recording: the findings, the panel with the GPUs' page, and a line about the windows."""

    findings: str
    words: str
    windows: str


def output(name: str) -> Output:
    """Analyze the recording called ``name``, in this process."""
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = analyze([str(HERE / f"{name}{ENDING}"), "--json", "--windows", "--panel", "--gpus"])
        out.flush()
    if status:
        raise RuntimeError(f"{name}: exit status {status}: {err.getvalue()}")
    lines = out.buffer.getvalue().decode().splitlines(keepends=True)
    windows = [line for line in lines if "window" in json.loads(line)]
    findings = [line for line in lines if "window" not in json.loads(line)]
    digest = hashlib.sha256("".join(windows).encode()).hexdigest()
    return Output("".join(findings), err.getvalue(), f"{name} {len(windows)} {digest}")


def stored(name: str) -> Output:
    """What was stored for it; nothing where it is new."""
    windows = [line for line in _text(WINDOWS).splitlines() if line.split(" ", 1)[0] == name]
    return Output(_text(_findings(name)), _text(_words(name)), "".join(windows))


def differences(name: str, before: Output, now: Output) -> list[str]:
    """A line for each field of a finding, and each line for people, that is not what it was."""
    told = []
    pairs = zip_longest(before.findings.splitlines(), now.findings.splitlines())
    for number, (old, new) in enumerate(pairs, 1):
        if old != new:
            told += [f"{name}, finding {number}{line}" for line in _fields(old, new)]
    for number, (old, new) in enumerate(zip_longest(before.words.splitlines(), now.words.splitlines()), 1):
        if old != new:
            told.append(f"{name}, line {number} for people: was {old!r}, is {new!r}")
    if before.windows != now.windows:
        told.append(f"{name}, windows: were {before.windows!r}, are {now.windows!r}")
    return told


def _fields(old: str | None, new: str | None) -> list[str]:
    if old is None or new is None:
        one = json.loads(old or new or "")
        return [f" ({one['id']} r{one['revision']}) is {'new' if old is None else 'gone'}: {one['summary']}"]
    was, now = dict(_leaves("", json.loads(old))), dict(_leaves("", json.loads(new)))
    where = f" ({was['id']} r{was['revision']})"
    told = [
        f"{where}, {field}: was {was.get(field, 'absent')}, is {now.get(field, 'absent')}"
        for field in {**was, **now}
        if was.get(field) != now.get(field)
    ]
    return told or [f"{where}: the same fields, written otherwise"]


def _leaves(path: str, value: Any) -> Iterator[tuple[str, str]]:
    """Each field with its path, as in ``evidence.own_time.value``; what has a name goes by it."""
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _leaves(f"{path}.{name}" if path else name, inner)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for number, inner in enumerate(value):
            yield from _leaves(f"{path}.{inner.get('name', number)}", inner)
    else:
        yield path, value if isinstance(value, str) else json.dumps(value)


def rewrite() -> None:
    """Store what is said now, and say what has changed."""
    lines = []
    for name in RECORDINGS:
        before, now = stored(name), output(name)
        for line in differences(name, before, now):
            print(line)
        _findings(name).write_text(now.findings, encoding="utf-8")
        _words(name).write_text(now.words, encoding="utf-8")
        lines.append(now.windows + "\n")
    WINDOWS.write_text("".join(lines), encoding="utf-8")


def _findings(name: str) -> Path:
    return HERE / f"{name}.findings.jsonl"


def _words(name: str) -> Path:
    return HERE / f"{name}.panel.txt"


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


if __name__ == "__main__":
    rewrite()
