"""GPUs, hosts and energy in words.

Rule of this file: pure words. Of many devices the busiest node's and the hottest are not averaged away: above a bound a
row is a node, with its worst device.
"""

from collections.abc import Callable, Sequence

from paceline.energy.tariff import Tariff, joules_in_words
from paceline.words import many

from ..energy import costs, of_job
from ..report import DeviceUse, Episode, HostUse, Report
from .document import Block, Bullets, Heading, Paragraph, Table, Tile, Tiles
from .finding_words import findings_table
from .quantities import UNKNOWN, count, gib, kwh, seconds, share

#: Devices with a row each; of more a row is a node.
MOST_DEVICES = 64
MOST_NODES = 100
#: Jobs whose energy is told one by one.
MOST_ACCOUNTS = 24
#: Share of samples in which a GPU was slowed down from which its row stands out.
_THROTTLED = 0.05


def machine_sections(report: Report, tariff: Tariff) -> list[Block]:
    """What is known of machines; nothing where nobody sampled them."""
    return [
        *_devices(report.devices),
        *_energy(report, tariff),
        *_hosts(report.hosts),
        *_node_findings(report.node_findings),
    ]


def _devices(devices: Sequence[DeviceUse]) -> list[Block]:
    if not devices:
        return []
    blocks: list[Block] = [Heading("Devices"), Tiles(tuple(_tiles(devices)))]
    if len(devices) <= MOST_DEVICES:
        head = ("node", "device", "busy", "memory", "power", "mean °C", "max °C", "throttled", "sampled for")
        slow = tuple(at for at, one in enumerate(devices) if (one.throttled_ratio or 0.0) >= _THROTTLED)
        named = _names(devices)
        return [
            *blocks,
            Table(head, tuple(_row(named(one), one) for one in devices), right=tuple(range(2, 9)), slow=slow),
        ]
    return [*blocks, *_by_node(devices)]


def _tiles(devices: Sequence[DeviceUse]) -> list[Tile]:
    busy = _known(one.utilization_ratio for one in devices)
    hot = _known(one.temperature_max_celsius for one in devices)
    power = _known(one.power_w for one in devices)
    throttled = [one for one in devices if (one.throttled_ratio or 0.0) >= _THROTTLED]
    tiles = [Tile("devices sampled", count(len(devices)))]
    if busy:
        tiles.append(Tile("busy", share(sum(busy) / len(busy)), f"the least busy {share(min(busy))}"))
    if power:
        tiles.append(
            Tile(
                "power",
                f"{sum(power):,.0f} W" if sum(power) < 1e4 else f"{sum(power) / 1e3:,.1f} kW",
                "all devices, on average",
            )
        )
    if hot:
        tiles.append(Tile("hottest", f"{max(hot):.0f} °C"))
    if any(one.throttled_ratio is not None for one in devices):
        tiles.append(
            Tile(
                "throttled",
                count(len(throttled)),
                f"slowed down in {share(_THROTTLED)} of samples or more",
                "slow" if throttled else "good",
            )
        )
    return tiles


def _known(values: object) -> list[float]:
    return [one for one in values if one is not None]  # type: ignore[attr-defined]


def _names(machines: Sequence[DeviceUse | HostUse]) -> Callable[[DeviceUse | HostUse], str]:
    """What the node of each is called: with its cluster, where there are several."""
    several = len({one.cluster for one in machines}) > 1
    return lambda one: f"{one.cluster}/{one.node}" if several else one.node


def _row(node: str, one: DeviceUse) -> tuple[str, ...]:
    limit = f" of {one.power_limit_w:.0f}" if one.power_limit_w is not None else ""
    memory = gib(one.memory_bytes)
    if one.memory_bytes is not None and one.memory_total_bytes:
        memory += f" ({share(one.memory_bytes / one.memory_total_bytes)})"
    return (
        node,
        one.device,
        share(one.utilization_ratio),
        memory,
        UNKNOWN if one.power_w is None else f"{one.power_w:.0f}{limit} W",
        UNKNOWN if one.temperature_mean_celsius is None else f"{one.temperature_mean_celsius:.0f}",
        UNKNOWN if one.temperature_max_celsius is None else f"{one.temperature_max_celsius:.0f}",
        share(one.throttled_ratio),
        seconds(one.seconds),
    )


