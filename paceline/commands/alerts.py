"""``paceline alerts``: findings and suggestions on their way to people.

Rule of this file: options to what runs, nothing more; no address is printed but as ``shown``.
"""

import argparse
import contextlib
import os
import shlex
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

from paceline import hosts
from paceline.alerts.alert import Alert
from paceline.alerts.alerting import Alerting, Channel
from paceline.alerts.destination import Destination
from paceline.alerts.mail import Login
from paceline.alerts.message import Entry, Message
from paceline.alerts.run import Loop
from paceline.alerts.sender import Deliver, Sender, body, deliverer
from paceline.alerts.state_file import StateFile, StateFileError, default_path
from paceline.alerts.target import FORMS, Target, TargetError, of_command, of_url
from paceline.events import SEVERITIES
from paceline.health import Health, add_web_options, serve
from paceline.install import install
from paceline.kafka.errors import BusError
from paceline.kafka.settings import BrokerSettings, add_brokers_option
from paceline.options import Parser
from paceline.settings import ALERTS_TO, ALLOWED_HOSTS, CLUSTER, SMTP_PASSWORD, SMTP_USERNAME, SettingError
from paceline.terminal import say
from paceline.visible import visible, without_login

EPILOG = f"""addresses:
{chr(10).join("  " + line for line in FORMS.splitlines())}

examples:
  paceline alerts --to alertmanager+http://alertmanager:9093
  PACELINE_ALERTS_TO_FILE=/etc/paceline/slack paceline alerts --severity critical
  paceline alerts --to 'smtp://mail.example.org:587?to=ops@example.org'     login: PACELINE_SMTP_USERNAME,
                                                                            PACELINE_SMTP_PASSWORD_FILE
  paceline alerts --command 'logger --tag paceline'       a program gets the JSON on its standard input
  paceline alerts --to https://example.org/hook --test    one alert to see that it arrives
  paceline alerts --to https://example.org/hook --dry-run --once    what would be sent now, on standard output

Put an address that holds a secret into PACELINE_ALERTS_TO or into the file that PACELINE_ALERTS_TO_FILE names: other
users can see the command line. Exit status with --once and --test: 0 when all were sent, 1 when not.
"""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = Parser(
        prog="paceline alerts",
        description="Send findings and suggestions to chat, mail, a program or Alertmanager, also when they end.\n"
        "Needs a Kafka broker.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--to", metavar="URL", action="append", default=[], help="destination; may be repeated")
    made.add_argument(
        "--command",
        metavar="'PROGRAM ARGS'",
        action="append",
        default=[],
        help="a program as destination; may be repeated",
    )
    made.add_argument("--severity", choices=SEVERITIES, default="warning", help="this severity and above (%(default)s)")
    made.add_argument(
        "--rate", metavar="N", type=_rate, default=6, help="messages a minute to one destination (%(default)s)"
    )
    made.add_argument("--page", metavar="URL", type=_page, help="address of the page, for links to a job")
    made.add_argument(
        "--state", metavar="FILE", type=Path, help=f"file with what was sent ({default_path({'HOME': '~'})})"
    )
    add_web_options(made)
    made.add_argument("--dry-run", action="store_true", help="print what would be sent, and send nothing")
    what = made.add_mutually_exclusive_group()
    what.add_argument("--once", action="store_true", help="send what is open and not sent yet, then exit")
    what.add_argument("--test", action="store_true", help="send one test alert, then exit; needs no broker")
    add_brokers_option(made)
    return made


def main(argv: list[str]) -> int:
    """Run the command and return its exit status."""
    args = parser().parse_args(argv)
    page = args.page or ""
    try:
        targets = _targets(args.to, args.command)
    except TargetError as error:
        for line in str(error).splitlines():
            _say(line)
        return 2
    login = Login(SMTP_USERNAME.read(os.environ), SMTP_PASSWORD.read(os.environ))
    deliver = {target: deliverer(target, login, page, os.environ) for target in targets}
    if args.test:
        return _test(deliver)
    if args.dry_run:
        deliver = {target: _printer(target, page) for target in targets}
    channels = [
        Channel(target, Destination(target.profile, args.severity, args.rate, Random()), Sender(target.shown, send))
        for target, send in deliver.items()
    ]
    settings = BrokerSettings.from_environ(os.environ, args.brokers)
    try:
        return _run(settings, Alerting(channels, _say), args)
    except (BusError, StateFileError) as error:
        _say(str(error))
        return 1


