"""Small JSON files that lie beside logs: exits, ports, where ranks run, calls, looks at /proc and stacks, error files.

Rule of this file: pure; a file is known by its fields, never by its name. What fits none of the forms is not ours.
"""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from ..evidence import Call, Exit, Failure, Look, NoDump, Place, Placed, Process, Source, Statement
from . import pods
from .file_names import local_rank_in_path
from .job_lines import classified, failure
from .kernel_lines import pci
from .tracebacks import role_of

_SHORT = re.compile(r"(\S{1,200}) (\S{1,1000}):(\d{1,9})$")
_LONG = re.compile(r"(\S{1,1000}):(\d{1,9})(?: (.{1,200}))?$")
_LONGEST_REASON = 200


def statements(data: Any, name: str, turn: int, rank: int | None) -> list[Statement] | None:
    """What a file's ``data`` says; None where it is of no form that is known. ``turn`` orders files of looks."""
    if not isinstance(data, dict) or not data:
        return None
    if "apiVersion" in data:
        return pods.of_json(data, name)
    if isinstance(data.get("message"), dict | str) and set(data) <= {"message", "error_code", "timestamp"}:
        return _error_file(data["message"], name, rank)
    if (reason := _why_no_dump(data)) is not None:
        whose = data.get("rank", rank)
        return [NoDump(rank=whose, source=Source("fr", name), reason=reason)] if _is_rank(whose) else None
    if "rank" in data and isinstance(data["rank"], int):
        return _line(data, name)
    keys = list(data)
    if all(isinstance(key, str) and key.isdigit() and len(key) < 8 for key in keys):
        return _by_rank({int(key): value for key, value in data.items()}, name, turn)
    if all(isinstance(value, list) and all(_is_rank(one) for one in value) for value in data.values()):
        return list(_by_node(data, name))
    return None


