"""``paceline analyze``: what is in a recording, with no broker, by the very code that runs on the bus.

Rule of this file: reading and printing. Findings go to standard output; what could not be read goes to standard error
with its line number, and the rest is analyzed all the same.
"""

import argparse
import math
import os
import sys
from collections.abc import Callable

from paceline import recording, terminal, topics, wire
from paceline.energy.energy_book import EnergyBook
from paceline.energy.tariff import tariff
from paceline.events import (
    NODE_WINDOWS_S,
    DeviceSamples,
    Event,
    Finding,
    HostSamples,
    JobDescribed,
    NodeDescribed,
    StepTimings,
)
from paceline.options import Parser
from paceline.settings import MOST_RANKS
from paceline.this_node import this_node
from paceline.topics import Topic
from paceline.unpacking import GIB, MOST_STREAMED_GIB, OPTION, add_option
from paceline.visible import visible
from paceline.words import is_confirmed, state_words

from .advice.recorded import RecordedAdvice
from .advice_thresholds import thresholds
from .attempts import Attempts
from .cluster_events import ADVICE, Heard
from .cluster_ratings import ClusterRatings
from .foreign_files import what_else
from .garbage import collect_seldom
from .nodes.node_config import NodeConfig
from .processor import Processor
from .profiler_traces import NotImportedError, imported, is_trace
from .reports import suggestions
from .reports.breakdown import BreakdownReport
from .reports.gpus import GpuReport
from .reports.panel import panel
from .reports.summary import Summary
from .routes import ROUTES
from .told_file import ToldFile

EXAMPLES = """\
examples:
  paceline analyze run.jsonl.zst            the findings, one line each
  paceline analyze run.jsonl --json         every finding and revision, one JSON object per line
  paceline analyze run.jsonl --panel        the verdict in ten lines
  paceline analyze run.jsonl --suggestions  what to do about it
  paceline analyze node.jsonl --gpus        how each GPU's metrics are judged (docs/gpu-rules.md)
  paceline analyze rank*.pt.trace.json.gz --breakdown   PyTorch profiler traces: compute, exposed communication, idle
  paceline record --job resnet-7 -o - | paceline analyze - --panel
"""
#: Samples of nodes over less time than this do not show that nothing is wrong.
LEAST_SAMPLED_S = NodeConfig().throttled.confirm_s
#: Windows that a recording's energy is summed of: the shortest, for a recording ends anywhere.
ENERGY_S = min(NODE_WINDOWS_S)
#: What judges a recording: of what is told a cluster its advice has a way of its own.
RECORDED = ROUTES | {ADVICE.name: (ClusterRatings,)}
#: Beyond so many bad lines only their number is told.
MOST_COMPLAINTS = 20


class Analysis:
    """One recording's way through the processor; ``totals`` for a panel at its end."""

    def __init__(
        self,
        say: Callable[[Topic, Event], None],
        complain: Callable[[str], None],
        totals: bool,
        *,
        advise: bool = False,
    ) -> None:
        self.say = say
        self.complain = complain
        self.processor = Processor(RECORDED, most_ranks=MOST_RANKS.read(os.environ), recorded=True)
        self.processor.backlog = True
        self.attempts = Attempts()
        self.summary = Summary(totals)
        self.gpus = GpuReport()
        self.energy = EnergyBook(ENERGY_S)
        #: None where nobody asks for suggestions.
        self.advice = RecordedAdvice(thresholds(os.environ)) if advise else None
        self.lines = 0
        self.judged = 0
        self.bad = 0
        self._sampled = (math.inf, -math.inf)

    @property
    def sampled_s(self) -> float:
        """How long the samples of nodes last, from the first message to the last."""
        return max(self._sampled[1] - self._sampled[0], 0.0)

    def update(self, item: recording.Line | recording.Bad) -> None:
        """Take in one line of the recording."""
        self.lines += 1
        if isinstance(item, recording.Bad):
            self._refuse(item.number, item.reason)
            return
        try:
            topic = topics.resolve(item.topic)
            event = wire.decode(topic, item.value)
        except KeyError as error:
            self._refuse(item.number, str(error.args[0]))
            return
        except wire.WireError as error:
            self._refuse(item.number, str(error))
            return
        if topic in (topics.PROFILE, topics.FORECAST):
            self._advise(event)  # What only the forecaster can say is taken as it was said.
        if topic.kind == "derived" or topic in (*topics.OPERATIONAL, topics.SUGGESTION):
            return  # What was found on the bus is found again here.
        try:
            self._judge(topic, event)
        except (ValueError, OverflowError, ArithmeticError, LookupError) as error:
            self._refuse(item.number, f"could not be judged: {type(error).__name__}: {error}")

    def _judge(self, topic: Topic, event: Event) -> None:
        self._judge_run(topic, self.attempts.unify(event))

    def _judge_run(self, topic: Topic, event: Event) -> None:
        """Take what bears the attempt of its run."""
        self.summary.update(event)
        self.energy.update(event)
        self._advise(event)
        if isinstance(event, DeviceSamples):
            self.gpus.update(event)
        if isinstance(event, DeviceSamples | HostSamples):
            self._sampled = min(event.t0_s, self._sampled[0]), max(event.t0_s, self._sampled[1])
        if isinstance(event, JobDescribed) and event.ended_s is not None:
            self._tell(self.processor.leave(event))
        if topic.name not in ROUTES:
            return
        self.judged += 1
        self._tell(self.processor.update(topic, event))
        for key in self.processor.take_forgotten():
            self._tell(self.processor.flush(key))
        if isinstance(event, NodeDescribed):
            self._tell(self.processor.update(ADVICE, Heard(topic, event, event.time_s)))

    def finish(self) -> None:
        """The recording has ended."""
        self._tell(self.processor.finish())
        self.energy.finish()
        for suggestion in self.advice.conclude() if self.advice is not None else ():
            self.say(topics.SUGGESTION, suggestion)

    def _advise(self, event: Event) -> None:
        """Let the advice hear ``event``; what it suggests is told."""
        if self.advice is not None:
            for suggestion in self.advice.update(event):
                self.say(topics.SUGGESTION, suggestion)

    def _tell(self, said: list[tuple[Topic, Event]]) -> None:
        for target, answer in said:
            self.summary.update(answer)
            self.energy.update(answer)
            self.say(target, answer)
            self._advise(answer)

    def _refuse(self, number: int, reason: str) -> None:
        self.bad += 1
        if self.bad <= MOST_COMPLAINTS:
            self.complain(f"line {number}: {reason}")


