"""``paceline simulate``: a made-up job with known faults, as a recording or on the bus.

Rule of this file: options to a spec, messages to a file or a broker. What a job is like is the simulation's business.
"""

import argparse
import contextlib
import time
from pathlib import Path
from typing import Any

from paceline.kafka.settings import add_brokers_option
from paceline.options import Parser
from paceline.pace import speed
from paceline.recording import check_writable
from paceline.terminal import Progress, say

from . import fleet_command
from .fault import parse
from .job import Job
from .sink import Sink, exit_status, published, recorded
from .spec import Noise, Spec
from .truth import as_json

EXAMPLES = """examples:
  paceline simulate --ranks 64 --fault compute:rank=9,size=0.3,from=60,to=140 -o job.jsonl.zst --truth job.json
  paceline simulate --ranks 128 --pp 4 --microbatches 16 --uneven-sequences --stage-skew 3=1.3 -o job.jsonl.zst
  paceline simulate --ranks 1024 --fsdp --collectives 4 --fault hang:rank=100,from=150 -o - | paceline analyze -
  paceline simulate --ranks 64 --nodes-a-switch 2 --fault compute:switch=1,from=60 --fault silent:node=6,from=100 -o -
  paceline simulate --ranks 32 --fault throttle:rank=3,size=0.5,from=50,reason=power --brokers localhost:9092

  paceline simulate fleet FLEET.yaml --record fleet.jsonl.zst      many jobs on many nodes; see its own --help
  paceline simulate fleet FLEET.yaml --start 3d --brokers localhost:9092 --speed max

a fault is KIND:rank=R,size=0.3,from=100,to=200[,every=N][,reason=…][,seconds=S]; R may be 3, 8-15 or 3+9, size is how
much longer the rank's own work takes (0.3: 30 %); node=N or switch=N in place of rank hits all ranks there. Kinds:
compute, throttle (reason thermal, power, brake or hardware), input, gc, cpu, host, memory, link, hang (for seconds),
slowdown (the whole job), silent (a node that sends nothing, while all train on)."""


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = Parser(
        prog="paceline simulate",
        description="Simulate a training job of any size, with noise and known faults.\n"
        "Needs a Kafka broker, or -o FILE.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("-o", "--output", metavar="FILE", help="write a recording: .jsonl, .jsonl.gz, .jsonl.zst, or -")
    add_brokers_option(made, "send it to these Kafka brokers instead, as if it ran now")
    made.add_argument("--speed", type=speed, default=1.0, metavar="N", help="on the bus N times as fast, or max")
    made.add_argument("--truth", metavar="FILE", help="write the injected faults and their cost as JSON")
    shape = made.add_argument_group("the job")
    shape.add_argument("--job", default="simulated", metavar="NAME", help="its name (default: simulated)")
    shape.add_argument("--ranks", type=int, default=8, metavar="N", help="ranks, eight a node (default: 8)")
    shape.add_argument("--nodes-a-switch", type=int, default=0, metavar="N", help="name switches of N nodes each")
    shape.add_argument("--dp", type=int, default=0, metavar="N", help="data-parallel size (default: what is left)")
    shape.add_argument("--tp", type=int, default=1, metavar="N", help="tensor-parallel size (default: 1)")
    shape.add_argument("--pp", type=int, default=1, metavar="N", help="pipeline stages, run 1F1B (default: 1)")
    shape.add_argument("--fsdp", action="store_true", help="parameters are sharded over the data dimension")
    shape.add_argument("--steps", type=int, default=200, metavar="N", help="steps (default: 200)")
    shape.add_argument("--step-s", type=float, default=0.5, metavar="S", help="approximate step time (default: 0.5)")
    shape.add_argument("--microbatches", type=int, default=0, metavar="N", help="default: 1, or twice the stages")
    shape.add_argument("--collectives", type=int, default=1, metavar="N", help="a step; for FSDP each way (default: 1)")
    shape.add_argument("--communication", type=float, default=0.08, metavar="R", help="its share (default: 0.08)")
    shape.add_argument("--no-phases", action="store_true", help="collectives alone, without step numbers")
    shape.add_argument("--seed", type=int, default=0, metavar="N", help="the same seed makes the same job (default: 0)")
    life = made.add_argument_group("what happens in it")
    life.add_argument("--noise", type=float, default=1.0, metavar="X", help="times the usual noise (default: 1)")
    life.add_argument(
        "--uneven-sequences", type=float, nargs="?", const=0.3, default=0.0, metavar="SIGMA",
        help="lengths differ, log-normally (default where given: 0.3)",
    )  # fmt: skip
    life.add_argument("--stage-skew", action="append", default=[], metavar="STAGE=X", help="a stage that takes longer")
    life.add_argument("--evaluate-every", type=int, default=0, metavar="N", help="steps between evaluations")
    life.add_argument("--evaluate-s", type=float, default=10.0, metavar="S", help="length of one (default: 10)")
    life.add_argument("--checkpoint-every", type=int, default=0, metavar="N", help="steps between checkpoints")
    life.add_argument("--checkpoint-s", type=float, default=5.0, metavar="S", help="length of one (default: 5)")
    life.add_argument("--fault", action="append", default=[], metavar="FAULT", help="see below; may be given again")
    return made


def main(argv: list[str]) -> int:
    """Simulate a job, or a fleet of them; the exit status."""
    if argv[:1] == ["fleet"]:
        return fleet_command.main(argv[1:])
    options = parser().parse_args(argv)
    if bool(options.output) == bool(options.brokers):
        say("simulate: name a recording with -o FILE, or a broker with --brokers HOST:PORT")
        return 2
    return exit_status(lambda: _simulate(options), options.output or options.brokers)


def _simulate(options: argparse.Namespace) -> None:
    job = _job(options)
    if options.truth:
        check_writable(options.truth)
    with _sink(options) as sink:
        _run(job, sink)
    if options.truth:
        Path(options.truth).write_bytes(as_json(job.truth()))


def _job(options: argparse.Namespace) -> Job:
    same = ("job", "ranks", "dp", "tp", "pp", "fsdp", "steps", "step_s", "microbatches", "collectives", "communication")
    pauses = ("nodes_a_switch", "seed", "evaluate_every", "evaluate_s", "checkpoint_every", "checkpoint_s")
    chosen: dict[str, Any] = {name: getattr(options, name) for name in same + pauses}
    if options.brokers:
        chosen["began_s"] = time.time()
    spec = Spec(
        **chosen,
        phases=not options.no_phases,
        noise=Noise().scaled(options.noise),
        uneven=options.uneven_sequences,
        stage_skew=dict(map(_skew, options.stage_skew)),
        faults=tuple(map(parse, options.fault)),
    )
    return Job(spec)


def _skew(text: str) -> tuple[int, float]:
    stage, _, factor = text.partition("=")
    try:
        return int(stage), float(factor)
    except ValueError:
        raise ValueError(f"--stage-skew {text}: not STAGE=FACTOR, as in 3=1.3") from None


def _run(job: Job, sink: Sink) -> None:
    progress, count, began = Progress(), 0, job.spec.began_s
    for message in job.messages():
        sink(message)
        count += 1
        if count % 100 == 0:
            progress.tell(f"{count} messages, {message.time_s - began:.0f} s of the job")
    progress.end()
    say(f"{count} messages, {job.ended_s:.0f} s of {job.spec.ranks} ranks")


def _sink(options: argparse.Namespace) -> contextlib.AbstractContextManager[Sink]:
    """Where messages go."""
    if options.output:
        return recorded(options.output)
    return published(options.brokers, options.speed, time.time())
