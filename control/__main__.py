"""``paceline control``: the service."""

import argparse
import logging
import sys

from paceline import tls
from paceline.kafka.settings import add_brokers_option
from paceline.options import Parser
from paceline.terminal import log_to_stderr, say

EXAMPLES = """\
examples:
  paceline control                                   on 127.0.0.1:8002, with sessions in ~/.local/share/paceline
  paceline control --sessions-dir /data/sessions     a folder with enough space
  paceline control --address 0.0.0.0                 for other machines; set PACELINE_CONTROL_TOKEN
  paceline session start tuesday --job resnet-7      then, in another terminal
  paceline session stop tuesday; paceline session export tuesday --format jsonl -o tuesday.jsonl

  curl -s 127.0.0.1:8002/v1/sessions
The interface is described at /docs and /openapi.json.
"""


def main(argv: list[str] | None = None) -> int:
    """Serve until SIGTERM; the exit status."""
    args = _parse(sys.argv[1:] if argv is None else argv)
    log_to_stderr(args.log_level)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    from paceline.web.starting import ServerError

    from .server import serve

    try:
        return serve(args)
    except ServerError as error:
        say(str(error), "paceline control")
        return 1


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = Parser(
        prog="paceline control",
        description="Record sessions and apply changes over HTTP.\nNeeds a Kafka broker.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--port", type=int, default=8002, metavar="N", help="where to listen (8002; 0: any free one)")
    parser.add_argument("--address", default="127.0.0.1", metavar="IP", help="on which address (127.0.0.1)")
    parser.add_argument("--sessions-dir", metavar="DIR", help="where sessions are kept; default: PACELINE_SESSIONS_DIR")
    add_brokers_option(parser)
    tls.add_options(parser)
    parser.add_argument("--log-level", choices=["debug", "info", "warning", "error"], default="info")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
