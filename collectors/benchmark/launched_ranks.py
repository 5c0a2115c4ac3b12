"""The ranks that a launcher has started (torchrun, srun, mpirun): how they meet, and who of them speaks for its node.

Rule of this file: PyTorch is an argument. The meeting place is what the launcher says, else made of what all ranks
know alike; where nothing does, the variables to set are named. Ranks tell their host's name by the meeting place.
"""

import re
import zlib
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from paceline.launchers import Launched, launched, spans_nodes

#: Where ports are made up from a job's number: below those that the kernel hands out.
FIRST_PORT, PORTS = 20_000, 10_000
#: Seconds until all ranks must have come, and until one that is gone is noticed.
LIMIT_S = 120.0
#: Seconds that a rank waits for the one that measures its node first.
PATIENCE_S = 3600.0


class MeetingError(RuntimeError):
    """Ranks that cannot meet: the cause and the mend."""


def meeting(environ: Mapping[str, str]) -> tuple[str, int]:
    """Host and port at which rank 0 listens.

    >>> meeting({"MASTER_ADDR": "node-1", "MASTER_PORT": "29500"})
    ('node-1', 29500)
    >>> meeting({"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "gpu[07-09]"})[0]
    'gpu07'
    >>> meeting({"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NODELIST": "gpu07"})[0]
    '127.0.0.1'

    Raises:
        MeetingError: nothing tells.
    """
    address, port = environ.get("MASTER_ADDR"), environ.get("MASTER_PORT", "")
    names = next((environ[name] for name in ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST") if environ.get(name)), "")
    shared = [
        environ.get(name, "") for name in ("SLURM_JOB_ID", "SLURM_STEP_ID", "PMIX_NAMESPACE", "OMPI_MCA_orte_jobid")
    ]
    # On one node no name is needed, and Slurm's name of a node need not lead anywhere.
    if not address and not spans_nodes(environ) and not re.search(r"[\[,]", names) and any(shared):
        address = "127.0.0.1"
    if not address and names:
        address = first_host(names)
    if re.fullmatch(r"\d{1,5}", port) and 0 < int(port) < 65536:
        number = int(port)
    elif any(shared):
        number = FIRST_PORT + zlib.crc32("/".join(shared).encode()) % PORTS
    else:
        number = 0
    if not address or not number:
        raise MeetingError(
            "the launcher does not say where ranks meet; set MASTER_ADDR and MASTER_PORT for all of them"
        )
    return address, number


def first_host(names: str) -> str:
    """The first of Slurm's list of hosts.

    >>> first_host("node[3,5-9]-ib,other"), first_host("a1,a2")
    ('node3-ib', 'a1')
    """
    return re.sub(r"\[(\w+)[^\]]*\]", r"\1", re.split(r",(?![^\[]*\])", names)[0])


class LaunchedRanks:
    """This process among its launcher's ranks."""

    def __init__(self, torch: Any, told: Launched, environ: Mapping[str, str], host: str) -> None:
        """Meet the others.

        Raises:
            MeetingError: they do not all come.
        """
        self._torch, self.rank, self.ranks = torch, told.rank, told.world_size
        address, port = meeting(environ)
        try:
            self._store = self._meet(address, port, environ)
            hosts = self._hosts(host)
        except RuntimeError as error:
            first = str(error).splitlines()[0][:300]
            fix = "fix: set MASTER_ADDR to an address of rank 0's node that all nodes reach"
            raise MeetingError(f"{told.world_size} ranks do not meet at {address}:{port}: {first}; {fix}") from error
        #: This rank's place among those of its host; who is 0 speaks for the node.
        self.local_rank = hosts[: told.rank].count(host)
        self.nodes = len(set(hosts))
        self._host = host

    def _meet(self, address: str, port: int, environ: Mapping[str, str]) -> Any:
        # torchrun's agent listens there already.
        listens = self.rank == 0 and environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
        dist, limit = self._torch.distributed, timedelta(seconds=LIMIT_S)
        store = dist.TCPStore(address, port, self.ranks, listens, timeout=limit, wait_for_workers=False)
        attempt = environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        return dist.PrefixStore(f"paceline-benchmark/{attempt}", store)

    def _hosts(self, host: str) -> list[str]:
        self._store.set(f"host/{self.rank}", host)
        return [self._store.get(f"host/{rank}").decode(errors="replace") for rank in range(self.ranks)]

    def wait_for_all_nodes(self) -> None:
        """Wait until every node's rank has: nobody's wait may keep a processor busy."""
        count = self._store.add("nodes-ready", 1 if self.local_rank == 0 else 0)
        if self.local_rank == 0 and count == self.nodes:
            self._store.set("all-ready", "1")
        self._store.wait(["all-ready"], timedelta(seconds=PATIENCE_S))

    def join(self, backend: str) -> None:
        """Form the group."""
        limit = timedelta(seconds=LIMIT_S)
        store = self._torch.distributed.PrefixStore("group", self._store)
        self._torch.distributed.init_process_group(
            backend, store=store, rank=self.rank, world_size=self.ranks, timeout=limit
        )

    def beside_s(self, moment: str, own_s: float) -> float:
        """Seconds of a processor that this node's other ranks had used at ``moment``; every rank asks."""
        self._store.set(f"own/{moment}/{self.rank}", f"{self._host}\n{own_s!r}")
        told = [self._store.get(f"own/{moment}/{rank}").decode(errors="replace") for rank in range(self.ranks)]
        parts = [each.partition("\n") for each in told]
        return sum(float(own) for host, _, own in parts if host == self._host) - own_s

    def leave(self) -> None:
        """End together: whoever holds the meeting place goes last."""
        if self._torch.distributed.is_initialized():
            self._torch.distributed.destroy_process_group()
        for moment, count in (("done", self.ranks), ("gone", self.ranks - 1)):
            # Nobody ends before all have written, or the launcher would end them; the meeting place goes last.
            if (moment == "done" or self.rank) and self._store.add(moment, 1) == count:
                self._store.set(f"all-{moment}", "1")
            if moment == "done" or self.rank == 0:
                self._store.wait([f"all-{moment}"], timedelta(seconds=LIMIT_S))


def found(environ: Mapping[str, str]) -> Launched | None:
    """What launched this process as one of several ranks; None where nothing did."""
    told = launched(environ)
    return told if told is not None and told.world_size > 1 else None
