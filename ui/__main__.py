"""``paceline ui``: serve the live page."""

import argparse
import logging
import os
import re
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from paceline import hosts, settings, tls
from paceline.energy.tariff import tariff
from paceline.install import install
from paceline.kafka.settings import BrokerSettings, add_brokers_option
from paceline.options import Parser

from .login_secrets import missing
from .theme import OPTIONS

SCRIPT = Path(__file__).with_name("paceline_page.py")
EXAMPLES = """examples:
  paceline ui                                   the broker of PACELINE_BROKERS, or 127.0.0.1:9092
  paceline ui --brokers kafka-1:9092 --port 80  another broker, another port
  paceline ui --require-login                   only for who can log in at your OpenID Connect provider
  ssh -L 8501:127.0.0.1:8501 cluster-login      see a page that runs elsewhere: it listens on loopback only
"""


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    made = Parser(
        prog="paceline ui",
        description="Serve the live page: slow ranks, since when and why.\nNeeds a Kafka broker.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--port", type=int, default=8501, help="port to listen on (default: 8501)")
    made.add_argument(
        "--address", default="127.0.0.1", help="address to listen on (default: 127.0.0.1; see --require-login)"
    )
    made.add_argument(
        "--require-login",
        action="store_true",
        default=settings.UI_REQUIRE_LOGIN.read(os.environ),
        help="show nothing before a login by OpenID Connect, as .streamlit/secrets.toml says (docs/operations.md)",
    )
    made.add_argument(
        "--base-path",
        metavar="PATH",
        type=base_path,
        default=os.environ.get("STREAMLIT_SERVER_BASE_URL_PATH", ""),
        help="serve the page below this path, for a proxy that passes it on (default: STREAMLIT_SERVER_BASE_URL_PATH)",
    )
    add_brokers_option(made)
    tls.add_options(made)
    return made


def base_path(raw: str) -> str:
    """A path below which the page is served, without slashes at its ends.

    >>> base_path("/tools/paceline/"), base_path("/")
    ('tools/paceline', '')

    Raises:
        ArgumentTypeError: no path.
    """
    path = raw.strip("/")
    parts = path.split("/") if path else []
    # A browser takes `.` and `..` out of an address before it asks.
    if not all(re.fullmatch(r"[A-Za-z0-9._~-]+", part) and part.strip(".") for part in parts):
        raise argparse.ArgumentTypeError(f"{raw!r}: not a path of letters, digits and . _ ~ -, as /paceline is")
    return path


def options(
    address: str,
    port: int,
    further: Sequence[str] = (),
    held: tls.Certificate | None = None,
    path: str = "",
) -> dict[str, object]:
    """Streamlit's options. Only its own names and ``further`` ones are answered, so that no web page can reach in."""
    names = list(hosts.answered(address, further))
    shown = {"server.sslCertFile": held.certfile, "server.sslKeyFile": held.keyfile} if held else {}
    shown |= {"server.baseUrlPath": path} if path else {}
    return {**OPTIONS, **shown, "server.address": address, "server.port": port, "server.allowedHosts": names}


def main(argv: list[str]) -> int:
    """Serve until SIGTERM or Ctrl-C; 2 where a setting, the port or an installation is wrong."""
    chosen = parser().parse_args(argv)
    further = settings.ALLOWED_HOSTS.read(os.environ)
    # The page reads the environment: Streamlit runs it as a script of its own.
    os.environ[settings.BROKERS.name] = BrokerSettings.from_environ(os.environ, chosen.brokers).address
    if chosen.require_login:
        if lacking := missing():
            print(f"paceline: --require-login: {lacking}; docs/operations.md says what goes into it", file=sys.stderr)
            return 2
        os.environ[settings.UI_REQUIRE_LOGIN.name] = "1"
    # What is wrong with these is said here, and not to each visitor.
    settings.UI_TOKEN.read(os.environ)
    tariff(os.environ)
    held = tls.certificate(os.environ, chosen.tls_cert, chosen.tls_key)
    trouble = taken(chosen.address, chosen.port)
    if trouble:
        print(f"paceline: --port={chosen.port}: {trouble}; choose another with --port", file=sys.stderr)
        return 2
    try:
        from streamlit.web import bootstrap
    except ModuleNotFoundError:
        print(f"paceline: the page is not installed here; {install('ui')}", file=sys.stderr)
        return 2
    flags = {
        name.replace(".", "_"): value
        for name, value in options(chosen.address, chosen.port, further, held, chosen.base_path).items()
    }
    logging.getLogger("kafka").setLevel(logging.CRITICAL)  # The page itself says what is wrong with the broker.
    shown = f"{chosen.address}:{chosen.port}/{chosen.base_path}".rstrip("/")
    print(f"paceline ui: http{'s' if held else ''}://{shown}", file=sys.stderr, flush=True)
    bootstrap.load_config_options(flags)
    # Streamlit would look for changed configuration files ten times a second: a page gets its options here, once.
    bootstrap._install_config_watchers = lambda flag_options: None
    _limit()
    # The server stops by itself and then sends itself the signal again: that one shall not end us before we are done.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    bootstrap.run_asgi_app(str(SCRIPT), f"{__package__}.page_app:app", [], flags)
    return 0


def _limit() -> None:
    """Streamlit's server gets the limits of ours: of time, of a head's size, of connections."""
    from streamlit.web.server.starlette import starlette_server

    from paceline.http_limits import Limits
    from paceline.web.shell import TimedClients, limited

    given, clients = starlette_server._get_uvicorn_config_kwargs, TimedClients(Limits())
    starlette_server._get_uvicorn_config_kwargs = lambda: {**given(), **limited(clients)}


def taken(address: str, port: int) -> str:
    """Why the page cannot listen there; "" where it can."""
    if not 0 < port < 65536:
        return "not a port, 1 to 65535"
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            return f"cannot listen on {address}: {error.strerror or error}"
    return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
