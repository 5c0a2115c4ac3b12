"""Where the page shows a run, if a ``paceline up`` on this machine has one for the same brokers.

Rule of this file: pure; a link that may lead to another job is none.
"""

from collections.abc import Mapping, Sequence
from urllib.parse import quote_plus

from paceline.commands.stack_state import Stack
from paceline.identity import job_of

#: With those torchrun names its run itself.
_NAMED = ("--rdzv-id", "--rdzv_id")


def page_link(
    stacks: Sequence[Stack], brokers: str | None, command: Sequence[str], seen: Mapping[str, str]
) -> str | None:
    """The address of the page of the newest of ``stacks`` whose broker is ``brokers``, with the job that ``command``
    is by what it has ``seen``, its environment; None where there is no such page.

    >>> page_link([], "127.0.0.1:9092", ["python", "train.py"], {}) is None
    True
    """
    if brokers is None:
        return None
    pages = [stack.addresses["page"] for stack in stacks if "page" in stack.addresses and _same(stack, brokers)]
    if not pages:
        return None
    job = job_of(seen)
    if not job or any(word.partition("=")[0] in _NAMED for word in command):
        return pages[0]
    return f"{pages[0]}/job?job={quote_plus(job)}"


def _same(stack: Stack, brokers: str) -> bool:
    here = {_loopback(one) for one in brokers.split(",")}
    return bool(here & {_loopback(one) for one in stack.addresses.get("broker", "").split(",")})


def _loopback(address: str) -> str:
    host, _, port = address.strip().rpartition(":")
    return f"127.0.0.1:{port}" if host in ("localhost", "[::1]") else f"{host}:{port}"
