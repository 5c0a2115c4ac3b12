"""Pipeline health: Paceline itself, the broker, each topic's lag and age, nodes, and what could not be used."""

import math
from collections.abc import Set

import numpy as np
import streamlit as st

from paceline import words
from paceline.words import NONE

from .. import wording
from ..machines import FleetView
from ..snapshot import SenderLine, Snapshot, TopicLine
from ..troubles import troubles, well
from ..wording import safe
from . import findings

NODES_SHOWN, LETTERS_SHOWN, SENDERS_IN_FULL = 12, 8, 200
SHOWN = ("utilization_ratio", "temperature_celsius")
WHAT = {
    "op": "phases of steps, from the training processes",
    "window": "summaries, from paceline streams",
    "finding": "verdicts, from paceline streams",
    "job": "ranks of jobs, from paceline run",
    "device": "GPUs, from paceline collect",
    "host": "CPU and memory, from paceline collect",
    "profile": "kinds of job, from paceline forecaster",
    "forecast": "what comes next, from paceline forecaster",
    "suggestion": "what to do, from paceline streams",
    "balance": "how long ranks computed, from jobs with a balancer",
    "plan": "samples of each rank, from balancers and paceline streams",
    "audit": "results of commands, from the services that were asked",
}


def draw(snapshot: Snapshot, *, full: bool = False) -> None:
    """The broker, the topics, senders and dead letters; ``full`` is on a page of their own."""
    with st.container(border=True, key="health"):
        _pipeline(snapshot, full)


def draw_machines(snapshot: Snapshot) -> None:
    """The newest samples of the nodes, of the job shown in full if there is one, and what is wrong with them."""
    of_job = set(nodes_of_job(snapshot))
    others = [one for one in snapshot.node_findings if not of_job or of_job.intersection(one[-1].nodes)]
    with st.container(border=True, key="machines"):
        _machines(snapshot, of_job)
        findings.draw_others(others, snapshot.job.job if snapshot.job else None)


def nodes_of_job(snapshot: Snapshot) -> tuple[str, ...]:
    """The nodes of the job that is shown in full, as far as they are known."""
    return next((line.nodes for line in snapshot.jobs if snapshot.job and line.name == snapshot.job.name), ())


def _pipeline(snapshot: Snapshot, full: bool) -> None:
    connection = snapshot.connection
    state = "messages cannot be read" if connection.state == "failed" else connection.state
    letters = len(snapshot.dead_letters)
    parts = [
        f"broker {connection.brokers}: {state}",
        f"{snapshot.missing} messages missing",
        f"{letters} dead letters" if letters < 50 else "50 dead letters or more",
    ]
    st.html(
        '<div class="pl"><h2 style="margin-top:0">Pipeline health</h2>'
        f'<p class="muted">{safe(" · ".join(parts))}</p></div>'
    )
    _itself(snapshot, full)
    head = [("topic", ""), ("last message", "n"), ("lag", "n"), ("missing", "n"), ("read", "n")]
    # What is not read yet may hold messages: only then is "never" true.
    read = connection.state == "connected"
    st.html(wording.table(head, [_line(line, snapshot.now_s, read=read) for line in snapshot.topics]))
    if snapshot.dead_letters:
        with st.expander("Dead letters", key="letters", expanded=full):
            rows = [
                [
                    (words.age(snapshot.now_s, letter.time_s), ""),
                    (f"{letter.topic} {letter.partition}/{letter.offset}", ""),
                    (letter.reason, ""),
                ]
                for letter in reversed(snapshot.dead_letters[-(50 if full else LETTERS_SHOWN) :])
            ]
            st.html(wording.table([("when", ""), ("topic, partition/offset", ""), ("reason", "")], rows))


def _itself(snapshot: Snapshot, full: bool) -> None:
    """What is wrong with Paceline itself, and what every sender says of its messages."""
    if snapshot.connection.state == "connected":
        found = troubles(snapshot)
        fixes = [_code(one.mend, snapshot.connection.brokers) for one in found]
        items = [
            f'<li><b>{safe(one.text)}</b><br><span class="muted">{fix}</span></li>'
            for one, fix in zip(found, fixes, strict=True)
        ]
        listed = f"<ul>{''.join(items)}</ul>" if items else f'<p class="muted">{safe(well(snapshot))}</p>'
        st.html(f'<div class="pl" aria-label="Paceline itself">{listed}</div>')
    if snapshot.senders:
        with st.expander("Senders", key="senders", expanded=full):
            head = [
                ("sender", ""),
                ("sent", "n"),
                ("waiting", "n"),
                ("spooled", "n"),
                ("dropped", "n"),
                ("updated", "n"),
            ]
            shown = sorted(snapshot.senders, key=lambda one: (-_unsent(one), one.node, one.service))[
                : SENDERS_IN_FULL if full else NODES_SHOWN
            ]
            st.html(wording.table(head, [_sender(sender, snapshot.now_s) for sender in shown]))
            if len(snapshot.senders) > len(shown):
                st.caption(f"and {len(snapshot.senders) - len(shown)} more")


