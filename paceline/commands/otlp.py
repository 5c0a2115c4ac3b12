"""``paceline otlp``: findings as log events and steps as spans, to whatever takes OpenTelemetry's protocol.

Rule of this file: options to what runs. Headers, which may hold a token, come from OpenTelemetry's own variables and
never from the command line.
"""

import argparse
import logging
import os
import signal
import threading
from urllib.parse import urlsplit

from paceline.install import install
from paceline.kafka.errors import BusError
from paceline.kafka.settings import BrokerSettings, add_brokers_option
from paceline.options import Parser
from paceline.terminal import say
from paceline.visible import without_login

DEFAULT = "http://127.0.0.1:4318"
TIMEOUT_S, END_S = 5.0, 5.0
EPILOG = """examples:
  paceline otlp                                        to a collector on this machine
  paceline otlp --endpoint https://otlp.example.org    another one; a token: OTEL_EXPORTER_OTLP_HEADERS
  paceline otlp --no-spans                             findings alone

Spans are few: of each job one step a second, of its lowest rank and of the ranks that findings accuse."""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = Parser(
        prog="paceline otlp",
        description="Send findings as log events and steps as spans, by OTLP over HTTP.\n"
        "Needs a Kafka broker and an OTLP receiver.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument(
        "--endpoint",
        metavar="URL",
        type=_endpoint,
        help=f"the receiver, without /v1/… (default: OTEL_EXPORTER_OTLP_ENDPOINT, else {DEFAULT})",
    )
    made.add_argument("--no-spans", action="store_true", help="no spans of steps")
    add_brokers_option(made)
    return made


def _endpoint(raw: str) -> str:
    parts = urlsplit(raw)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in raw or not raw.isprintable():
        raise argparse.ArgumentTypeError(
            f"no address: {without_login(raw)!r} (http or https, and no login: OTEL_EXPORTER_OTLP_HEADERS is for that)"
        )
    return raw.rstrip("/")


def main(argv: list[str]) -> int:
    """Send until stopped."""
    args = parser().parse_args(argv)
    settings = BrokerSettings.from_environ(os.environ, args.brokers)
    try:
        from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        from paceline.otlp.answers import Answers
        from paceline.otlp.run import Loop
        from paceline.otlp.sender import Sender
    except ImportError as error:
        _say(f"otlp needs {error.name}; {install('otlp')}")
        return 2
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)  # The sender tells of outages, once.
    base = args.endpoint or os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").rstrip("/") or DEFAULT
    answers = None if _has_session("LOGS") else Answers()
    exporter = OTLPLogExporter(endpoint=f"{base}/v1/logs", timeout=TIMEOUT_S, session=answers)
    logs, traces = Sender("findings", exporter, _say, answers), None
    if not args.no_spans:
        answers = None if _has_session("TRACES") else Answers()
        to_traces = OTLPSpanExporter(endpoint=f"{base}/v1/traces", timeout=TIMEOUT_S, session=answers)
        traces = Sender("spans", to_traces, _say, answers)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    _say(f"sending to {without_login(base)} what is published from now on at {settings.address}")
    try:
        Loop(settings, logs, traces, _say, stop).run()
    except BusError as error:
        _say(str(error))
        return 1
    finally:
        _say("; ".join(sender.close(END_S) for sender in (logs, traces) if sender is not None))
    return 0


def _has_session(signal: str) -> bool:
    """Whether the environment names a credential provider, whose session asks in place of ours."""
    names = (f"OTEL_PYTHON_EXPORTER_OTLP_HTTP_{part}CREDENTIAL_PROVIDER" for part in ("", f"{signal}_"))
    return any(os.environ.get(name) for name in names)


def _say(line: str) -> None:
    say(line, "paceline otlp")