def main(argv: list[str] | None = None) -> int:
    """Analyze one recording; the exit status is 2 where there was nothing to judge."""
    args = _parse(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(args)
    except NotImportedError as error:
        if str(error):
            _complain(str(error))
        return error.status
    except recording.RecordingError as error:
        _complain(str(error))
        return 2


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = Parser(
        prog="paceline analyze",
        description="Find the rank that held a recorded job back, since when and why.\nNeeds a recording, no broker.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "files",
        nargs="+",
        metavar="file",
        help="a recording (.jsonl, .jsonl.gz, .jsonl.zst), - for standard input, or PyTorch profiler traces of one run",
    )
    parser.add_argument("--json", action="store_true", help="every finding and revision, one JSON object per line")
    parser.add_argument("--windows", action="store_true", help="the windows too, one JSON object per line")
    parser.add_argument("--gpus", action="store_true", help="at the end: how each GPU's metrics are judged")
    parser.add_argument("--panel", action="store_true", help="at the end: the verdict in ten lines")
    parser.add_argument(
        "--suggestions",
        action="store_true",
        help="in place of findings: what to do about them (docs/suggestions.md); with --json every revision, an object "
        "a line",
    )
    parser.add_argument(
        "--breakdown",
        action="store_true",
        help="in place of findings: where each rank's device spent its time, of profiler traces; with --json an object "
        "a rank",
    )
    add_option(parser, MOST_STREAMED_GIB)
    parser.add_argument(
        "--told", metavar="FILE", help="also write every finding, and the panel, to FILE, one JSON object a line"
    )
    parser.add_argument("--quiet", action="store_true", help="with --panel on standard input: only the panel")
    parser.add_argument("--of-run", action="store_true", help=argparse.SUPPRESS)  # what `paceline run` pipes here
    return parser.parse_args(argv)


def _dispatch(args: argparse.Namespace) -> int:
    """Traces by way of a recording, a recording as it is."""
    act = _break_down if args.breakdown else _analyze
    if any(map(is_trace, args.files)):  # a broken one among several is left out by whoever reads them
        bound = [] if args.most_unpacked == int(MOST_STREAMED_GIB * GIB) else [OPTION, str(args.most_unpacked / GIB)]
        with imported(args.files, bound) as args.file:
            return act(args)
    if len(args.files) > 1:
        _complain("one recording at a time; several files must be one run's PyTorch profiler traces")
        return 2
    (args.file,) = args.files
    if foreign := what_else(args.file):
        _complain(foreign)
        return 2
    return act(args)


def _break_down(args: argparse.Namespace) -> int:
    """Where the time of each rank's device went, as far as the recording says."""
    report = BreakdownReport()
    for item in recording.read(args.file, args.most_unpacked):
        if isinstance(item, recording.Bad) or item.topic != topics.OP.name:
            continue
        try:
            event = wire.decode(topics.OP, item.value)
        except wire.WireError:
            continue
        if isinstance(event, StepTimings):
            report.update(event)
    if not report.ranks:
        _complain(f"{args.file} has no breakdown: only PyTorch profiler traces tell when a device computes and idles")
        return 2
    if args.json:
        sys.stdout.buffer.write(b"".join(line + b"\n" for line in report.lines()))
    else:
        print(report.page())
    sys.stdout.flush()
    return 0


def _analyze(args: argparse.Namespace) -> int:
    collect_seldom()
    prices, told = tariff(os.environ), _told_file(args.told)
    speaker = _telling(_suggester(args) if args.suggestions else _speaker(args), told)
    analysis = Analysis(speaker, _complain, totals=args.panel, advise=args.suggestions)
    for item in recording.read(args.file, args.most_unpacked):
        analysis.update(item)
    analysis.finish()
    sys.stdout.flush()
    if analysis.bad > MOST_COMPLAINTS:
        _complain(f"{analysis.bad - MOST_COMPLAINTS} more bad lines, {analysis.bad} in all")
    if not analysis.judged:
        _complain(f"nothing to judge: {_why(args.file, analysis, of_run=args.of_run)}", of_run=args.of_run)
        return 2
    if analysis.advice is not None and not args.json:
        print(suggestions.page(analysis.advice.newest.values(), this_node()), flush=True)
    if args.panel:
        text = panel(analysis.summary, analysis.energy, prices)
        print(text, file=sys.stderr if args.json else sys.stdout, flush=True)
        if told is not None:
            told.panel(text)
    elif not (args.json or args.gpus or args.suggestions or analysis.summary.found):
        print(_nothing(analysis))
    if args.gpus:
        print(analysis.gpus.page(), file=sys.stderr if args.json else sys.stdout, flush=True)
    return 0


def _told_file(path: str | None) -> ToldFile | None:
    try:
        return None if path is None else ToldFile(path)
    except OSError as error:
        _complain(f"cannot write {path}: {error.strerror}; the analysis goes on")
        return None


def _telling(speaker: Callable[[Topic, Event], None], told: ToldFile | None) -> Callable[[Topic, Event], None]:
    """``speaker``, and beside it what is told in a file."""
    if told is None:
        return speaker

    def say(topic: Topic, event: Event) -> None:
        if isinstance(event, Finding):
            told.finding(event)
        speaker(topic, event)

    return say


def _nothing(analysis: Analysis) -> str:
    """What is said where nothing was found: jobs say themselves that they were too short to judge."""
    if analysis.summary.jobs or analysis.sampled_s >= LEAST_SAMPLED_S:
        return f"nothing found in {analysis.judged} messages of {len(analysis.summary.jobs)} jobs"
    return (
        f"not enough to judge: {analysis.judged} messages with {analysis.sampled_s:.0f} s of samples of nodes; most of "
        f"what may be wrong there is confirmed after {LEAST_SAMPLED_S:.0f} s"
    )


def _why(file: str, analysis: Analysis, *, of_run: bool) -> str:
    if of_run and not analysis.lines:
        return (
            "no training step was seen. Either no optimizer stepped and paceline.training.step() was not called, or "
            "srun or mpirun started several processes that joined no process group, or "
            "PyTorch was not imported on this machine, outside of containers, by a Python from 3.9 on that heeds "
            "PYTHONPATH (not python -I or -E)"
        )
    where = "standard input" if file == "-" else file
    if not analysis.lines:
        return f"{where} is empty"
    if analysis.bad == analysis.lines:
        return f"no line of {where} could be read"
    return f"{where} holds no timings and no samples"


def _speaker(args: argparse.Namespace) -> Callable[[Topic, Event], None]:
    """How answers are told as they come."""
    live = args.panel and args.file == "-" and not args.quiet

    def say(topic: Topic, event: Event) -> None:
        finding = event if isinstance(event, Finding) else None
        if (args.json and finding) or (args.windows and not finding):
            sys.stdout.buffer.write(visible(wire.encode(event).decode()).encode() + b"\n")
            if args.file == "-":
                sys.stdout.flush()
        if finding and live and is_confirmed(finding) and finding.id not in told:
            told.add(finding.id)
            terminal.say(finding.summary)
        elif finding and not args.json and not args.panel:
            print(visible(_line(finding)))

    told: set[str] = set()
    return say


def _line(finding: Finding) -> str:
    """A finding on one line: of which job, where in it, and what."""
    where = f"step {finding.last_step}" if finding.last_step >= 0 else "node" if finding.nodes else "job"
    job = f"{finding.job}  " if finding.job else ""
    state = state_words(finding.kind, finding.state)
    return f"{job}{where}  {state:<9}  {finding.summary}  [{finding.id} r{finding.revision}]"


def _suggester(args: argparse.Namespace) -> Callable[[Topic, Event], None]:
    """How suggestions are told as they come: every revision as JSON; for people the last ones, at the end."""

    def say(topic: Topic, event: Event) -> None:
        if args.json and topic is topics.SUGGESTION:
            sys.stdout.buffer.write(visible(wire.encode(event).decode()).encode() + b"\n")

    return say


def _complain(line: str, *, of_run: bool = False) -> None:
    terminal.say(line, "paceline run" if of_run else "paceline analyze")


if __name__ == "__main__":
    sys.exit(main())