def _code(text: str, brokers: str) -> str:
    """Words between backticks as the commands that they are."""
    parts = text.split("`")
    return "".join(wording.command(part, brokers) if at % 2 else safe(part) for at, part in enumerate(parts))


def _unsent(sender: SenderLine) -> int:
    account = sender.account
    return account.waiting + account.spooled + sum(account.shed.values())


def _sender(sender: SenderLine, now_s: float) -> list[tuple[object, str]]:
    account = sender.account
    who = f"{sender.service} of {sender.node}" + (f", job {sender.job}" if sender.job else "")
    return [
        (who, ""),
        (f"{account.sent:,}", "n"),
        (f"{account.waiting:,}", "n"),
        (f"{account.spooled:,} ({account.spooled_bytes / 2**20:.1f} MiB)" if account.spooled else "0", "n"),
        (f"{sum(account.shed.values()):,}", "n"),
        (words.age(now_s, sender.as_of_s), "n"),
    ]


def _line(line: TopicLine, now_s: float, *, read: bool) -> list[tuple[object, str]]:
    said = [line.topic]
    if line.last_s is None:
        said.append(WHAT.get(line.topic, ""))
    if line.skipped:
        said.append(f"{line.skipped:,} skipped to keep up")
    if line.unusable:
        said.append(f"{line.unusable:,} unusable, last: {line.reason}")
    return [
        (": ".join(filter(None, said)), ""),
        ("-" if line.last_s is None and not read else words.age(now_s, line.last_s), "n"),
        ("-" if line.lag is None else f"{line.lag:,}", "n"),
        (f"{line.missing:,}", "n"),
        (f"{line.messages:,}", "n"),
    ]


def _machines(snapshot: Snapshot, of_job: Set[str]) -> None:
    st.html('<div class="pl"><h2 style="margin-top:0">Machines</h2></div>')
    if not snapshot.fleet.nodes:
        st.html(f'<div class="pl"><p class="muted">No machine has reported yet. {_collect(snapshot)}</p></div>')
        return
    places = [at for at, node in enumerate(snapshot.fleet.nodes) if not of_job or node in of_job]
    head = [("node", ""), ("CPU", "n"), ("memory", "n"), ("GPUs busy", "n"), ("hottest", "n"), ("updated", "n")]
    if places:
        st.html(wording.table(head, [_node(snapshot.fleet, at, snapshot.now_s) for at in places[:NODES_SHOWN]]))
    else:
        st.html(
            f'<div class="pl"><p class="muted">No machine of this job has reported yet. {_collect(snapshot)}</p></div>'
        )
    if len(places) > NODES_SHOWN:
        st.caption(f"and {len(places) - NODES_SHOWN} more")
    if len(places) < len(snapshot.fleet.nodes):
        st.caption("Machines of other jobs are on the Fleet page.")


def _collect(snapshot: Snapshot) -> str:
    return f"Run {wording.command('paceline collect', snapshot.connection.brokers)} on each node."


def _node(fleet: FleetView, at: int, now_s: float) -> list[tuple[object, str]]:
    cells = [*_host(fleet, at), *_devices(fleet, at)]
    return [(fleet.nodes[at], ""), *((text, "n") for text in cells), (words.age(now_s, float(fleet.node_s[at])), "n")]


def _host(fleet: FleetView, at: int) -> list[str]:
    used, total = (float(fleet.host[f"memory_{name}_bytes"][at]) / 2**30 for name in ("used", "total"))
    memory = NONE if math.isnan(used) else f"{used:.0f} GiB" if math.isnan(total) else f"{used:.0f} of {total:.0f} GiB"
    return [wording.ratio(float(fleet.host["cpu_ratio"][at])), memory]


def _devices(fleet: FleetView, at: int) -> list[str]:
    """A node's GPUs: the median and the least busy, and the hottest."""
    rows = fleet.gpu_node == at
    if not rows.any():
        return ["no GPU", "-"]
    busy, heat = (values[np.isfinite(values)] for values in (fleet.gpu[name][rows] for name in SHOWN))
    shares = NONE if busy.size == 0 else wording.ratio(float(np.median(busy)))
    shares += f", least {wording.ratio(float(busy.min()))}" if busy.size > 1 else ""
    return [shares, f"{heat.max():.0f} °C" if heat.size else NONE]
