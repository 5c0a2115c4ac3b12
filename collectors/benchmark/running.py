"""One run of a benchmark: the parts that were asked for, one after the other, into one set of results.

Rule of this file: a part that cannot be measured is noted with its reason, one that breaks with its error, and the
others go on. Nothing is written.
"""

import gc
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from paceline.rated import HOST

from . import all_reduce, disk, gemm, memory
from .busy import Surroundings, cpu_use, others_ratio, own_cpus
from .launched_ranks import LaunchedRanks
from .results import ALL_REDUCE, BYTES, FLOPS, Results
from .speed import speed
from .table import size as shown
from .target import WITHOUT_TORCH, Target, UnmeasuredError
from .timing import TooSlowError

Measure = Callable[[Target, str, float], tuple[list[float], str]]


class Test(NamedTuple):
    """What is measured on each device: its name, how, and in which unit."""

    part: str
    name: str
    measure: Measure
    unit: str


TESTS = (
    *(Test("gemm", name, gemm.measure, FLOPS) for name in gemm.TYPES),
    *(Test("memory", name, memory.measure, BYTES) for name in memory.NAMES),
    *(Test("pcie", name, memory.measure_pcie, BYTES) for name in memory.PCIE_NAMES),
)
#: How many tests' time a disk and an all-reduce take.
WEIGHTS = {"disk": 2, "all_reduce": 4}


class Asked(NamedTuple):
    """What a run is to measure, and in how many seconds together."""

    parts: tuple[str, ...]
    seconds: float
    disk_folder: Path
    device: str | None
    ranks: int | None


class Run:
    """``targets``: the devices; ``torch``: None where it is not installed. ``tell`` shows what is going on."""

    def __init__(
        self,
        asked: Asked,
        torch: Any | None,
        targets: list[Target],
        surroundings: Surroundings,
        environ: Mapping[str, str],
        tell: Callable[[str], None],
    ) -> None:
        self.results = Results()
        self._asked, self._torch, self._targets, self._tell = asked, torch, targets, tell
        self._surroundings, self._environ = surroundings, environ
        tests = sum(test.part in asked.parts for test in TESTS) * max(1, len(targets))
        self._share_s = asked.seconds / max(1, tests + sum(WEIGHTS.get(part, 0) for part in asked.parts))

    def alone(self) -> None:
        """Everything that this process measures by itself: the devices and the disk."""
        parts = [part for part in self._asked.parts if part in {test.part for test in TESTS}]
        if self._torch is None:
            for part in parts:
                self.results.skip(HOST, part, WITHOUT_TORCH)
        for target in self._targets:
            for test in TESTS:
                if test.part in parts:
                    self._test(target, test)
        if "disk" in self._asked.parts:
            self._disk()

    def together(self, ranks: LaunchedRanks | None) -> None:
        """The all-reduce: over ``ranks``, or over some that are started here."""
        if "all_reduce" not in self._asked.parts:
            return
        torch, budget_s = self._torch, WEIGHTS["all_reduce"] * self._share_s
        if torch is None:
            self.results.skip(HOST, ALL_REDUCE, WITHOUT_TORCH)
            return
        if not torch.distributed.is_available():
            self.results.skip(HOST, ALL_REDUCE, "this PyTorch was built without torch.distributed")
            return
        backend = all_reduce.backend_of(torch, cpu=self._asked.device == "cpu")

        def on_size(size: int) -> None:
            self._tell(f"all_reduce over {backend}: {shown(size)}")

        if ranks is not None:
            all_reduce.launched(torch, backend, ranks, budget_s, self.results, on_size)
            return
        count = self._asked.ranks or all_reduce.local_count(torch, backend)

        def on_start() -> None:
            self._tell(f"all_reduce over {backend}: {count} ranks start")

        all_reduce.local(torch, backend, count, budget_s, self._environ, self.results, on_size, on_start)

    def _test(self, target: Target, test: Test) -> None:
        self._tell(f"{test.name} on {target.name}")
        before = cpu_use(cpus=own_cpus())
        try:
            samples, note = test.measure(target, test.name, self._share_s)
        except (UnmeasuredError, TooSlowError) as error:
            self.results.skip(target.name, test.name, str(error))
        except (RuntimeError, MemoryError, NotImplementedError) as error:
            words = (str(error) or type(error).__name__).splitlines()[0][:300]
            self.results.skip(target.name, test.name, words, failed=True)
        else:
            busy_ratio = None if target.is_gpu else others_ratio(before, cpu_use(cpus=own_cpus()))
            self.results.speeds.append(speed(target.name, test.name, test.unit, samples, busy_ratio))
            self.results.notes[f"{target.name}/{test.name}"] = note
        gc.collect()
        target.release()

    def _disk(self) -> None:
        folder, looked = self._asked.disk_folder, self._surroundings
        self._tell(f"disk in {folder}")
        known = [ratio for ratio in (looked.cpu_ratio, looked.io_pressure) if ratio is not None]
        try:
            for name, samples, note in disk.measure(folder, WEIGHTS["disk"] * self._share_s):
                self.results.speeds.append(speed(HOST, name, BYTES, samples, max(known, default=None)))
                self.results.notes[f"{HOST}/{name}"] = note
                self._tell(f"{name} in {folder}")
        except UnmeasuredError as error:
            self.results.skip(HOST, "disk", str(error))
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            self.results.skip(HOST, "disk", f"{folder}: {why}; --disk-folder names another", failed=True)
