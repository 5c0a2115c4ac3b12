"""What ``paceline doctor`` asks of what runs: who keeps up, what could not be used, what waits on this disk.

Rule of this file: as in ``checks.py``: no check raises for what it is there to find. Which answer is well is decided by
pure functions; asking is done beside them.
"""

import http.client
import os
import ssl
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from paceline import tls, wire
from paceline.commands import stack_state
from paceline.commands.checks import Check
from paceline.delivery.spool import SpoolError
from paceline.delivery.spool_depth import Depth, depth
from paceline.health_check import ANSWER_S, get, on_loopback
from paceline.history.manifest import Manifest
from paceline.history.store import StoreError, open_store
from paceline.http_login import cause
from paceline.install import install
from paceline.kafka.backlog import UNREPORTED, GroupLag, Held, group_lags, held
from paceline.kafka.errors import BusError
from paceline.kafka.settings import BrokerSettings
from paceline.patience import patient
from paceline.settings import ARCHIVE, CONTROL_URL, SettingError
from paceline.topics import BY_NAME, COLLECTIVE, DEADLETTER, DEVICE, HOST, OP, STREAMS_GROUP
from paceline.visible import without_login
from paceline.words import age, many

#: A group that is further behind than this falls behind rather than works: seconds of a thousand nodes' messages.
LAG_WARN = 10_000
#: A dead letter younger than this is news, and so is a commit of an archive; a spool that waits longer is stuck.
RECENT_S, STUCK_S = 3600.0, 60.0
#: What a worker reads, and how long one that has some of it to read may take until it has committed more: it stores its
#: state, and then commits, every two seconds.
JUDGED, COMMITS_S = {STREAMS_GROUP: (OP, COLLECTIVE, DEVICE, HOST)}, 10.0
#: States of a group without members.
NOBODY = ("Empty", "Dead")
#: Where the services of this machine answer unless they were told otherwise.
LOCAL = {
    "streams": "http://127.0.0.1:6066/readyz",
    "forecaster": "http://127.0.0.1:8000/readyz",
    "control": "http://127.0.0.1:8002/readyz",
    "page": "http://127.0.0.1:8501/_stcore/health",
}
#: Those serve HTTPS where they are given a certificate.
SERVE_TLS = ("forecaster", "control", "page")
_START = {
    "streams": "`paceline streams --web-port 6066`",
    "forecaster": "`paceline forecaster`",
    "control": "`paceline control`",
    "page": "`paceline ui`",
}


def lag(settings: BrokerSettings) -> list[Check]:
    """How far the groups that own Paceline's prefix are behind.

    Raises:
        BusError: the brokers do not answer.
    """
    try:
        groups = group_lags(settings, "paceline", JUDGED)
        return keeping_up(groups, stalled=_stalled(settings, groups))
    except BusError as error:
        return [_not_allowed("lag", error)]


def _stalled(settings: BrokerSettings, groups: list[GroupLag]) -> bool:
    """Whether the workers have messages to read and commit none of them for ``COMMITS_S`` seconds."""
    end_s, now = time.monotonic() + COMMITS_S, groups
    while waits(groups, now):
        if time.monotonic() >= end_s:
            return True
        time.sleep(1.0)
        now = group_lags(settings, STREAMS_GROUP, JUDGED)
    return False


def waits(before: list[GroupLag], now: list[GroupLag]) -> bool:
    """Whether the workers' group has members, has read nothing between the two, and has messages to read in both."""
    first, last = ({group.group: group for group in groups}.get(STREAMS_GROUP) for groups in (before, now))
    if first is None or last is None or last.state in NOBODY:
        return False
    return any(first.lag.values()) and any(last.lag.values()) and last.read <= first.read


def _not_allowed(name: str, error: BusError) -> Check:
    """What may not be asked is not measured. Any other ``error`` is raised again."""
    if not error.permanent:
        raise error
    return Check(name, "warn", f"not measured: {error.cause}", error.mend)


