"""A process that gets a part of one processor, by the kernel's own quota: cgroups, version 1 or 2.

Rule of this file: it makes groups below the one that it is in and removes them again. It takes root.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

#: The kernel hands out processor time in periods of this length; a step takes many of them.
PERIOD_US = 10_000
_V1, _V2 = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")


class QuotaError(RuntimeError):
    """Quotas cannot be set here; the message says why, and what to do."""


class Quota:
    """One group. ``set`` may be called by the process in it, at any step."""

    def __init__(self, name: str) -> None:
        self._v1 = (_V1 / "cpu.cfs_quota_us").exists() or (_V1 / "cpu.shares").exists()
        self._folder = (_V1 if self._v1 else _V2) / name

    def make(self) -> None:
        """Make the group.

        Raises:
            QuotaError: this takes root and a cgroup file system that can be written.
        """
        try:
            self._folder.mkdir(exist_ok=True)
            if not self._v1:
                (_V2 / "cgroup.subtree_control").write_text("+cpu")
        except OSError as error:
            raise QuotaError(f"no processor quota can be set ({error}): run as root, outside a container") from error

    def join(self) -> None:
        """The calling process, with all its threads, runs in the group from now on."""
        (self._folder / "cgroup.procs").write_text(str(os.getpid()))

    def set(self, part: float) -> None:
        """``part`` of one processor, above 0."""
        quota_us = max(1000, round(part * PERIOD_US))
        if self._v1:
            (self._folder / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (self._folder / "cpu.cfs_quota_us").write_text(str(quota_us))
        else:
            (self._folder / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")

    def remove(self) -> None:
        """Remove the group, once its processes have ended."""
        with contextlib.suppress(OSError):
            self._folder.rmdir()


@contextlib.contextmanager
def quotas(name: str, count: int) -> Iterator[list[Quota]]:
    """``count`` groups for as many processes."""
    groups = [Quota(f"{name}-{number}") for number in range(count)]
    try:
        for group in groups:
            group.make()
        yield groups
    finally:
        for group in groups:
            group.remove()