def _run(settings: BrokerSettings, alerting: Alerting, args: argparse.Namespace) -> int:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    shown = ", ".join(channel.target.shown for channel in alerting.channels)
    _say(f"sending findings of severity {args.severity} and above from {settings.address} to {shown}")
    with _served(alerting, args) as watch:
        if args.dry_run:
            return 0 if Loop(settings, alerting, lambda state: None, _say, stop, watch).run(args.once) else 1
        with contextlib.closing(StateFile(args.state or default_path(dict(os.environ)))) as file:
            _restore(alerting, file)
            return 0 if Loop(settings, alerting, _writer(file), _say, stop, watch).run(args.once) else 1


@contextlib.contextmanager
def _served(alerting: Alerting, args: argparse.Namespace) -> Iterator[Callable[[str | None, float], None]]:
    """Serve how telling goes, where a port is named; what is to be told about it.

    Raises:
        SettingError: the port is taken, or what tells metrics is not installed.
    """
    if not args.web_port:
        yield lambda waits, now_s: None
        return
    try:
        from paceline.alerts.meters import AlertMeters
        from paceline.exposition import text
    except ImportError as error:
        raise SettingError(f"--web-port needs prometheus-client; {install('alerts')}") from error
    meters = AlertMeters(alerting)
    names = hosts.answered(args.web_address, ALLOWED_HOSTS.read(os.environ))
    health = Health(meters.waits, lambda: text(meters.families()), names)
    with contextlib.closing(serve(args.web_address, args.web_port, health)):
        yield meters.update


def _restore(alerting: Alerting, file: StateFile) -> None:
    """Take what was told before; a file that says nothing of it is put aside and told of."""
    try:
        held = file.read()
        if held:
            alerting.restore(held)
    except StateFileError as error:
        _say(str(error))
    except ValueError:
        _say(str(file.put_aside()))


def _writer(file: StateFile) -> Callable[[dict[str, Any]], None]:
    """What keeps the state; that it cannot be kept is told once, and telling goes on."""
    told: list[str] = []

    def write(state: dict[str, Any]) -> None:
        try:
            file.write(state)
            told.clear()
        except StateFileError as error:
            if not told:
                _say(f"{error}; alerts are sent again after a restart")
            told.append(str(error))
            del told[1:]

    return write


def _test(deliver: dict[Target, Deliver]) -> int:
    """One alert to each destination."""
    now_s = time.time()
    alert = Alert(
        id=f"test:{now_s:.0f}",
        revision=1,
        kind="test",
        severity="info",
        cluster=visible(CLUSTER.read(os.environ)),
        job="paceline-test",
        title="A test of paceline alerts",
        text="It arrives. Nothing is wrong.",
        fires=True,
        starts_s=now_s,
        heard_s=now_s,
    )
    message = Message((alert.cluster, alert.job), (Entry(alert, "firing", "", now_s + 60.0),))
    failed = False
    for target, send in deliver.items():
        try:
            send(message)
            _say(f"{target.shown}: arrived")
        except Exception as error:  # A door's own, or what nobody foresaw: either way the next one is tried too.
            _say(f"{target.shown}: {error}")
            failed = True
    return 1 if failed else 0


def _targets(urls: list[str], commands: list[str]) -> list[Target]:
    targets = [of_url(url) for url in urls]
    if any(target.password for target in targets):
        raise TargetError("--to: passwords on the command line are visible to other users; use PACELINE_ALERTS_TO_FILE")
    targets += [of_url(url) for url in ALERTS_TO.read(os.environ).split(" ") if url]
    for command in commands:
        try:
            targets.append(of_command(tuple(shlex.split(command))))
        except ValueError as error:
            raise TargetError(f"--command: {error}") from None
    if not targets:
        raise TargetError("no destination: give one with --to, --command or PACELINE_ALERTS_TO")
    return list({target.key: target for target in targets}.values())


def _printer(target: Target, page: str) -> Deliver:
    """What prints a message instead of sending it: what would be sent, whole."""

    def show(message: Message) -> None:
        text = body(target, message, page).decode()
        shown = "\n".join(visible(line) for line in text.replace("\r\n", "\n").splitlines())
        print(f"--- {target.shown}\n{shown}", flush=True)

    return show


def _rate(raw: str) -> int:
    value = int(raw)
    if not 1 <= value <= 600:
        raise ValueError
    return value


def _page(raw: str) -> str:
    parts = urlsplit(raw)
    unusual = "@" in raw or " " in raw or not raw.isprintable()  # A login would be in every alert.
    if parts.scheme not in ("http", "https") or not parts.hostname or unusual:
        raise argparse.ArgumentTypeError(f"no address: {without_login(raw)!r} (http or https, and no login)")
    return raw


def _say(line: str) -> None:
    say(line, "paceline alerts")
