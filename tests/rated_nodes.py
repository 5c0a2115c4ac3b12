"""Made-up nodes that were measured: descriptions with rated speeds, as ``paceline benchmark`` has them sent."""

from typing import Any

from paceline.events import DeviceDescribed, NodeDescribed, RatedSpeed

BEGAN_S = 1_700_000_000.0


def speed(device: str, name: str, value: float, time_s: float = 0.0, **fields: Any) -> RatedSpeed:
    """Measured ``time_s`` after the beginning, with an interval of 1 % to both sides."""
    spread = {"low": 0.99 * value, "high": 1.01 * value, "samples": 20, "unit": "flop/s", "busy_ratio": 0.0}
    return RatedSpeed(device=device, name=name, value=value, time_s=BEGAN_S + time_s, **(spread | fields))


def gpu(uuid: str, name: str = "NVIDIA H100", index: int = 0) -> DeviceDescribed:
    return DeviceDescribed(index=index, uuid=uuid, name=name)


def described(
    node: str,
    sequence: int,
    rated: list[RatedSpeed],
    *devices: DeviceDescribed,
    time_s: float | None = None,
    **fields: Any,
) -> NodeDescribed:
    """A node of one kind of processor."""
    cpus: dict[str, Any] = {"cpu_model": "EPYC 9654", "cpu_count": 96, "memory_total_bytes": 2**40, "kernel": "6.8"}
    return NodeDescribed(
        cluster=fields.pop("cluster", "c"),
        producer=fields.pop("producer", f"collector-{node}"),
        sequence=sequence,
        node=node,
        time_s=BEGAN_S + (sequence if time_s is None else time_s),
        rated=rated,
        devices=list(devices),
        **(cpus | fields),
    )
