"""What of a running ``paceline up`` answers, and ``paceline status`` and ``paceline down``.

Rule of this file: what is written down is where to ask; whether it works is asked of the parts themselves.
"""

import argparse
import os
import socket
import time
from collections.abc import Mapping

import msgspec

from paceline.commands import stack_state
from paceline.commands.stack_state import Machine, Stack
from paceline.commands.worker_watch import readiness
from paceline.kafka.settings import split
from paceline.options import Parser
from paceline.patience import patient
from paceline.settings import SettingError
from paceline.terminal import say
from paceline.visible import visible
from paceline.words import age

#: From SIGTERM until `paceline down` kills: services, then the broker, end in 3 s to 15 s.
END_S = 30.0
#: Exit statuses of `paceline status`; NOTHING is what init scripts have for a program that is not running.
READY, NOT_READY, NOTHING = 0, 1, 3
#: Where each part answers; a broker answers no HTTP, and it counts that it listens.
_PATHS = {"page": "/_stcore/health"}

STATUS_EXAMPLES = """exit status: 0 ready, 1 running and not ready, 3 nothing runs

examples:
  paceline status                                what `paceline up` runs here, since when, where
  paceline status --json | jq -r '.addresses.page'"""
DOWN_EXAMPLES = """examples:
  paceline up --detach && paceline run -- python train.py
  paceline down                                  end it, with all that it has started"""


def waits(addresses: Mapping[str, str]) -> dict[str, str]:
    """What is not ready of the parts at ``addresses``, and what each waits for."""
    said = {name: _waits(name, address) for name, address in addresses.items()}
    return {name: reason for name, reason in said.items() if reason is not None}


def _waits(name: str, address: str) -> str | None:
    if name != "broker":
        return readiness(f"{address}{_PATHS.get(name, '/readyz')}")
    try:
        socket.create_connection(split(address.split(",")[0]), timeout=0.5).close()
    except (OSError, SettingError, ValueError):
        return "nothing listens there"
    return None


def shown(addresses: Mapping[str, str]) -> str:
    """Addresses on a line; the stream worker's is for programs alone."""
    return ", ".join(f"{name} {address}" for name, address in addresses.items() if name != "streams")


def described(stack: Stack, waiting: Mapping[str, str], now_s: float) -> list[str]:
    """What a person reads of ``stack`` at ``now_s`` (Unix time)."""
    how = "in the background" if stack.detached else "in a terminal"
    state = "not ready" if waiting else "ready"
    lines = [f"{state}: paceline up (pid {stack.process.pid}, {how}), started {age(now_s, stack.started_s)}"]
    lines += [f"  {name:<11} {address}  {waiting.get(name, 'ready')}" for name, address in stack.addresses.items()]
    return [*lines, f"  {'logs':<11} {stack.logs}"]


def status(argv: list[str]) -> int:
    """Say what runs; the exit status says it, too."""
    made = _parser("status", "Say what `paceline up` runs on this machine, since when, where, and whether it is ready.")
    made.epilog = STATUS_EXAMPLES
    made.add_argument("--json", action="store_true", help="one JSON object a stack")
    options = made.parse_args(argv)
    stacks = stack_state.running(stack_state.folder(os.environ), Machine())
    if not stacks:
        say("not running; start it with `paceline up`, or `paceline up --detach`")
        return NOTHING
    every_ready = True
    for stack in stacks:
        waiting = waits(stack.addresses)
        every_ready = every_ready and not waiting
        if options.json:
            print(visible(msgspec.json.encode(_record(stack, waiting)).decode()), flush=True)
        else:
            print("\n".join(visible(line) for line in described(stack, waiting, time.time())), flush=True)
    return READY if every_ready else NOT_READY


def _record(stack: Stack, waiting: Mapping[str, str]) -> dict[str, object]:
    return {
        "ready": not waiting,
        "pid": stack.process.pid,
        "detached": stack.detached,
        "started_s": stack.started_s,
        "addresses": stack.addresses,
        "waits": dict(waiting),
        "logs": stack.logs,
    }


def down(argv: list[str]) -> int:
    """End what was started in the background."""
    made = _parser("down", "End what `paceline up --detach` has started; what runs in a terminal ends by Ctrl-C there.")
    made.epilog = DOWN_EXAMPLES
    made.parse_args(argv)
    place, machine = stack_state.folder(os.environ), Machine()
    stacks = stack_state.running(place, machine)
    left = 0
    for stack in stacks:
        pid = stack.process.pid
        if not stack.detached:
            say(f"paceline up (pid {pid}) runs in a terminal: stop it there with Ctrl-C")
            continue
        try:
            ended = stack_state.end(stack.process, patient(END_S, os.environ), machine)
        except OSError as error:
            ended = False
            say(f"paceline up (pid {pid}): {error.strerror}")
        if ended:
            stack_state.forget(stack, place)
            say(f"ended: paceline up (pid {pid}); its logs are in {stack.logs}")
        else:
            left += 1
            say(f"paceline up (pid {pid}) does not end; its logs are in {stack.logs}")
    if not any(stack.detached for stack in stacks):
        say("`paceline up --detach` is not running")
    return 1 if left else 0


def _parser(name: str, what: str) -> argparse.ArgumentParser:
    return Parser(prog=f"paceline {name}", description=what, formatter_class=argparse.RawDescriptionHelpFormatter)
