"""How the GPUs of each job were used over the last hour, from windows of a minute.

Rule of this file: pure and bounded. The GPUs that a job has on one node are one account, in buckets of ten minutes
by that node's own clock, so that clocks that are hours apart do not mix; an hour is six buckets that are full.
"""

from collections.abc import Iterator

import msgspec

from paceline.events import LONG_WINDOW_S, DeviceWindow

from ..stored import Kept, Stored

WINDOW_S, BUCKET_S, HOUR_BUCKETS = LONG_WINDOW_S, 600.0, 6
#: Jobs on nodes that are kept, and GPUs of a job on a node.
MOST_ACCOUNTS, MOST_DEVICES = 8192, 256
#: A node whose account was not heard of for so long has left the job.
LEFT_S = 900.0
#: A node whose GPUs no job has used for so long is free.
UNUSED_S = 180.0


class Bucket(msgspec.Struct, array_like=True):
    """Ten minutes: windows, idle ones, and sums over those that measured it."""

    number: int
    windows: int = 0
    idle: int = 0
    busy: float = 0.0
    sm_windows: int = 0
    sm: float = 0.0
    tensor_windows: int = 0
    tensor: float = 0.0
    memory_windows: int = 0
    memory_most: float = 0.0


class Account(msgspec.Struct, kw_only=True):
    """What one job does with the GPUs of one node. ``devices``: GPU -> the start of its newest window."""

    first_s: float
    heard_s: float
    devices: dict[str, float] = {}
    buckets: list[Bucket] = []

    def add(self, event: DeviceWindow, busy: float, idle_ratio: float) -> bool:
        """Count a window in, once; whether a bucket has become full with it."""
        newest_s = self.devices.get(event.device, -1.0)
        if newest_s - 3600.0 < event.start_s <= newest_s:
            return False
        if event.device not in self.devices and len(self.devices) >= MOST_DEVICES:
            return False
        self.devices[event.device] = event.start_s
        number = int((event.start_s - self.first_s) // BUCKET_S)
        last = self.buckets[-1].number if self.buckets else None
        if last is not None and not last - HOUR_BUCKETS <= number <= last + 10_000:
            self.buckets, self.first_s, number, last = [], event.start_s, 0, None  # Its clock was set.
        full = last is not None and number > last
        if last is None or number > last:
            self.devices = {one: at_s for one, at_s in self.devices.items() if at_s >= event.start_s - LEFT_S}
            self.buckets = [*self.buckets[-HOUR_BUCKETS:], Bucket(number)]
        bucket = next((one for one in self.buckets if one.number == number), None)
        if bucket is not None:
            _count(bucket, event, busy, idle_ratio)
        return full

    def hour(self) -> list[Bucket]:
        """The buckets of the last hour that is over, or nearly so."""
        newest = self.buckets[-1].number if self.buckets else 0
        full = newest if self.buckets and self._is_full(self.buckets[-1]) else newest - 1
        return [one for one in self.buckets if full - HOUR_BUCKETS < one.number <= full]

    def _is_full(self, bucket: Bucket) -> bool:
        return bucket.windows >= (BUCKET_S / WINDOW_S - 2) * max(len(self.devices), 1)


def _count(bucket: Bucket, event: DeviceWindow, busy: float, idle_ratio: float) -> None:
    bucket.windows += 1
    bucket.idle += busy < idle_ratio
    bucket.busy += busy
    if (sm := _ratio(event.mean.get("sm_active_ratio"))) is not None:
        bucket.sm_windows, bucket.sm = bucket.sm_windows + 1, bucket.sm + sm
    if (tensor := _ratio(event.mean.get("tensor_active_ratio"))) is not None:
        bucket.tensor_windows, bucket.tensor = bucket.tensor_windows + 1, bucket.tensor + tensor
    used, total = event.max.get("fb_used_bytes"), event.max.get("fb_total_bytes")
    if used is not None and total:
        bucket.memory_windows += 1
        bucket.memory_most = max(bucket.memory_most, min(max(used / total, 0.0), 1.0))


def _ratio(value: float | None) -> float | None:
    return None if value is None else min(max(value, 0.0), 1.0)


class HourOfUse(msgspec.Struct, frozen=True, kw_only=True):
    """How a job used its GPUs over an hour: means over all of them; None is *not measured*."""

    nodes: tuple[str, ...]
    devices: tuple[str, ...]
    windows: int
    busy: float
    idle: float
    sm: float | None
    tensor: float | None
    memory_most: float | None
    #: The least and the greatest mean of ten minutes.
    busy_low: float
    busy_high: float
    began_s: float

    @property
    def gpus(self) -> int:
        """How many it has."""
        return len(self.devices)


class GpuUse(Stored):
    """The accounts of all jobs of a cluster."""

    accounts: Kept[dict[str, dict[str, Account]]]
    looked_s: Kept[dict[str, float]]

    def __init__(self) -> None:
        #: Job -> node -> account.
        self.accounts: dict[str, dict[str, Account]] = {}
        self.kept = 0
        #: When each job was looked at last.
        self.looked_s: dict[str, float] = {}

    def update(self, event: DeviceWindow, job: str, passed_s: float, idle_ratio: float) -> bool:
        """Take in a minute of a GPU that ``job`` has; whether ten minutes are full with it."""
        busy = _ratio(event.mean.get("utilization_ratio", event.mean.get("sm_active_ratio")))
        if event.length_s != WINDOW_S or busy is None:
            return False
        nodes = self.accounts.pop(job, {})
        self.accounts[job] = nodes  # Heard last, forgotten last.
        account = nodes.get(event.node)
        if account is None:
            account = nodes[event.node] = Account(first_s=event.start_s, heard_s=passed_s)
            self.kept += 1
            self._forget()
        account.heard_s = passed_s
        return account.add(event, busy, idle_ratio)

    def _forget(self) -> None:
        while self.kept > MOST_ACCOUNTS and len(self.accounts) > 1:
            oldest = next(iter(self.accounts))
            self.kept -= len(self.accounts.pop(oldest))
            self.looked_s.pop(oldest, None)

    def leave(self, job: str, passed_s: float) -> None:
        """Forget the nodes that a job has left."""
        nodes = self.accounts.get(job, {})
        for node in [one for one, account in nodes.items() if passed_s - account.heard_s > LEFT_S]:
            del nodes[node]
            self.kept -= 1

    def gpus(self, job: str, passed_s: float) -> int:
        """How many GPUs a job has now."""
        nodes = self.accounts.get(job, {}).values()
        return sum(len(one.devices) for one in nodes if passed_s - one.heard_s <= LEFT_S)

    def hour(self, job: str, least_windows: int, passed_s: float) -> HourOfUse | None:
        """The last hour of a job; None where less of it was heard, on average over its GPUs."""
        self.leave(job, passed_s)
        nodes = self.accounts.get(job, {})
        hours = {node: hour for node, account in nodes.items() if (hour := account.hour())}
        devices = tuple(device for node in sorted(hours) for device in sorted(nodes[node].devices))
        buckets = [bucket for hour in hours.values() for bucket in hour]
        windows = sum(one.windows for one in buckets)
        if not devices or len(hours) < len(nodes) or windows < least_windows * len(devices):
            return None
        means = [one.busy / one.windows for one in buckets if one.windows]
        return HourOfUse(
            nodes=tuple(sorted(hours)),
            devices=devices,
            windows=windows,
            busy=sum(one.busy for one in buckets) / windows,
            idle=sum(one.idle for one in buckets) / windows,
            sm=_mean((one.sm for one in buckets), sum(one.sm_windows for one in buckets)),
            tensor=_mean((one.tensor for one in buckets), sum(one.tensor_windows for one in buckets)),
            memory_most=max((one.memory_most for one in buckets), default=None)
            if any(one.memory_windows for one in buckets)
            else None,
            busy_low=min(means),
            busy_high=max(means),
            began_s=min(nodes[node].first_s + hours[node][0].number * BUCKET_S for node in hours),
        )

    def since(self, job: str, waited_s: float) -> float | None:
        """How busy its GPUs were over the last full buckets that ``waited_s`` covers; None where there are none."""
        wanted = int(waited_s // BUCKET_S) - 1
        buckets = [one for account in self.accounts.get(job, {}).values() for one in account.hour()[-wanted:]]
        return _mean((one.busy for one in buckets), sum(one.windows for one in buckets)) if wanted > 0 else None

    def gone(self, passed_s: float) -> list[str]:
        """The jobs that have left all of their GPUs, which are forgotten."""
        jobs = [
            job
            for job, nodes in self.accounts.items()
            if all(passed_s - account.heard_s > LEFT_S for account in nodes.values())
        ]
        for job in jobs:
            self.kept -= len(self.accounts.pop(job))
            self.looked_s.pop(job, None)
        return jobs

    def is_used(self, node: str, passed_s: float) -> bool | None:
        """Whether some job uses a GPU of ``node`` now; None where none ever did, as far as is remembered."""
        heard = [nodes[node].heard_s for nodes in self.accounts.values() if node in nodes]
        return passed_s - max(heard) <= UNUSED_S if heard else None

    def is_due(self, job: str, passed_s: float) -> bool:
        """Whether it is time to look at ``job`` again: all of its nodes fill their buckets at about the same time."""
        due = passed_s - self.looked_s.get(job, -BUCKET_S) >= WINDOW_S
        if due:
            self.looked_s[job] = passed_s
        return due

    def loaded(self) -> None:
        """Count the accounts again."""
        self.kept = sum(map(len, self.accounts.values()))


def _mean(values: Iterator[float], count: int) -> float | None:
    return sum(values) / count if count else None
