"""The verdicts on one node: its samples in, findings out.

Rule of this file: it wires the pieces of this package together and holds no rule of its own. Rows are judged in the
order of the node's clock; looks are cut by it alone, so any batching gives the same findings. GPUs and host arrive on
two topics whose order against each other nobody promises: they share no look.
"""

import re
from typing import Any

import msgspec

from paceline.events import Coverage, DeviceSamples, Finding, HostSamples, NodeDescribed

from ..coverage import Ledger
from ..snapshots import pack, unpack
from . import node_findings
from .balance import Balance
from .detectors import Rated
from .gpu import Gpu, filling
from .gpu_rows import Row, possible, rows
from .node_config import MOST_DEVICES, Config
from .owners import Owners, claims
from .tally import Tally
from .tracker import Fact, Seat, Spell, Watch
from .trend import Trend

#: Layout of the snapshot; another version is not read.
_LAYOUT = 1
#: What NVML says of a device that is gone, by ``not_measured``.
_LOST = ("GPU is lost", "GPU needs a reset")
_INDEXED = re.compile(r"[a-z_]+\[(\d+)\]")


class Devices:
    """Judges one (cluster, node); every event given to it must be of that one."""

    def __init__(self, config: Config | None = None) -> None:
        self.config = config or Config()
        self.ledger = Ledger()
        self.host_ledger = Ledger()
        self.owners = Owners()
        self.gpus: dict[str, Gpu] = {}
        self.rated: dict[str, Rated] = {}
        self.indices: dict[int, str] = {}
        self.number: int | None = None
        self.open: dict[str, Tally] = {}
        self.balances: dict[str, Balance] = {}
        self.balance_watches: dict[str, Watch] = {}
        self.host_number: int | None = None
        self.host_trend = Trend(self.config.memory_rise, self.config.gap_s)
        self.host_watch = Watch("out_of_memory_risk", "host memory", "memory_pressure", self.config, self.config.memory)

    def update(self, event: DeviceSamples | HostSamples | NodeDescribed) -> list[Finding]:
        """Take in one event; the findings that it brings to light or changes."""
        if isinstance(event, NodeDescribed):
            self._describe(event)
            return []
        if isinstance(event, HostSamples):
            ledger, spells = self.host_ledger, self._host(event)
        else:
            ledger, spells = self.ledger, self._devices(event)
        return [
            node_findings.finding(spell, event.cluster, event.node, self._coverage(spell, ledger)) for spell in spells
        ]

    def _describe(self, event: NodeDescribed) -> None:
        for device in event.devices[:MOST_DEVICES]:
            self.rated[device.uuid] = Rated(device.pcie_generation_max, device.pcie_width_max, device.sm_clock_max_mhz)
        self.indices = {device.index: device.uuid for device in event.devices[:MOST_DEVICES]}

    # --- GPUs ---------------------------------------------------------------------------------------------------------

    def _devices(self, event: DeviceSamples) -> list[Spell]:
        if not self.ledger.admit(event.producer, event.sequence):
            return []
        spells: list[Spell] = []
        lost = self._lost(event)
        who = claims(event)
        for row in rows(event):
            spells += self._pass_on(who, row.at_s)
            gpu = self._gpu(row.uuid)
            if gpu is None:
                continue
            spells += self._advance(row.at_s)
            spells += gpu.row(row, lost.get(row.uuid), self.owners.of(row.uuid))
            for uuid in lost.keys() - set(event.uuids):
                gone = self._gpu(uuid)
                if gone is not None:
                    spells += gone.row(Row(row.at_s, uuid, {}, answered=False), lost[uuid], self.owners.of(uuid))
            if row.answered:
                self.open.setdefault(row.uuid, Tally()).add(row)
        return spells

    def _gpu(self, uuid: str) -> Gpu | None:
        if uuid not in self.gpus:
            if len(self.gpus) >= MOST_DEVICES:
                self.ledger.note("GPUs beyond the limit")
                return None
            self.gpus[uuid] = Gpu(uuid, self.config)
        return self.gpus[uuid]

    def _lost(self, event: DeviceSamples) -> dict[str, str]:
        """The GPUs that the driver no longer reaches, and what it says."""
        found: dict[str, str] = {}
        for key, why in event.not_measured.items():
            if not why.startswith(_LOST):
                continue
            index = _INDEXED.fullmatch(key)
            if index is None:
                found |= dict.fromkeys(event.uuids, why)
                continue
            number = int(index[1])
            named = event.uuids[number] if number < len(event.uuids) and "device" not in key else f"GPU {number}"
            found[self.indices.get(number, named)] = why
        return found

    def _pass_on(self, who: dict[str, Seat], at_s: float) -> list[Spell]:
        before = dict(self.owners.seats)
        moved = self.owners.update(who, at_s)
        spells: list[Spell] = []
        for uuid in moved:
            if uuid in self.gpus:
                spells += self.gpus[uuid].pass_on(at_s, before[uuid], self.owners.of(uuid))
        if not moved:
            return spells
        for job in sorted(self.balances.keys() - self.owners.jobs().keys()):
            ended = self.balance_watches[job].end(at_s, f"{job} has left")
            spells += [ended] if ended else []
            del self.balances[job], self.balance_watches[job]
        return spells

    def _advance(self, at_s: float) -> list[Spell]:
        """Close the open look, where ``at_s`` is beyond it, or so far before it that the clock was set back."""
        number = int(at_s // self.config.tick_s)
        before = self.number
        if before is not None and before - 1 <= number <= before:
            return []
        self.number = number
        if before is None:
            return []
        tallies, self.open = self.open, {}
        return self._look((before + 1) * self.config.tick_s, tallies)

    def _look(self, at_s: float, tallies: dict[str, Tally]) -> list[Spell]:
        spells: list[Spell] = []
        for uuid, tally in tallies.items():
            gpu = self._gpu(uuid)
            if gpu is not None:
                spells += gpu.look(at_s, tally, self.rated.get(uuid, Rated()), self.owners.of(uuid))
        for job, uuids in sorted(self.owners.jobs().items()):
            spells += self._balance(at_s, job, [uuid for uuid in uuids if uuid in tallies], tallies)
        return spells

    def _balance(self, at_s: float, job: str, uuids: list[str], tallies: dict[str, Tally]) -> list[Spell]:
        means = {uuid: mean for uuid in uuids if (mean := tallies[uuid].mean("utilization_ratio")) is not None}
        if len(means) < 2:
            return []
        balance = self.balances.setdefault(job, Balance(self.config))
        watch = self.balance_watches.setdefault(
            job, Watch("load_imbalance", f"balance {job}", "unknown", self.config, self.config.apart)
        )
        bad, facts = balance.look(at_s, means)
        if not balance.looks:
            return []
        seat = Seat(job, (), balance.extremes())
        told = watch.look(at_s, bad, facts, seat, rate=balance.wasted())
        return [told] if told else []

    # --- the host -----------------------------------------------------------------------------------------------------

    def _host(self, event: HostSamples) -> list[Spell]:
        if not self.host_ledger.admit(event.producer, event.sequence):
            return []
        spells = []
        columns = (event.time_s, event.memory_used_bytes, event.memory_total_bytes, event.swap_used_bytes)
        for time_s, used, total, swap in zip(*columns, strict=True):
            at_s = event.t0_s + time_s
            if used is None or not total or not 0 <= used <= total or not possible(at_s):
                continue
            number = int(at_s // self.config.tick_s)
            if number == self.host_number:
                continue  # One reading a look is enough of a memory.
            self.host_number = number
            self.host_trend.push(at_s, float(used), float(total))
            bad, facts = filling(self.host_trend, self.config)
            if bad and swap:
                rule = "swapped out meanwhile"
                facts.append(Fact(name="swap_used", value=swap / 2**30, unit="GiB", rule=rule))
            told = self.host_watch.look(at_s, bad, facts, self._tenant())
            spells += [told] if told else []
        return spells

    def _tenant(self) -> Seat:
        """The one job on this node, where there is one alone."""
        jobs = {seat.job for seat in self.owners.seats.values() if seat.job}
        if len(jobs) != 1:
            return Seat()
        ranks = {rank for seat in self.owners.seats.values() for rank in seat.ranks if seat.job in jobs}
        return Seat(jobs.pop(), tuple(sorted(ranks)), ())

    # --- what it rests on, and state ----------------------------------------------------------------------------------

    def _coverage(self, spell: Spell, ledger: Ledger) -> Coverage:
        """Counts are of this node: the ranks of the job on it, all of which are seen through their GPUs."""
        here = {rank for seat in self.owners.seats.values() if seat.job == spell.seat.job for rank in seat.ranks}
        heard = len(here) if spell.seat.job else 0
        held = msgspec.structs.replace(ledger.coverage(), ranks_expected=heard, ranks_heard=heard)
        return msgspec.structs.replace(held, notes=[*held.notes, f"of this node alone: {len(self.gpus)} GPUs seen"])

    def snapshot(self) -> bytes:
        """The whole state, compressed."""
        return pack(
            {
                "layout": _LAYOUT,
                "ledgers": [self.ledger.snapshot(), self.host_ledger.snapshot()],
                "owners": self.owners.snapshot(),
                "gpus": [[uuid, gpu.snapshot()] for uuid, gpu in self.gpus.items()],
                "rated": [[uuid, list(rated)] for uuid, rated in self.rated.items()],
                "indices": [[index, uuid] for index, uuid in self.indices.items()],
                "number": self.number,
                "open": [[uuid, msgspec.to_builtins(tally)] for uuid, tally in self.open.items()],
                "balances": [
                    [job, balance.snapshot(), self.balance_watches[job].snapshot()]
                    for job, balance in self.balances.items()
                ],
                "host": [self.host_number, self.host_trend.snapshot(), self.host_watch.snapshot()],
            }
        )

    @classmethod
    def restore(cls, data: bytes, config: Config | None = None) -> "Devices":
        """The decision that ``snapshot`` described.

        Raises:
            ValueError: ``data`` is no snapshot of this version.
        """
        state = unpack(data)
        if state.get("layout") != _LAYOUT:
            raise ValueError(f"not a snapshot: layout {state.get('layout')!r}, this version reads {_LAYOUT}")
        made = cls(config)
        made._load(state)
        return made

    def _load(self, state: dict[str, Any]) -> None:
        self.ledger, self.host_ledger = (Ledger.restore(ledger) for ledger in state["ledgers"])
        self.owners.load(state["owners"])
        for uuid, gpu in state["gpus"]:
            self.gpus[uuid] = Gpu(uuid, self.config)
            self.gpus[uuid].load(gpu)
        self.rated = {uuid: Rated(*rated) for uuid, rated in state["rated"]}
        self.indices = dict(state["indices"])
        self.number = state["number"]
        self.open = {uuid: msgspec.convert(tally, Tally, strict=False) for uuid, tally in state["open"]}
        for job, balance, watch in state["balances"]:
            self.balances[job] = Balance(self.config)
            self.balances[job].load(balance)
            self.balance_watches[job] = Watch.restore(watch, self.config)
        self.host_number = state["host"][0]
        self.host_trend.load(state["host"][1])
        self.host_watch = Watch.restore(state["host"][2], self.config)
