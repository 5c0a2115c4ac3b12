"""One demo: services, a training run beside them, and what is said while they work.

Rule of this file: the training run decides. It goes on when a service or the broker goes, and its exit status is ours.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import time
import webbrowser
from typing import TextIO

from paceline.balance_gain import BalanceGain
from paceline.child import kill_tree, spawn
from paceline.commands import page_hold
from paceline.commands.findings import Watch, as_line
from paceline.commands.ports import free_port
from paceline.commands.relayed_output import RelayedOutput
from paceline.commands.services import ServiceError, Services, ignore_signals
from paceline.commands.slow_link import SlowLink
from paceline.commands.stack import await_page, environment, start_control, start_forecaster
from paceline.commands.suggestion_list import gain, ranked
from paceline.commands.worker_watch import WorkerWatch, readiness
from paceline.events import BalanceObserved, BalancePlan, Finding, JobWindow, StepTimings, Suggestion
from paceline.kafka.follow import NOW, Follower
from paceline.kafka.reach import listens
from paceline.kafka.settings import BrokerSettings
from paceline.own_host import here
from paceline.patience import patient
from paceline.settings import SPOOL_DIR
from paceline.terminal import Progress, say
from paceline.this_node import this_node
from paceline.topics import BALANCE, FINDING, OP, PLAN, SUGGESTION, WINDOW
from paceline.training.example_faults import LINK_COMMAND_VARIABLE
from paceline.words import state_words

#: After the run has ended: findings still on their way are waited for until it has been quiet for this long.
QUIET_S = 2.0
LAST_S = 6.0
END_S = 2.0
#: Windows of a job that trains come every second or two: after this long without one the line says so.
_NEXT_S = 6.0
_FIRST_STEP = "the first training step"


class DemoRun:
    """The demo with everything it needs."""

    def __init__(
        self,
        options: argparse.Namespace,
        job: str,
        services: Services,
        settings: BrokerSettings,
        link: SlowLink | None,
        output: TextIO,
    ) -> None:
        self._options = options
        self._services = services
        self._settings = settings
        self._link = link
        self._output = output
        self._job = job
        self._watch = Watch(job)
        self._gain = BalanceGain()
        self._progress = Progress(quiet_s=3.0)
        self._started = time.monotonic()
        self._waiting = {_FIRST_STEP, "the stream worker to join"}
        self._ready_at = services.port(0)
        self._worker, self._look_s = WorkerWatch(time.monotonic()), 0.0
        self._step, self._step_at_s = "", 0.0
        self._told = False
        self._page = ""
        self._confirmed: dict[str, str] = {}
        self._suggested: dict[str, Suggestion] = {}

    def run(self) -> int:
        """The training run's exit status."""
        environ = environment(self._settings, os.environ)
        starts = dict.fromkeys(
            (FINDING, SUGGESTION, WINDOW, OP, *((PLAN, BALANCE) if self._options.balance else ())), NOW
        )
        with Follower(self._settings, starts, "paceline-demo", resume=True) as follower:
            follower.connect()
            self._services.start("streams", "--web-port", str(self._ready_at), environ=environ)
            self._services.start("collect", environ=environ)
            say(f"logs in {self._services.folder}")
            # Standard output is for findings: what training prints goes where our own lines go.
            shown = RelayedOutput(sys.stderr.fileno())
            training = spawn(self._command(), shown.descriptor, environ | self._training_environ())
            shown.started()
            try:
                if not self._options.headless:
                    environ = start_control(self._options, self._services, environ)
                    self._open_page(environ)
                    start_forecaster(self._options, self._services, environ)
                status = self._follow(training, follower, shown)
            finally:
                _end(training, shown)
            self._stay()
            return status

    def _stay(self) -> None:
        """Where a person is at the terminal, keep the page until Ctrl-C, or until a service ends."""
        terminal = sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()
        page = bool(self._page) and not self._told and not self._options.json
        if not page_hold.stays(page=page, timed=self._options.timed, terminal=terminal, environ=os.environ):
            return
        say(page_hold.words(self._page))
        try:
            while True:
                self._services.check()
                time.sleep(0.5)
        except KeyboardInterrupt as interrupted:
            if signal.SIGTERM in interrupted.args:
                raise
        except ServiceError as error:
            say(str(error))

    def _command(self) -> list[str]:
        options = self._options
        python = [sys.executable, "-P", "-m"]
        example = ["--fault", options.fault, "--rank", str(options.rank), "--seconds", str(options.seconds)]
        module = "paceline.balance.example" if options.balance else "paceline.training.example"
        script = [*python, module, *example]
        launch = [*python, "torch.distributed.run", "--nproc-per-node", str(options.ranks), "--no-python"]
        if self._link is None:
            launch = [*launch, "--standalone", *script]
        else:
            where = ["--master-addr", self._link.address, "--master-port", str(free_port(0))]
            launch = [*launch, "--nnodes", "1", *where, *self._link.wrap(options.rank, script)]
        # What is found is told by the demo itself, with the time.
        run = [*python, "paceline", "run", "--quiet", "--job", self._job, "--brokers", self._settings.address]
        return [*run, "--", *launch]

    def _training_environ(self) -> dict[str, str]:
        more = {"OMP_NUM_THREADS": "1"}
        if not self._options.brokers and SPOOL_DIR.name not in os.environ:
            # Its broker ends with it: what waits then is for no other broker.
            more[SPOOL_DIR.name] = str(self._services.folder / "spool")
        if self._link is not None:
            more[LINK_COMMAND_VARIABLE] = self._link.slow_down
        return more

    def _open_page(self, environ: dict[str, str]) -> None:
        port = self._services.port(8501)
        self._services.start("ui", "--port", str(port), environ=environ)
        address = await_page(port, self._services)
        say(f"page at {address}")
        self._page = address
        if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or sys.platform == "darwin":
            with contextlib.suppress(webbrowser.Error, OSError):
                webbrowser.open(address)

    def _follow(self, training: "subprocess.Popen[bytes]", follower: Follower, shown: RelayedOutput) -> int:
        while training.poll() is None:
            self._poll(follower)
            self._check()
            self._progress.tell(f"{self._elapsed()} {self._doing()}")
        quiet_s = patient(QUIET_S, os.environ)
        last, quiet = time.monotonic() + patient(LAST_S, os.environ), time.monotonic() + quiet_s
        while time.monotonic() < min(last, quiet):
            if self._poll(follower):
                quiet = time.monotonic() + quiet_s
        shown.drain(END_S)
        self._progress.end()
        status = training.returncode
        say(f"{self._elapsed()} training ended with status {status}; {self._verdict()}")
        self._advise()
        return 128 - status if status < 0 else status or (1 if self._told and listens(self._settings) else 0)

    def _poll(self, follower: Follower) -> bool:
        """Take what is there; whether a finding or a suggestion was among it."""
        heard = False
        for _, records in follower.poll():  # Nothing when the broker has gone; training goes on.
            for record in records:
                event = self._watch.hear(record.topic, record.value or b"")
                if isinstance(event, StepTimings):
                    self._waiting.discard(_FIRST_STEP)
                elif isinstance(event, Finding | Suggestion):
                    heard = True
                    self._tell(event)
                elif isinstance(event, BalancePlan | BalanceObserved):
                    self._gain.update(event)
                elif isinstance(event, JobWindow):
                    self._step = f"step {event.last_step}, median {event.step_median_s * 1000:.0f} ms"
                    self._step_at_s = time.monotonic()
        return heard

    def _tell(self, event: Finding | Suggestion) -> None:
        if self._options.json:
            print(as_line(event), file=self._output, flush=True)
        if isinstance(event, Suggestion):
            self._suggest(event)
            return
        if self._confirmed.get(event.id) == event.state:
            return
        self._confirmed[event.id] = event.state
        self._progress.end()
        say(f"{self._elapsed()} {state_words(event.kind, event.state)}: {event.summary}")

    def _suggest(self, suggestion: Suggestion) -> None:
        """Tell a suggestion, and what became of it; one whose numbers alone are others is not told again."""
        before = self._suggested.get(suggestion.id)
        self._suggested[suggestion.id] = suggestion
        if before is not None and before.state == suggestion.state:
            return
        self._progress.end()
        if suggestion.state == "new":
            say(f"{self._elapsed()} suggested: {suggestion.title} ({gain(suggestion.gain)})")
        else:
            say(f"{self._elapsed()} the suggestion is {suggestion.state.replace('_', ' ')}: {suggestion.title}")

    def _advise(self) -> None:
        """The last words: what to do, what brings most first; and what balancing has brought."""
        for suggestion in ranked(self._suggested.values(), time.time()):
            if suggestion.state != "withdrawn":
                say(f"what to do: {suggestion.title}")
                lines = [f"- {step}" for step in suggestion.steps] + [
                    f"$ {here(one, this_node())}" for one in suggestion.apply
                ]
                for line in lines + [f"| {one}".rstrip() for one in suggestion.manifest.splitlines()]:
                    say(f"  {line}")
        if brought := self._gain.in_words():
            say(brought)

    def _doing(self) -> str:
        if self._step:
            since_s = time.monotonic() - self._step_at_s
            return self._step if since_s < _NEXT_S else f"{self._step}; no newer step for {since_s:.0f} s"
        if self._worker.ready:
            self._waiting.discard("the stream worker to join")
        return "waiting for " + (" and ".join(sorted(self._waiting)) or "the first window")

    def _verdict(self) -> str:
        if not self._confirmed:
            return "no rank was slow"
        return f"{len(self._confirmed)} finding{'s' if len(self._confirmed) > 1 else ''}"

    def _check(self) -> None:
        """Say once that a service has ended, and when the worker does not get ready; training goes on without them."""
        now_s = time.monotonic()
        if now_s >= self._look_s:
            self._look_s = now_s + 1.0
            if news := self._worker.update(now_s, readiness(f"http://127.0.0.1:{self._ready_at}/readyz")):
                self._progress.end()
                say(f"{self._elapsed()} {news}")
        if self._told:
            return
        try:
            self._services.check()
        except ServiceError as error:
            self._told = True
            self._progress.end()
            say(str(error))

    def _elapsed(self) -> str:
        return f"{time.monotonic() - self._started:3.0f} s:"


def _end(training: "subprocess.Popen[bytes]", shown: RelayedOutput) -> None:
    """End it where it still runs, without what its launcher prints of that."""
    if training.poll() is not None:
        return
    ignore_signals()
    shown.mute()
    training.terminate()
    try:
        training.wait(END_S)
    except subprocess.TimeoutExpired:
        kill_tree(training.pid)  # The launcher's ranks are in sessions of their own.
        training.wait()