def keeping_up(groups: list[GroupLag], *, stalled: bool = False) -> list[Check]:
    """One line a group, and one where no worker was ever there; ``stalled``: the workers do not read on."""
    checks = [_group(group, stalled and group.group == STREAMS_GROUP) for group in groups]
    if STREAMS_GROUP not in [group.group for group in groups]:
        says = "no worker has read anything yet, or its group is not visible to this login: there are no verdicts"
        checks.append(Check("lag", "warn", says, "start one with `paceline streams`"))
    return checks


def _group(group: GroupLag, stalled: bool) -> Check:
    behind = sum(group.lag.values())
    by_topic = sorted(((count, name) for name, count in group.lag.items() if count), reverse=True)
    names = ", ".join(f"{BY_NAME[name].short if name in BY_NAME else name} {count}" for count, name in by_topic[:6])
    # The embedded broker lists groups without their states; whether this one reads is seen by its commits.
    state = "state not reported by this broker" if group.state == UNREPORTED else group.state.lower()
    says = f"{group.group} ({state}) is {many(behind, 'message')} behind" + (f": {names}" if names else "")
    if group.state in NOBODY:
        fix = "start a worker with `paceline streams`" if group.group == STREAMS_GROUP else "start its reader again"
        return Check("lag", "fail" if behind else "warn", f"{says}; it has no reader", fix)
    if stalled:
        fix = "see its log (with `paceline up`: streams.log), then restart it"
        return Check("lag", "fail", f"{says}, and reads none of them: its worker hangs or has not joined", fix)
    if behind > LAG_WARN:
        fix = "start more workers (up to 12); if the lag grows, check their logs and /metrics"
        return Check("lag", "warn", says, fix)
    return Check("lag", "ok", says)


def dead_letters(settings: BrokerSettings) -> Check:
    """What could not be used, and the newest reason.

    Raises:
        BusError: the brokers do not answer.
    """
    try:
        return refused(held(settings, DEADLETTER), time.time())
    except BusError as error:
        return _not_allowed("dead letters", error)


def refused(letters: Held, now_s: float) -> Check:
    """What is on the topic, at ``now_s`` (Unix time)."""
    if not letters.messages:
        return Check("dead letters", "ok", "none")
    fix = f"read them with `paceline tail {DEADLETTER.short}`"
    try:
        newest = wire.decode(DEADLETTER, letters.newest or b"")
    except wire.WireError as error:
        return Check("dead letters", "warn", f"{letters.messages}; the newest is not readable: {error}", fix)
    age_s = max(0.0, now_s - newest.time_s)
    says = f"{letters.messages}; the newest {age(now_s, newest.time_s)}, of {newest.topic}: {newest.reason[:200]}"
    return Check("dead letters", "warn" if age_s < RECENT_S else "ok", says, fix if age_s < RECENT_S else None)


def services(asked: list[str], environ: Mapping[str, str]) -> list[Check]:
    """Whether the services at the URLs of ``asked`` are ready, and those of this machine where they run."""
    try:
        trust, own = tls.trusting(environ), on_loopback(environ)
    except SettingError as error:
        return [Check("settings", "fail", str(error), "correct or unset it")]
    checks = [answer("service", url, trust, must=True) for url in asked]
    stacks = stack_state.running(stack_state.folder(environ), stack_state.Machine())
    for place in places(environ, stacks, own_tls=own is not None):
        if place.url not in asked:
            checks.append(answer(place.name, place.url, trust if place.named else own, must=place.must))
    return checks


class Place(NamedTuple):
    """Where a service is asked, whether it ``must`` answer there, and whether settings have ``named`` it."""

    name: str
    url: str
    must: bool
    named: bool = False