def _by_node(devices: Sequence[DeviceUse]) -> list[Block]:
    named = _names(devices)
    nodes: dict[str, list[DeviceUse]] = {}
    for one in devices:
        nodes.setdefault(named(one), []).append(one)
    order = sorted(nodes.items(), key=lambda item: (-max(one.throttled_ratio or 0.0 for one in item[1]), item[0]))
    rows = []
    for node, of_it in order[:MOST_NODES]:
        busy, hot = _known(o.utilization_ratio for o in of_it), _known(o.temperature_max_celsius for o in of_it)
        power, throttled = _known(o.power_w for o in of_it), _known(o.throttled_ratio for o in of_it)
        rows.append(
            (
                node,
                str(len(of_it)),
                share(sum(busy) / len(busy)) if busy else UNKNOWN,
                share(min(busy)) if busy else UNKNOWN,
                f"{sum(power):,.0f} W" if power else UNKNOWN,
                f"{max(hot):.0f}" if hot else UNKNOWN,
                share(max(throttled)) if throttled else UNKNOWN,
            )
        )
    head = ("node", "devices", "busy", "least busy", "power", "hottest °C", "most throttled")
    slow = tuple(
        at for at, row in enumerate(order[:MOST_NODES]) if max(o.throttled_ratio or 0.0 for o in row[1]) >= _THROTTLED
    )
    blocks: list[Block] = [Table(head, tuple(rows), right=tuple(range(1, 7)), slow=slow)]
    if len(order) > MOST_NODES:
        blocks.append(
            Paragraph(
                f"{len(order) - MOST_NODES} more nodes, throttled no more than these, are not listed.", quiet=True
            )
        )
    return blocks


def _energy(report: Report, tariff: Tariff) -> list[Block]:
    told = [one for one in report.devices if one.energy_j is not None]
    total = sum(one.energy_j or 0.0 for one in told)
    if not told or total <= 0:
        return []
    tiles = [Tile("energy of devices", kwh(total), f"{many(len(told), 'device')} of {len(report.devices)} reported it")]
    lost, elapsed = sum(job.lost_s for job in report.jobs[:1]), sum(job.elapsed_s for job in report.jobs[:1])
    if len(report.jobs) == 1 and lost and elapsed:
        wasted = total * min(lost / elapsed, 1.0)
        tiles.append(
            Tile("of it in time lost", kwh(wasted), "its share of the time; devices that wait take less", "slow")
        )
        if report.jobs[0].steps:
            tiles.append(Tile("a step", joules_in_words(total / report.jobs[0].steps)))
    if price := costs(total, tariff):
        tiles.append(Tile("cost of it", price[0], "; ".join((*price[1:], "by the prices that are set"))))
    lines = [f"job {one.job}: {of_job(one.energy, tariff)}" for one in report.energies[:MOST_ACCOUNTS]]
    if len(report.energies) > MOST_ACCOUNTS:
        lines.append(f"and {many(len(report.energies) - MOST_ACCOUNTS, 'more job')}")
    return [Heading("Energy"), Tiles(tuple(tiles)), *([Bullets(tuple(lines))] if lines else [])]


def _hosts(hosts: Sequence[HostUse]) -> list[Block]:
    if not hosts:
        return []
    order = sorted(hosts, key=lambda one: (-(one.pressure_cpu_ratio or 0.0), -(one.cpu_ratio or 0.0), one.node))
    named = _names(hosts)
    rows = tuple(
        (
            named(one),
            share(one.cpu_ratio),
            share(one.pressure_cpu_ratio, 1),
            share(one.pressure_io_ratio, 1),
            gib(one.memory_used_bytes) + (f" of {gib(one.memory_total_bytes)}" if one.memory_total_bytes else ""),
        )
        for one in order[:MOST_DEVICES]
    )
    head = ("node", "CPU busy", "waiting for CPU", "waiting for disk", "memory")
    blocks: list[Block] = [Heading("Hosts"), Table(head, rows, right=(1, 2, 3, 4))]
    if len(order) > MOST_DEVICES:
        blocks.append(
            Paragraph(f"The {MOST_DEVICES} of {len(order)} nodes whose processes waited most for a CPU.", quiet=True)
        )
    return blocks


def _node_findings(found: list[Episode]) -> list[Block]:
    return [Heading("Findings on nodes"), findings_table(found, 0.0)] if found else []
