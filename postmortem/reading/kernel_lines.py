"""Lines of a node's kernel: processes killed for memory, GPUs that fail, links that go down, tasks that hang in it.

Rule of this file: pure. A line counts whatever wraps it (dmesg, journalctl, syslog).
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime

from ..evidence import Kernel, Source
from .prefixes import Line

_MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"
#: As dmesg -T writes a date, maybe behind the name of a node, and as systemd and syslog do.
_CTIME = re.compile(r"\[[A-Z][a-z]{2} ([A-Z][a-z]{2}) ([ \d]\d) (\d\d:\d\d:\d\d) (\d{4})\]")
_ISO = re.compile(r"\[?(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)")
_MOST_BEFORE = 200

_ROWS: tuple[tuple[str, str, re.Pattern[str]], ...] = (
    ("oom", "oom-kill:", re.compile(r"oom-kill:constraint=(?P<text>\w{1,40}).{0,2000}?\bpid=(?P<pid>\d{1,10})")),
    (
        "oom",
        "Killed process",
        re.compile(
            r"(?P<text>Memory cgroup out of memory|Out of memory)[:,]? .{0,20}?Killed process (?P<pid>\d{1,10})"
        ),
    ),
    (  # Before Linux 4.19 the reason and what was done were lines of their own.
        "oom",
        "Kill process",
        re.compile(r"(?P<text>Memory cgroup out of memory|Out of memory): Kill process (?P<pid>\d{1,10}) "),
    ),
    (
        "xid",
        "NVRM: Xid",
        re.compile(
            r"NVRM: Xid \(PCI:(?P<pci>[0-9a-fA-F:.]{4,20})\): (?P<number>\d{1,4})"
            r"(?:, pid='?(?P<pid>\d{1,10})'?)?(?:.{0,60}?, (?P<text>[A-Z].{0,200}))?"
        ),
    ),
    (
        "xid",
        "fallen off the bus",
        re.compile(
            r"GPU (?:at )?(?:PCI:)?(?P<pci>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})"
            r"(?:\.\d)?: .{0,40}fallen off the bus"
        ),
    ),
    (
        "xid",
        "lost from bus",
        re.compile(r"amdgpu (?P<pci>[0-9a-fA-F:]{7,13})\.\d: .{0,40}device lost from bus"),
    ),
    (
        "gpu_reset",
        "GPU reset begin",
        re.compile(r"amdgpu (?P<pci>[0-9a-fA-F:]{7,13})\.\d: (?:amdgpu: )?GPU reset begin"),
    ),
    # Of Intel's drivers, xe and the older i915.
    (
        "gpu_reset",
        "Engine reset: ",
        re.compile(r"xe (?P<pci>[0-9a-fA-F:]{7,13})\.\d: \[drm\] (?:GT\d{1,2}: )?Engine reset: "),
    ),
    (
        "gpu_reset",
        "GPU HANG: ",
        re.compile(
            r"i915 (?P<pci>[0-9a-fA-F:]{7,13})\.\d: \[drm\] GPU HANG: ecode [0-9a-fA-F:]{1,40}"
            r"(?:, in (?P<text>.{1,40}?) \[(?P<pid>\d{1,10})\])?"
        ),
    ),
    ("sxid", "SXid", re.compile(r"SXid \(PCI:(?P<pci>[0-9a-fA-F:.]{4,20})\): (?P<number>\d{1,6})")),
    ("link_down", "ink down", re.compile(r"(?P<device>[\w.:-]{1,60}): (?:NIC )?Link (?:is )?[Dd]own")),
    ("link_down", "Link down", re.compile(r"(?P<device>\S{1,60})[: ]+Link down")),
    ("link_down", "link state DOWN", re.compile(r"(?P<device>[a-z]\w{1,20}): Port \d{1,3}: link state DOWN")),
    ("link_down", "link becomes", re.compile(r"(?P<device>\w{1,40}): link (?:becomes|is) (?:not ready|down)")),
    (
        "hung_task",
        "blocked for more than",
        re.compile(r"task (?P<text>.{1,60}?):(?P<pid>\d{1,10}) blocked for more than (?P<number>\d{1,6}) seconds"),
    ),
    (
        "storage",
        "not responding",
        re.compile(r"(?P<text>(?:nfs|NFS|lustre|Lustre|ceph): server (?P<device>\S{1,120}) not responding)"),
    ),
    ("segfault", "segfault at", re.compile(r"(?P<text>[^\s\[]{1,60})\[(?P<pid>\d{1,10})\]: segfault at ")),
)
#: Words that a line of a kernel holds, for who looks for lines that are worth reading.
WORDS = tuple(words for _, words, _ in _ROWS)


def statements(line: Line, node: str, source: Source) -> Iterator[Kernel]:
    """What ``line`` says, if it is one of a kernel; ``node`` is where the file comes from."""
    for name, words, pattern in _ROWS:
        if words in line.text and (found := pattern.search(line.text)):
            said = found.groupdict()
            yield Kernel(
                node=line.node or node,
                source=source,
                name=name,
                pid=int(said["pid"]) if said.get("pid") else None,
                pci=pci(said.get("pci") or ""),
                device=said.get("device") or "",
                number=int(said.get("number") or -1),
                text=said.get("text") or "",
            )
            return


def time_of(raw: str) -> float | None:
    """When a line was written, by its date with a year, as Unix seconds as if its clock were UTC.

    >>> time_of("[Thu Jan  1 00:01:00 1970] NVRM: Xid"), time_of("1970-01-01T00:01:00+02:00 n"), time_of("[60.1] NVRM")
    (60.0, 60.0, None)
    """
    if found := _CTIME.search(raw[:_MOST_BEFORE]):
        month, day, clock, year = found.groups()
        text = f"{year}-{_MONTHS.find(month) // 3 + 1:02}-{int(day):02}T{clock}"
    elif found := _ISO.match(raw):
        text = f"{found[1]}T{found[2]}"
    else:
        return None
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def pci(text: str) -> str:
    """The bus id of a device as the kernel has it, without its function: 0000:9b:00.

    >>> pci("00000000:9B:00.0")
    '0000:9b:00'
    """
    parts = text.lower().partition(".")[0].split(":")
    return ":".join([parts[0][-4:], *parts[1:]]) if len(parts) == 3 else text.lower()
