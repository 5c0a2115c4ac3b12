"""The numbers as tables in Markdown, as they stand in docs/benchmarks.md."""

from typing import Any

from ..machine import headline
from ..markdown import table


def text(found: dict[str, Any]) -> str:
    """All that was measured."""
    parts = [headline(found)]
    if found["busy"]:
        parts.append(f"Beside {found['busy']} processes that did nothing but compute.")
    if "throughput" in found:
        parts.append(_rates(found["throughput"], found.get("peers", [])))
    elif "peers" in found:
        parts.append(_rates([], found["peers"]))
    if "analyze" in found:
        parts.append(_analyses(found["analyze"]))
    if "delay" in found:
        parts.append(_delays(found["delay"]))
    return "\n\n".join(parts)


def _rates(ours: list[dict[str, Any]], peers: list[dict[str, Any]]) -> str:
    rows = [
        [
            f"`paceline streams`, {one['name']}",
            f"{one['rank_steps']:,}",
            f"{one['rank_steps_a_message']:,.0f}",
            f"{one['rank_steps_per_s']:,.0f}",
            f"{one['rank_steps_per_s'] * one['timings_a_rank_step']:,.0f}",
            f"{one['rank_steps_per_processor_s'] * one['timings_a_rank_step']:,.0f}",
            f"{one['bytes_a_rank_step']:,.0f}",
            _memory(one),
            f"{one['named']} of {one['late']}, {one['wrongly_named']} others",
        ]
        for one in ours
    ]
    rows += [
        [
            f"{one['name']} ({one['version']})",
            "-",
            "-",
            "-",
            f"{one['rows_per_s']:,.0f}",
            f"{one['rows'] / one['processor_s']:,.0f}",
            "-",
            "-",
            "-",
        ]
        for one in peers
        if "skipped" not in one
    ]
    left_out = [f"Left out: {one['name']}: {one['skipped']}." for one in peers if "skipped" in one]
    head = ["who", "rank-steps", "rank-steps a message", "rank-steps/s", "timings/s", "timings a processor second"]
    head += ["bytes a rank-step", "memory at most", "late ranks named"]
    told = "A rank-step of ours is seven phases and one collective: 8 timings; a row of the peers is one timing."
    return "\n".join([table(head, rows), "", told, *left_out])


def _analyses(ours: list[dict[str, Any]]) -> str:
    rows = [
        [
            one["name"],
            f"{one['rank_steps']:,}",
            f"{one['rank_steps_a_message']:,.0f}",
            f"{one['us_a_rank_step']:.1f}",
            f"{one['start_s']:.1f}",
            f"{one['bytes_a_rank_step']:,.0f}",
            f"{one['packed_bytes_a_rank_step']:,.0f}",
        ]
        for one in ours
    ]
    head = ["`paceline analyze`", "rank-steps", "rank-steps a message", "us a rank-step, processor time", "s to start"]
    return table([*head, "bytes a rank-step", "on the wire, gzip, a message a batch"], rows)


def _delays(ours: list[dict[str, Any]]) -> str:
    rows = [
        [
            one["name"],
            f"{one['rank_steps_per_s']:,.0f}",
            f"{one['messages']:,}",
            _quantiles(one["findings"]["from_step_end"]),
            _quantiles(one["findings"]["from_last_message"]),
            _quantiles(one["windows"]),
            f"{one['processor_share']:.0%}",
            _memory(one),
            f"{one['worst_send_s']:.2f} s, {one['load_processor_share']:.0%} of a core",
            f"{one['named']} of {one['late']}, {one['wrongly_named']} others",
        ]
        for one in ours
    ]
    head = ["load", "rank-steps/s", "messages", "finding, from the end of its last step"]
    head += ["finding, from the last message with it", "1 s window, from its end", "worker's processor", "its memory"]
    return table([*head, "load late by at most", "late ranks named"], rows)


def _memory(one: dict[str, Any]) -> str:
    return f"{one['memory_peak_bytes'] / 2**20:,.0f} MiB"


def _quantiles(found: dict[str, Any]) -> str:
    if not found["count"]:
        return "-"
    return f"p50 {found['p50_s']:.2f} s, p99 {found['p99_s']:.2f} s ({found['count']:,})"
