"""Pipeline health: Paceline itself, the broker, each topic's lag and age, nodes, and what could not be used."""

import re
from statistics import median

import streamlit as st

from paceline.events import DeviceSamples, HostSamples

from .. import wording
from ..snapshot import NodeView, SenderLine, Snapshot, TopicLine
from ..troubles import troubles
from ..wording import NONE, safe
from . import findings

NODES_SHOWN, LETTERS_SHOWN = 12, 8
WHAT = {
    "op": "phases of steps, from the training processes",
    "op-v1": "phases of steps, from sidecars of an earlier release",
    "window": "summaries, from paceline streams",
    "finding": "verdicts, from paceline streams",
    "job": "who takes part, from paceline run",
    "device": "GPUs, from paceline collect",
    "host": "CPU and memory, from paceline collect",
    "profile": "kinds of job, from paceline forecaster",
    "forecast": "what comes next, from paceline forecaster",
    "suggestion": "what to do, from paceline streams",
    "audit": "what came of commands, from who was asked",
}


def draw(snapshot: Snapshot) -> None:
    """The broker, the topics and the dead letters."""
    with st.container(border=True, key="health"):
        _pipeline(snapshot)


def draw_machines(snapshot: Snapshot) -> None:
    """Each node's newest samples."""
    with st.container(border=True, key="machines"):
        _machines(snapshot)
        findings.draw_others(snapshot.node_findings, snapshot.job.job if snapshot.job else None)


def _pipeline(snapshot: Snapshot) -> None:
    connection = snapshot.connection
    state = "its messages cannot be read" if connection.state == "failed" else connection.state
    letters = len(snapshot.dead_letters)
    words = [
        f"broker {connection.brokers}: {state}",
        f"{snapshot.missing} messages missing",
        f"{letters} dead letters" if letters < 50 else "50 dead letters or more",
    ]
    st.html(
        '<div class="pl"><h2 style="margin-top:0">Pipeline health</h2>'
        f'<p class="muted">{safe(" · ".join(words))}</p></div>'
    )
    _itself(snapshot)
    head = [("topic", ""), ("last message", "n"), ("lag", "n"), ("missing", "n"), ("read", "n")]
    st.html(wording.table(head, [_line(line, snapshot.now_s) for line in snapshot.topics]))
    if snapshot.dead_letters:
        with st.expander("Dead letters", key="letters"):
            rows = [
                [
                    (wording.age(snapshot.now_s, letter.time_s), ""),
                    (f"{letter.topic} {letter.partition}/{letter.offset}", ""),
                    (letter.reason, ""),
                ]
                for letter in reversed(snapshot.dead_letters[-LETTERS_SHOWN:])
            ]
            st.html(wording.table([("when", ""), ("topic, partition/offset", ""), ("reason", "")], rows))


def _itself(snapshot: Snapshot) -> None:
    """What is wrong with Paceline itself, and what every sender says of its messages."""
    if snapshot.connection.state == "connected":
        found = troubles(snapshot)
        items = [f'<li><b>{safe(one.text)}</b><br><span class="muted">{_code(one.mend)}</span></li>' for one in found]
        well = '<p class="muted">Nothing is missing, held back or refused.</p>'
        words = f"<ul>{''.join(items)}</ul>" if items else well
        st.html(f'<div class="pl" aria-label="Paceline itself">{words}</div>')
    if snapshot.senders:
        with st.expander("Senders", key="senders"):
            head = [("sender", ""), ("sent", "n"), ("waiting", "n"), ("spooled", "n"), ("shed", "n"), ("as of", "n")]
            shown = sorted(snapshot.senders, key=lambda one: (-_unsent(one), one.node, one.service))[:NODES_SHOWN]
            st.html(wording.table(head, [_sender(sender, snapshot.now_s) for sender in shown]))
            if len(snapshot.senders) > NODES_SHOWN:
                st.caption(f"and {len(snapshot.senders) - NODES_SHOWN} more")


def _code(text: str) -> str:
    """Words between backticks as code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", safe(text))


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
        (wording.age(now_s, sender.as_of_s), "n"),
    ]


def _line(line: TopicLine, now_s: float) -> list[tuple[object, str]]:
    words = [line.topic]
    if line.last_s is None:
        words.append(WHAT.get(line.topic, ""))
    if line.skipped:
        words.append(f"{line.skipped:,} skipped to keep up")
    if line.unusable:
        words.append(f"{line.unusable:,} unusable, last: {line.reason}")
    return [
        (": ".join(filter(None, words)), ""),
        (wording.age(now_s, line.last_s), "n"),
        ("-" if line.lag is None else f"{line.lag:,}", "n"),
        (f"{line.missing:,}", "n"),
        (f"{line.messages:,}", "n"),
    ]


def _machines(snapshot: Snapshot) -> None:
    st.html('<div class="pl"><h2 style="margin-top:0">Machines</h2></div>')
    if not snapshot.nodes:
        st.html(
            '<div class="pl"><p class="muted">No machine is watched yet: '
            "<code>paceline collect</code> samples a node's GPUs and host.</p></div>"
        )
        return
    head = [("node", ""), ("CPU", "n"), ("memory", "n"), ("GPUs busy", "n"), ("hottest", "n"), ("as of", "n")]
    st.html(wording.table(head, [_node(node, snapshot.now_s) for node in snapshot.nodes[:NODES_SHOWN]]))
    if len(snapshot.nodes) > NODES_SHOWN:
        st.caption(f"and {len(snapshot.nodes) - NODES_SHOWN} more")


def _node(node: NodeView, now_s: float) -> list[tuple[object, str]]:
    host = _host(node.host) if node.host and node.host.time_s else [(NONE, "n"), (NONE, "n")]
    device = _devices(node.device) if node.device else [("no GPU", "n"), ("-", "n")]
    return [(node.name, ""), *host, *device, (wording.age(now_s, node.last_s), "n")]


def _host(host: HostSamples) -> list[tuple[object, str]]:
    used, total = host.memory_used_bytes[-1], host.memory_total_bytes[-1]
    memory = NONE if used is None else f"{used / 2**30:.0f} GiB"
    if used is not None and total:
        memory = f"{used / 2**30:.0f} of {total / 2**30:.0f} GiB"
    return [(wording.ratio(host.cpu_ratio[-1]), "n"), (memory, "n")]


def _devices(device: DeviceSamples) -> list[tuple[object, str]]:
    """The GPUs' newest rows: the median and the least busy, and the hottest."""
    newest = {number: row for row, number in enumerate(device.device)}
    if not newest:
        return [("no GPU", "n"), ("-", "n")]
    busy = [ratio for row in newest.values() if (ratio := device.utilization_ratio[row]) is not None]
    heat = [celsius for row in newest.values() if (celsius := device.temperature_celsius[row]) is not None]
    words = f"{wording.ratio(median(busy))}, least {wording.ratio(min(busy))}" if len(busy) > 1 else NONE
    return [
        (wording.ratio(busy[0]) if len(busy) == 1 else words, "n"),
        (f"{max(heat):.0f} °C" if heat else NONE, "n"),
    ]
