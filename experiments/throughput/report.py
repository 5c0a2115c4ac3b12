"""The numbers as tables in Markdown, as they stand in docs/benchmarks.md."""

from typing import Any


def text(found: dict[str, Any]) -> str:
    """All that was measured."""
    machine = found["machine"]
    parts = [
        f"{machine['date']}, {machine['cores']} cores of {machine['processor']}, Python {machine['python']}, "
        f"load average before {machine['load_before']:.1f}{', quick run' if found['quick'] else ''}; "
        f"took {found['took_s']:.0f} s"
    ]
    if "throughput" in found:
        parts.append(_rates(found["throughput"], found.get("peers", [])))
    elif "peers" in found:
        parts.append(_rates([], found["peers"]))
    if "delay" in found:
        parts.append(_delays(found["delay"]))
    return "\n\n".join(parts)


def _rates(ours: list[dict[str, Any]], peers: list[dict[str, Any]]) -> str:
    rows = [
        [
            f"`paceline streams`, {one['name']}",
            f"{one['rows']:,}",
            f"{one['rows_a_message']:,}",
            f"{one['rows_per_s']:,.0f}",
            f"{one['rows_per_processor_s']:,.0f}",
            f"{one['named']} of {one['late']}, {one['wrongly_named']} others",
        ]
        for one in ours
    ]
    rows += [
        [
            f"{one['name']} ({one['version']})",
            f"{one['rows']:,}",
            "1",
            f"{one['rows_per_s']:,.0f}",
            f"{one['rows'] / one['processor_s']:,.0f}",
            "-",
        ]
        for one in peers
        if "skipped" not in one
    ]
    left_out = [f"Left out: {one['name']}: {one['skipped']}." for one in peers if "skipped" in one]
    head = ["who", "rows", "rows a message", "rows/s", "rows a processor second", "late ranks named"]
    return "\n".join([_table(head, rows), *left_out])


def _delays(ours: list[dict[str, Any]]) -> str:
    rows = [
        [
            one["name"],
            f"{one['rows_per_s']:,.0f}",
            f"{one['rows_a_message']:,}",
            _quantiles(one["findings"]["from_step_end"]),
            _quantiles(one["findings"]["from_last_message"]),
            _quantiles(one["windows"]),
            f"{one['processor_share']:.0%}",
            f"{one['named']} of {one['late']}, {one['wrongly_named']} others",
        ]
        for one in ours
    ]
    head = ["load", "rows/s", "rows a message", "finding, from the end of its last step"]
    head += ["finding, from the last message with it", "1 s window, from its end", "worker's processor"]
    return _table([*head, "late ranks named"], rows)


def _quantiles(found: dict[str, Any]) -> str:
    if not found["count"]:
        return "-"
    return f"p50 {found['p50_s']:.2f} s, p99 {found['p99_s']:.2f} s ({found['count']:,})"


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