def places(environ: Mapping[str, str], stacks: Sequence[stack_state.Stack], *, own_tls: bool) -> list[Place]:
    """Where the services are: control where the settings say, others where the newest of the running ``stacks`` has
    them, else at their usual ports, by HTTPS where ``own_tls``: there they need not be."""
    usual = {
        name: url.replace("http://", "https://") if own_tls and name in SERVE_TLS else url
        for name, url in LOCAL.items()
    }
    found = {name: Place(name, url, must=False) for name, url in usual.items()}
    for name in [*found] if stacks else []:
        if address := stacks[0].addresses.get(name):
            found[name] = Place(name, address + urlsplit(found[name].url).path, must=True)
    if environ.get(CONTROL_URL.name) and "control" in found:
        found["control"] = Place("control", f"{CONTROL_URL.read(environ).rstrip('/')}/readyz", must=True, named=True)
    return [*found.values()]


def answer(name: str, url: str, trust: ssl.SSLContext | None = None, *, must: bool) -> Check:
    """What the service at ``url`` says of itself; nothing there is a failure only where one ``must`` be."""
    fix = f"start it: {_START[name]}" if name in _START else "start it, or correct --ask"
    asked, url = url, without_login(url)
    try:
        status, said = get(asked, trust, patient(ANSWER_S, os.environ))
    except ConnectionRefusedError:
        where = f"nothing listens at {url}"
        return Check(name, "fail", where, fix) if must else Check(name, "info", f"{where}: not run here")
    except TimeoutError:
        says = f"no answer from {url} in {ANSWER_S:.0f} s: the process behind it hangs, or its network is cut"
        return Check(name, "fail", says, "see its log, then restart it")
    except (OSError, http.client.HTTPException, ValueError) as error:
        return Check(name, "fail" if must else "warn", f"no answer from {url}: {cause(error)}", fix)
    if status == 200:
        return Check(name, "ok", f"{url}: {said}")
    if status == 503:
        return Check(name, "fail", f"{url} is not ready: {said}", "see its log, and fix what it waits for")
    says = f"{url} answers {status}: {said}"
    return Check(name, "fail" if must else "warn", says, "is that port another program's? see --ask")


def archive(environ: Mapping[str, str]) -> list[Check]:
    """The archive that the settings name, if they name one."""
    if not (where := ARCHIVE.read(environ)):
        return []
    try:
        return [kept(where, open_store(where, environ).newest(), time.time())]
    except ModuleNotFoundError as error:
        return [Check("archive", "warn", f"{where}: {error.name} is not installed", install("history"))]
    except (StoreError, OSError) as error:
        return [Check("archive", "fail", str(error), "check that it exists and is readable, or unset PACELINE_ARCHIVE")]


def kept(where: str, newest: Manifest | None, now_s: float) -> Check:
    """Whether somebody writes the archive ``where``, last committed as ``newest``, at ``now_s`` (Unix time)."""
    start = f"paceline archive --to {where}"
    if newest is None:
        return Check("archive", "warn", f"{where}: empty", start)
    rows, age_s = sum(file.rows for file in newest.files), max(0.0, now_s - newest.time_s)
    says = (
        f"{where}: {many(rows, 'row')} in {many(len(newest.files), 'file')}, last written {age(now_s, newest.time_s)}"
    )
    if age_s < RECENT_S:
        return Check("archive", "ok", says)
    return Check("archive", "warn", says, f"unless nothing was published since: {start}")


def spool(folder: Path) -> Check:
    """What waits on this node's disk for the brokers."""
    if not folder.is_dir():
        return Check("spool", "info", f"{folder}: no such folder, nothing waits")
    try:
        return waiting(folder, depth(folder), time.time())
    except SpoolError as error:
        return Check("spool", "warn", str(error), "run the doctor as the user whose messages they are")


def waiting(folder: Path, found: Depth, now_s: float) -> Check:
    """Whether ``found`` in ``folder`` is on its way at ``now_s`` (Unix time)."""
    if found.oldest_s is None:
        return Check("spool", "ok", f"{folder}: nothing waits")
    age_s = max(0.0, now_s - found.oldest_s)
    says = f"{folder}: up to {found.messages} messages, {found.bytes} bytes, the oldest for {age_s:.0f} s"
    if age_s < STUCK_S:
        return Check("spool", "ok", says)
    fix = "they are sent once their sender reaches a broker: start it again with the same spool"
    return Check("spool", "warn", says, fix)
