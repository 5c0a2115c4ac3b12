"""A job that never began: a port that is taken, or ranks that never came to where they meet.

Rule of this file: pure. Neither says which rank is at fault: the port's is whoever listens there, and who has not come
has no log.
"""

import re

from ..evidence import Failure
from .case import Case, grounds
from .verdict import Verdict

_JOINED = re.compile(r"Timed out after (\d{1,9}) seconds waiting for clients\. (\d{1,7})/(\d{1,7}) clients joined")


def verdict(case: Case) -> Verdict | None:
    """By what the store says of its port and of its clients."""
    for said in case.failures:
        if said.name == "port_taken":
            return _taken(said)
        found = _JOINED.search(said.text) if said.name == "not_joined" else None
        if found and int(found[2]) < int(found[3]):
            return _away(said, int(found[1]), int(found[2]), int(found[3]))
    return None


def _taken(said: Failure) -> Verdict:
    port = said.text if said.text.isdigit() else ""
    where = f"port {port}" if port else "the port"
    return Verdict(
        kind="died",
        cause=f"{where} where the ranks meet is taken: another run, or what is left of one, listens there",
        nodes=(said.node,) if said.node else (),
        sure="likely",
        next=(
            f"end what listens there (ss -ltnp{f' sport = :{port}' if port else ''}), or take another --master-port; "
            "torchrun --standalone takes a free one"
        ),
        grounds=grounds(said),
    )


def _away(said: Failure, waited_s: int, came: int, every: int) -> Verdict:
    return Verdict(
        kind="hang",
        cause=(
            f"{every - came} of {every} ranks never came to where the ranks meet, within {waited_s} s: they were not "
            "started, ended before, or do not reach that address"
        ),
        sure="likely",
        next="look for the node without such a process (ps), and try MASTER_ADDR and MASTER_PORT from there: nc -vz",
        grounds=grounds(said),
    )
