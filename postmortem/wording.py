"""A verdict in a few plain lines: the verdict first, then the line of code, who only waited, and what to do next.

Rule of this file: pure. Names from files are shown with ``visible``.
"""

from collections.abc import Iterator

from paceline.visible import visible

from .deciding.verdict import Verdict, several

_HEADS = {
    "hang": "Hang",
    "died": "Died",
    "collective_mismatch": "Ranks called different collectives",
    "order_deadlock": "Deadlock: collectives of several groups in different orders",
    "network": "Network",
    "device_fault": "Device fault",
    "waiting": "No hang",
    "insufficient_data": "Not enough to say",
}


def lines(verdict: Verdict) -> Iterator[str]:
    """What to print."""
    who = several(verdict.ranks) if verdict.ranks else ", ".join(verdict.nodes) or "no rank is accused"
    yield f"{_HEADS[verdict.kind]}: {visible(who)} ({verdict.sure})"
    yield f"  why      {visible(verdict.cause)}"
    if verdict.line:
        yield f"  line     {visible(verdict.line)}"
    if verdict.worker_line:
        yield f"  worker   {visible(verdict.worker_line)}"
    if verdict.others_line:
        yield f"  others   {visible(verdict.others_line)}"
    if verdict.victims:
        yield f"  victims  {several(verdict.victims)}"
    if verdict.devices:
        yield f"  device   {visible(', '.join(verdict.devices))}"
    for link in verdict.chain:
        yield f"  chain    {visible(link)}"
    for ground in verdict.grounds[:4]:
        place = f"{ground.file}:{ground.line}" if ground.line else ground.file
        yield f"  from     {visible(place)}"
    if verdict.next:
        yield f"  next     {visible(verdict.next)}"
