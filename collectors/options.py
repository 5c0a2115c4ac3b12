"""The options of ``paceline collect``.

Rule of this file: pure. A wrong option is one line that names it, its value and what is allowed, and exit status 2.
"""

import argparse
from collections.abc import Callable, Mapping
from typing import Any, NoReturn
from urllib.parse import urlsplit

from paceline.health import add_web_options
from paceline.kafka.settings import add_brokers_option, add_no_commands_option
from paceline.settings import COLLECT_INTERVAL_S, DCGM_LOGIN, number, whole
from paceline.visible import without_logins

EXAMPLES = """\
examples:
  paceline collect                                  sample this node every second, to PACELINE_BROKERS
  paceline collect --brokers kafka1:9092            the same for other brokers
  paceline collect --stdout --once                  one sample of everything, with no broker
  paceline collect --stdout --seconds 60 >node.jsonl    a recording, with no broker
  paceline collect --dcgm http://localhost:9400     GPU metrics from this node's dcgm-exporter, not from NVML
  paceline collect --web-port 9401                  with /healthz, /readyz and /metrics on 127.0.0.1:9401
  paceline collect --simulate 8 --interval 0.1      eight simulated GPUs at 10 Hz, to try a dashboard out

It needs no root. docs/collectors.md lists every column with its source and needs.
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {without_logins(message)}; {self.prog} --help shows how\n")


def _kind(parse: Callable[[str], Any], allowed: str) -> Callable[[str], Any]:
    def read(raw: str) -> Any:
        try:
            return parse(raw)
        except ValueError as error:
            shown = "(an address with a login)" if "@" in raw else repr(raw)
            raise argparse.ArgumentTypeError(f"{shown}: {error}; allowed: {allowed}") from None

    return read


def metrics_url(raw: str) -> str:
    """``raw`` as the address of an exporter's metrics; /metrics where it names no path.

    >>> metrics_url("http://localhost:9400")
    'http://localhost:9400/metrics'

    Raises:
        ValueError: no http or https address, or one with a password in it.
    """
    if "@" in raw:
        raise ValueError(f"the login goes into {DCGM_LOGIN.name}, its _FILE or ~/.netrc")
    parts = urlsplit(raw)
    if parts.scheme not in ("http", "https") or not parts.hostname or any(letter <= " " for letter in raw):
        raise ValueError("not an address")
    _ = parts.port  # Raises what is no port.
    return raw if parts.path not in ("", "/") else parts._replace(path="/metrics").geturl()


def parse(argv: list[str], environ: Mapping[str, str]) -> argparse.Namespace:
    """The options in ``argv``, defaults from ``environ``.

    Raises:
        SystemExit: 2 for a wrong option, 0 after --help.
        SettingError: a wrong setting in ``environ``.
    """
    parser = _Parser(
        prog="paceline collect",
        description="Sample this node's GPUs (NVML, AMD SMI) and host every second.\nNeeds a Kafka broker.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    allowed = COLLECT_INTERVAL_S.allowed
    target, end, source = (parser.add_mutually_exclusive_group() for _ in range(3))
    add_brokers_option(target)
    parser.add_argument(
        "--interval",
        metavar="S",
        type=_kind(COLLECT_INTERVAL_S.parse, allowed),
        default=COLLECT_INTERVAL_S.read(environ),
        help=f"seconds between two samples, {allowed} (default: %(default)g)",
    )
    parser.add_argument("--node", metavar="NAME", help="name of this node; default: PACELINE_NODE, else the host name")
    target.add_argument("--stdout", action="store_true", help="write a recording to standard output; no broker")
    parser.add_argument("--spool", metavar="DIR", help="keep messages here while the brokers are away; default: memory")
    add_no_commands_option(parser)
    end.add_argument("--once", action="store_true", help="one sample of everything, then end")
    end.add_argument("--seconds", metavar="N", type=_kind(number(0.1, 1e9), "0.1 and more"), help="end after N seconds")
    source.add_argument(
        "--dcgm",
        metavar="URL",
        type=_kind(metrics_url, "http://HOST:PORT of a dcgm-exporter"),
        help="the GPUs of a dcgm-exporter instead of NVML's, asked every 5 s",
    )
    source.add_argument(
        "--simulate", metavar="N", type=_kind(whole(1, 64), "1 to 64"), help="N simulated GPUs instead of real ones"
    )
    parser.add_argument(
        "--pod-resources",
        metavar="SOCKET",
        help="the kubelet's socket, which tells which pod has which GPU; none: by processes' cgroups alone (default: "
        "/var/lib/kubelet/pod-resources/kubelet.sock, if it exists)",
    )
    add_web_options(parser)
    parser.add_argument("--verbose", action="store_true", help="log more on standard error")
    return parser.parse_args(argv)
