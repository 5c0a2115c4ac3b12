"""``make chaos``: a real stack under random faults; what it finds must be what it finds in peace.

Three Apache Kafka nodes, two workers, a publisher with a spool, and a consumer that holds what it is told. First the
faults that must lose nothing, while jobs come and go; then those that must lose or alter data, whose count must be
exact; then a healthy and a slow job, judged as if nothing had been.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from paceline.kafka.topic_admin import ensure_topics

from ..processes import RunError
from . import losses
from .cluster import Cluster, cluster
from .faults import FAULTS, Stack, isolate
from .observer import Observer, missing, numbers
from .player import Player
from .verdict import Found, contradictions, differences
from .workers import Workers, workers
from .workload import EVERY_S, JOB_S, Message, fleet, found_undisturbed, messages

EXAMPLES = """\
examples:
  python -m experiments.chaos                            twenty minutes of faults, another seed each time
  python -m experiments.chaos --minutes 5 --seed 7       the same five minutes again
  python -m experiments.chaos --only "worker killed"     one kind of fault
"""
#: How long the stack may take, once all is well again, until everything has been said.
SETTLE_S = 300.0
#: Room on the last node's disk, as root; the jobs of half an hour fit three times.
DISK = "768m"
#: The memory of a worker that went through everything, over that of one that was started at the end.
MEMORY_RATIO, MEMORY_BYTES = 1.3, 48 * 1024 * 1024


@dataclass
class Result:
    """What was promised and did not hold, in words; empty where all of it held."""

    seed: int
    minutes: float
    struck: dict[str, int] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    figures: dict[str, Any] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)

    def require(self, holds: bool, words: str) -> None:
        """One promise."""
        say(("held:   " if holds else "BROKEN: ") + words)
        if not holds:
            self.broken.append(words)


def say(line: str) -> None:
    """Progress goes to standard error, with the time since the start."""
    print(f"chaos {time.monotonic() - _BEGAN_S:7.1f} s  {line}", file=sys.stderr, flush=True)


_BEGAN_S = time.monotonic()


def main(argv: Sequence[str]) -> int:
    """Run it; 1 where something that was promised did not hold."""
    options = _parse(argv)
    if not options.isolated:
        isolate([sys.executable, "-m", "experiments.chaos", *argv, "--isolated", "--seed", str(options.seed)])
    else:
        subprocess.run(["ip", "link", "set", "lo", "mtu", "1500", "up"], check=True)
    result = Result(options.seed, options.minutes)
    say(f"seed {options.seed}: the same faults come again with --seed {options.seed}")
    try:
        with tempfile.TemporaryDirectory(prefix="paceline-chaos-", ignore_cleanup_errors=True) as folder:
            _run(Path(options.keep or folder), options, result)
    except RunError as error:
        result.broken.append(str(error))
        say(f"BROKEN: {error}")
    print(json.dumps(result.__dict__, indent=2))
    say(f"{len(result.broken)} promises broken" if result.broken else "all promises held")
    return 1 if result.broken else 0


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m experiments.chaos",
        description="Hurt a running stack at random, and compare what it finds with what it finds in peace.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=20.0, metavar="N", help="how long faults strike (20)")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3)), help="default: another each time")
    parser.add_argument("--only", action="append", choices=sorted(FAULTS), help="this kind alone; may be given again")
    parser.add_argument("--speed", type=float, default=1.0, metavar="N", help="of the jobs' own time (1)")
    parser.add_argument("--keep", metavar="DIR", help="keep logs and data in this folder")
    parser.add_argument("--isolated", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def _run(folder: Path, options: argparse.Namespace, result: Result) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    small_disk = options.isolated and _mount_small_disk(folder / "node-3" / "data")
    jobs = max(int((options.minutes * 60 * options.speed - JOB_S) / EVERY_S) + 1, 2)
    say(f"making {jobs} jobs of 16 ranks")
    began_s = time.time()
    sent = messages(fleet(jobs, options.seed, began_s))
    wanted = found_undisturbed(sent)
    say(f"{len(sent)} messages; undisturbed {len(wanted)} revisions of {len({one['id'] for one in wanted})} findings")
    with cluster(folder) as kafka:
        ensure_topics(kafka.settings)
        with workers(kafka.settings, folder) as hands, Observer(kafka.settings) as observer:
            stack = Stack(kafka, hands, options.isolated, small_disk)
            player = Player(kafka.settings, sent, options.speed, folder / "spool")
            _strike(stack, Random(options.seed), player, options, result)
            _heal(kafka, hands)
            _judge_lossless(player, observer, sent, wanted, result)
            losses.run(stack, observer, folder, options.seed, result.require, _settled)
            _judge_memory(hands, observer, result)
    result.figures["worker starts"] = hands.starts


def _mount_small_disk(folder: Path) -> bool:
    folder.mkdir(parents=True, exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=700", "tmpfs", str(folder)]
    return subprocess.run(command, check=False).returncode == 0


def _strike(stack: Stack, draw: Random, player: Player, options: argparse.Namespace, result: Result) -> None:
    names = []
    for name in options.only or FAULTS:
        why_not = FAULTS[name][1](stack)
        if why_not:
            result.left_out[name] = why_not
            say(f"left out: {name}: {why_not}")
        else:
            names.append(name)
    order: list[str] = []
    while player.playing:
        order = order or draw.sample(names, len(names))  # Each kind once, then each again.
        name = order.pop()
        say(f"{name}")
        FAULTS[name][0](stack, draw)
        result.struck[name] = result.struck.get(name, 0) + 1
        ended = stack.workers.ended_by_themselves()
        if ended:
            result.broken.append(f"{ended} workers ended by themselves during: {name}")
        _heal(stack.cluster, stack.workers)
        time.sleep(draw.uniform(2, 10))


def _heal(kafka: Cluster, hands: Workers) -> None:
    kafka.heal()
    hands.heal()


def _settled(condition: Callable[[], bool]) -> bool:
    """Whether the condition comes true in time, and stays so for a while."""
    end = time.monotonic() + SETTLE_S
    while time.monotonic() < end:
        if condition():
            time.sleep(3.0)
            if condition():
                return True
        time.sleep(0.5)
    return False


def _judge_lossless(
    player: Player, observer: Observer, sent: list[Message], wanted: list[Found], result: Result
) -> None:
    began_s = time.monotonic()
    account = player.finish(SETTLE_S)
    result.require(
        account.shed == account.corrupt == 0, f"the publisher lost nothing: {account.shed} shed; {player.warnings}"
    )
    result.require(account.sent >= len(sent), f"{account.sent} of {len(sent)} messages were sent")
    there = numbers(sent)
    _settled(lambda: not missing(there, observer.came) and not differences(wanted, observer.findings))
    result.figures["seconds until all was said, after the last fault"] = round(time.monotonic() - began_s, 1)
    result.require(not missing(there, observer.came), f"{missing(there, observer.came)} messages never came")
    found = differences(wanted, observer.findings)
    result.require(not found, f"findings as undisturbed, last revisions: {len(found)} differ {found[:5]}")
    twice = contradictions(observer.findings)
    result.require(not twice, f"what is told again is told in the same words: {len(twice)} differ {twice[:5]}")
    result.require(not observer.dead_letters, f"{len(observer.dead_letters)} dead letters")
    result.figures["messages"] = len(sent)
    result.figures["outages of the publisher"] = account.outages
    result.figures["revisions"] = len(wanted)
    result.figures["revisions told again"] = len(observer.findings) - len(
        {(one["id"], one["revision"]) for one in observer.findings}
    )


def _judge_memory(hands: Workers, observer: Observer, result: Result) -> None:
    """Who went through everything holds no more than who was started at the end and has read the same state."""
    before = max(hands.memory_bytes())
    for process in list(hands.processes):
        hands.end(process, 15)
    said = len(observer.findings)
    hands.heal()
    fresh: list[int] = []

    def steady() -> bool:
        fresh.append(max(hands.memory_bytes()))
        return len(fresh) > 20 and fresh[-1] <= fresh[-10] * 1.01

    _settled(steady)
    result.figures["memory of a worker, MiB, at the end and fresh"] = [before >> 20, fresh[-1] >> 20]
    result.require(
        before <= fresh[-1] * MEMORY_RATIO + MEMORY_BYTES,
        f"memory is back at its plateau: {before >> 20} MiB, a fresh worker with the same state {fresh[-1] >> 20} MiB",
    )
    result.require(len(observer.findings) == said, "a fresh worker says nothing again")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
