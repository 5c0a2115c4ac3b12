"""What ``kubectl get -o yaml`` prints, as plain data: block mappings and lists, one scalar a line.

Rule of this file: pure, bounded in lines and depth. It reads the form that kubectl writes and no other YAML: no
aliases, no tags, no flow but ``{}`` and ``[]``. Every scalar stays text. What follows a line that does not fit is lost
up to the next that does; a cut file ends where it is cut.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

MOST_LINES = 1_000_000
#: A pod's deepest part, an affinity's values, is 12 deep.
_DEEPEST = 40
_KEY = re.compile(
    r"""("(?:[^"\\]|\\.){0,400}"|'[^']{0,400}'|[^\s#'"{\[&*!|>%@`-][^:]{0,400}?|-[^\s:][^:]{0,400}?):(?:\s+(.*))?$"""
)
_BEGIN = re.compile(rb"\s{0,8}(?:---\s*\n)?apiVersion: \S{1,100}\r?\n")


class _Line(NamedTuple):
    indent: int
    text: str


def looks_like(head: bytes) -> bool:
    """Whether a file's first bytes are those of an object that kubectl prints."""
    return bool(_BEGIN.match(head))


def documents(text: str) -> Iterator[dict[str, Any]]:
    """The objects of a file, in which ``---`` may stand between them."""
    lines: list[_Line] = []
    for raw in [*text.splitlines()[:MOST_LINES], "---"]:
        if raw.rstrip() != "---":
            bare = raw.lstrip(" ")
            lines.append(_Line(len(raw) - len(bare), bare.rstrip()))
            continue
        made, _ = _block(lines, 0, 0, 0)
        if isinstance(made, dict):
            yield made
        lines = []


def _block(lines: list[_Line], at: int, indent: int, depth: int) -> tuple[Any, int]:
    """The mapping or list that begins at a line, and the line behind it."""
    if depth > _DEEPEST:
        return None, _behind(lines, at, indent)
    if (at < len(lines) and lines[at].text.startswith(("- ", "-\t"))) or (at < len(lines) and lines[at].text == "-"):
        return _list(lines, at, indent, depth)
    made: dict[str, Any] = {}
    while at < len(lines):
        line = lines[at]
        if line.text and line.indent < indent:
            break
        found = _KEY.match(line.text) if line.indent == indent else None
        if found is None:
            if line.indent == indent and line.text.startswith("- "):
                break
            at += 1
            continue
        made[str(_scalar(found[1]))], at = _value(lines, at, indent, found[2] or "", depth)
    return made, at


def _value(lines: list[_Line], at: int, indent: int, text: str, depth: int) -> tuple[Any, int]:
    """What a key says, on its line or below it, and the line behind that."""
    below = at + 1
    if text:
        behind = _behind(lines, below, indent + 1)
        more = [line.text for line in lines[below:behind]]
        if text[0] in "|>":
            return "\n".join(more), behind
        return _scalar(" ".join([text, *more])), behind
    while below < len(lines) and not lines[below].text:
        below += 1
    if below >= len(lines):
        return None, below
    inner = lines[below].indent
    if inner > indent or (inner == indent and lines[below].text.startswith("-")):
        return _block(lines, below, inner, depth + 1)
    return None, below


def _list(lines: list[_Line], at: int, indent: int, depth: int) -> tuple[list[Any], int]:
    made: list[Any] = []
    while at < len(lines) and lines[at].indent == indent and lines[at].text.startswith("-"):
        text = lines[at].text[1:].lstrip()
        inner = indent + len(lines[at].text) - len(text)
        if _KEY.match(text) or text.startswith("- "):
            lines[at] = _Line(inner, text)
            one, at = _block(lines, at, inner, depth + 1)
        else:
            one, at = _value(lines, at, indent, text, depth)
        made.append(one)
    return made, at


def _behind(lines: list[_Line], at: int, indent: int) -> int:
    """The first line from ``at`` that is indented less."""
    while at < len(lines) and (not lines[at].text or lines[at].indent >= indent):
        at += 1
    return at


def _scalar(text: str) -> Any:
    """
    >>> _scalar('"True"'), _scalar("'it''s'"), _scalar("137"), _scalar("{}")
    ('True', "it's", '137', {})
    """
    if text in ("{}", "[]"):
        return json.loads(text)
    if text[:1] == '"':
        try:
            return str(json.loads(text, strict=False))
        except ValueError:
            return text.strip('"')
    return text[1:-1].replace("''", "'") if text[:1] == "'" == text[-1:] and len(text) > 1 else text