def _is_rank(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10_000_000


def _why_no_dump(data: dict[str, Any]) -> str | None:
    """Why a rank has no flight-recorder dump, as Ray Train writes it in the dump's place; None if it is none of that.

    >>> _why_no_dump({"ray_train_dump_error": "timed out after 30s"}), _why_no_dump({"ok": True, "reason": "-"})
    ('timed out after 30s', None)
    """
    if set(data) == {"ray_train_dump_error"}:
        reason = data["ray_train_dump_error"]
    elif data.get("ok") is False and set(data) <= {"ok", "reason", "rank"}:
        reason = data.get("reason")
    else:
        return None
    return " ".join(reason.split())[:_LONGEST_REASON] or "unknown" if isinstance(reason, str) else None


def _by_node(data: dict[str, Any], name: str) -> Iterator[Statement]:
    for node, ranks in data.items():
        for local, rank in enumerate(ranks):
            yield Placed(rank=rank, node=str(node)[:255], source=Source("ranks", name), local_rank=local)


def _by_rank(data: dict[int, Any], name: str, turn: int) -> list[Statement] | None:
    values = list(data.values())
    if all(isinstance(one, int) and not isinstance(one, bool) and abs(one) < 1000 for one in values):
        return [Exit(rank=rank, source=Source("exits", name), code=code) for rank, code in data.items()]
    if all(isinstance(one, list) and all(isinstance(address, str) for address in one) for one in values):
        return [
            Placed(rank=rank, source=Source("ports", name), addresses=tuple(address[:300] for address in one[:4096]))
            for rank, one in data.items()
        ]
    if all(isinstance(one, dict) for one in values):
        return _of_dicts(data, name, turn)
    return None


def _of_dicts(data: dict[int, dict[str, Any]], name: str, turn: int) -> list[Statement] | None:
    made: list[Statement] = []
    for rank, one in data.items():
        if isinstance(one.get("stack"), list):
            frames = tuple(place for text in one["stack"][:512] if (place := _place(text)) is not None)
            counters = {key: float(value) for key, value in one.items() if isinstance(value, int | float)}
            made.append(Look(rank=rank, source=Source("stacks", name), turn=turn, frames=frames, counters=counters))
        elif {"node", "pid", "gpu", "pci"} & set(one):
            made.append(_placed(rank, one, name))
        elif "code" in one or "exitcode" in one or "signal" in one:
            code = one.get("code", one.get("exitcode"))
            signal = one.get("signal")
            code = code if isinstance(code, int) else -signal if isinstance(signal, int) else None
            if code is not None:
                made.append(Exit(rank=rank, source=Source("exits", name), code=code, pid=_whole(one.get("pid"))))
    return made or None


def _placed(rank: int, one: dict[str, Any], name: str) -> Placed:
    return Placed(
        rank=rank,
        node=str(one.get("node", ""))[:255],
        source=Source("ranks", name),
        pid=_whole(one.get("pid")),
        gpu=_whole(one.get("gpu")),
        pci=pci(str(one.get("pci", ""))[:40]),
    )


def _place(text: Any) -> Place | None:
    """``write_checkpoint job.py:108`` or ``/workspace/job.py:44 sync_gradients``."""
    if not isinstance(text, str):
        return None
    if found := _SHORT.match(text):
        return Place(found[2], int(found[3]), found[1])
    if found := _LONG.match(text):
        return Place(found[1], int(found[2]), found[3] or "")
    return None


def _line(data: dict[str, Any], name: str) -> list[Statement] | None:
    """A row of calls.jsonl or proc.jsonl."""
    rank = data["rank"]
    if not _is_rank(rank):
        return None
    if {"group", "seq", "operation"} <= set(data):
        return [_call(data, name)]
    if "pid" in data and {"state", "wchan", "parent"} & set(data):
        return [
            Process(
                rank=rank,
                node=str(data.get("node", ""))[:255],
                source=Source("proc", name),
                pid=_whole(data["pid"]) or 0,
                parent=_whole(data.get("parent")),
                state=str(data.get("state", ""))[:20],
                wchan=str(data.get("wchan", ""))[:80],
                file=str(data.get("file", ""))[:1000],
            )
        ]
    code = data.get("code", data.get("exitcode"))
    if isinstance(code, int):
        return [
            Exit(
                rank=rank,
                source=Source("exits", name),
                code=code,
                pid=_whole(data.get("pid")),
            )
        ]
    if {"node", "pid", "gpu", "pci"} & set(data):
        return [_placed(rank, data, name)]
    return None


def _call(data: dict[str, Any], name: str) -> Call:
    done = data.get("done")
    return Call(
        rank=data["rank"],
        source=Source("calls", name),
        group=str(data["group"])[:200],
        label=str(data["group"])[:200],
        seq=_whole(data["seq"]) or 0,
        operation=str(data["operation"])[:200],
        size=_bytes(data.get("bytes")),
        dtype=str(data.get("dtype", ""))[:40],
        done=done if isinstance(done, bool) else None,
        place=_place(data.get("line")),
        order=_whole(data["seq"]) or 0,
    )


def _bytes(value: Any) -> int:
    whole = _whole(value)
    return -1 if whole is None else whole


def _error_file(message: Any, name: str, rank: int | None) -> list[Statement]:
    """torchelastic's error file: the exception of the rank, where the script has ``@record``."""
    text, stack = "", ""
    if isinstance(message, dict):
        text = str(message.get("message", ""))[:4000]
        extra = message.get("extraInfo")
        stack = str(extra.get("py_callstack", ""))[:200_000] if isinstance(extra, dict) else ""
    else:
        text = message[:4000]
    kind, _, rest = text.partition(": ")
    source = Source("error_file", name, quote=text[:400])
    frames = tuple(
        Place(file, int(line), function.strip())
        for file, line, function in reversed(
            re.findall(r'File "([^"]{1,1000})", line (\d{1,9}), in (.{1,200})', stack)[:512]
        )
    )
    local = local_rank_in_path(name)
    row = classified(text)
    if row is not None and row[0].name not in ("timeout", "progress"):
        made = failure(*row, rank, "", source, text)
        return [msgspec.structs.replace(made, type=kind, frames=frames, of_local=local)]
    role = role_of(kind, row)
    return [
        Failure(
            rank=rank, source=source, role=role, name="exception", text=rest, type=kind, frames=frames, of_local=local
        )
    ]


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 62 else None
