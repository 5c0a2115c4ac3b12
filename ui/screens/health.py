"""Pipeline health: the broker, each topic's lag and age, nodes, and what could not be used."""

import streamlit as st

from paceline.events import DeviceSamples, HostSamples

from .. import wording
from ..snapshot import Node, Snapshot, TopicLine
from ..wording import NONE, safe

NODES_SHOWN, LETTERS_SHOWN = 12, 8
WHAT = {
    "op": "phases of steps, from the training processes",
    "window": "summaries, from paceline streams",
    "finding": "verdicts, from paceline streams",
    "job": "who takes part, from paceline run",
    "device": "GPUs, from paceline collect",
    "host": "CPU and memory, from paceline collect",
}


def draw(snapshot: Snapshot) -> None:
    """Two columns: the pipeline on the left, machines on the right."""
    left, right = st.columns([1.65, 1], gap="medium")
    with left, st.container(border=True, key="health"):
        _pipeline(snapshot)
    with right, st.container(border=True, key="machines"):
        _machines(snapshot)


def _pipeline(snapshot: Snapshot) -> None:
    link = snapshot.link
    letters = len(snapshot.dead_letters)
    words = [
        f"broker {link.brokers}: {link.state}",
        f"{snapshot.missing} messages missing",
        f"{letters} dead letters" if letters < 50 else "50 dead letters or more",
    ]
    st.html(
        '<div class="pl"><h2 style="margin-top:0">Pipeline health</h2>'
        f'<p class="muted">{safe(" · ".join(words))}</p></div>'
    )
    head = [("topic", ""), ("last message", "n"), ("lag", "n"), ("read", "n"), ("what", "")]
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


def _line(line: TopicLine, now_s: float) -> list[tuple[object, str]]:
    what = WHAT.get(line.topic, "")
    if line.skipped:
        what += f"; {line.skipped:,} skipped to keep up"
    if line.unusable:
        what += f"; {line.unusable:,} unusable, last: {line.reason}"
    return [
        (line.topic, ""),
        (wording.age(now_s, line.last_s), "n"),
        ("-" if line.lag is None else f"{line.lag:,}", "n"),
        (f"{line.messages:,}", "n"),
        (what, ""),
    ]


def _machines(snapshot: Snapshot) -> None:
    st.html('<div class="pl"><h2 style="margin-top:0">Machines</h2></div>')
    if not snapshot.nodes:
        st.html(
            '<div class="pl"><p class="muted">No machine is watched yet: '
            "<code>paceline collect</code> samples a node's GPUs and host.</p></div>"
        )
        return
    rows = [row for node in snapshot.nodes[:NODES_SHOWN] for row in _node(node, snapshot.now_s)]
    st.html(
        wording.table(
            [("node", ""), ("busy", "n"), ("memory", "n"), ("power", "n"), ("heat", "n"), ("as of", "n")], rows
        )
    )
    if len(snapshot.nodes) > NODES_SHOWN:
        st.caption(f"and {len(snapshot.nodes) - NODES_SHOWN} more")


def _node(node: Node, now_s: float) -> list[list[tuple[object, str]]]:
    rows = []
    as_of = (wording.age(now_s, node.last_s), "n")
    if node.host and node.host.time_s:
        rows.append([(f"{node.name} CPU", ""), *_host(node.host), as_of])
    if node.device:
        for index in range(len(node.device.uuids)):
            rows.append([(f"{node.name} GPU {index}", ""), *_device(node.device, index), as_of])
    return rows


def _host(host: HostSamples) -> list[tuple[object, str]]:
    return [
        (wording.ratio(host.cpu_ratio[-1]), "n"),
        (_share(host.memory_used_bytes[-1], host.memory_total_bytes[-1]), "n"),
        ("-", "n"),
        ("-", "n"),
    ]


def _device(device: DeviceSamples, index: int) -> list[tuple[object, str]]:
    """The newest row of one GPU."""
    row = max((at for at, number in enumerate(device.device) if number == index), default=None)
    if row is None:
        return [(NONE, "n"), ("", "n"), ("", "n"), ("", "n")]
    power, heat = device.power_w[row], device.temperature_celsius[row]
    return [
        (wording.ratio(device.utilization_ratio[row]), "n"),
        (_share(device.fb_used_bytes[row], device.fb_total_bytes[row]), "n"),
        (NONE if power is None else f"{power:.0f} W", "n"),
        (NONE if heat is None else f"{heat:.0f} °C", "n"),
    ]


def _share(used: int | None, total: int | None) -> str:
    if used is None:
        return NONE
    return f"{used / 2**30:.1f} GiB" if not total else f"{used / 2**30:.1f} of {total / 2**30:.0f} GiB"
