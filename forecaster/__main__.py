"""``paceline forecaster``: the service, or the training of its models."""

import argparse
import logging
import os
import sys

from paceline import tls
from paceline.kafka.settings import add_brokers_option
from paceline.options import Parser
from paceline.settings import ARCHIVE, FORECASTER_TOKEN
from paceline.terminal import log_to_stderr, say

EXAMPLES = """\
examples:
  paceline forecaster                                on 127.0.0.1:8000, learning from PACELINE_BROKERS
  paceline forecaster --no-bus                       only forecasts of values in the request; needs no broker
  paceline forecaster --port 9000 --address 0.0.0.0  for other machines; set PACELINE_FORECASTER_TOKEN
  paceline forecaster --prometheus http://prometheus:9090    with the last days of DCGM's and Paceline's metrics
  paceline forecaster --archive history              with what `paceline archive` has kept of the last three days
  paceline forecaster train run-1.jsonl.zst run-2.jsonl.zst --out network.npz    train your own weights
  paceline forecaster train --from-archive history --out network.npz             the same from an archive
  paceline forecaster --network network.npz                                      use these weights
  paceline forecaster pretrain run-1.jsonl.zst --out patches.npz    refine the pretrained model on your recordings

  curl -s 127.0.0.1:8000/v1/forecast -H 'content-type: application/json' \\
    -d '{"values": [3, 4, 5, 3, 4, 5, 3, 4], "interval_s": 60, "horizon": 3, "quantiles": [0.1, 0.5, 0.9]}'
The interface is described at /docs and /openapi.json.
"""


def main(argv: list[str] | None = None) -> int:
    """Serve until SIGTERM, train, or pretrain; the exit status."""
    args = sys.argv[1:] if argv is None else argv
    if args[:1] == ["train"]:
        from .learning.command import main as train

        return train(args[1:])
    if args[:1] == ["pretrain"]:
        from .learning.pretrain_command import main as pretrain

        return pretrain(args[1:])
    return _serve(_parse(args))


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = Parser(
        prog="paceline forecaster",
        description="Forecast metrics with intervals, find cycles and job kinds, over HTTP and Kafka.\n"
        "Needs a Kafka broker, or --no-bus.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--port", type=int, default=8000, metavar="N", help="port to listen on (8000; 0: any free one)")
    parser.add_argument("--address", default="127.0.0.1", metavar="IP", help="address to listen on (127.0.0.1)")
    add_brokers_option(parser)
    tls.add_options(parser)
    parser.add_argument("--no-bus", action="store_true", help="do not connect to a broker")
    parser.add_argument("--prometheus", metavar="URL", help="fill the history from this Prometheus at the start")
    parser.add_argument(
        "--archive", metavar="WHERE", help=f"fill the history from this archive at the start (default: {ARCHIVE.name})"
    )
    parser.add_argument("--network", metavar="FILE", help="weights that `train` wrote, instead of those shipped")
    parser.add_argument("--pretrained", metavar="FILE", help="weights that `pretrain` wrote, instead of those shipped")
    parser.add_argument("--chronos", metavar="FOLDER", help="weights of a Chronos model, as `save_pretrained` writes")
    parser.add_argument("--processors", type=int, default=os.cpu_count() or 1, metavar="N", help="CPUs to use (all)")
    parser.add_argument("--log-level", choices=["debug", "info", "warning", "error"], default="info")
    return parser.parse_args(argv)


def _serve(args: argparse.Namespace) -> int:
    log_to_stderr(args.log_level)
    for noisy in ("httpx", "httpcore", "cmdstanpy", "prophet"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    # Its matrices are small, and questions share the processors: more threads a matrix take twice the time of them, and
    # save none. It counts from numpy's import on, also in the processes that are started.
    for library in ("OPENBLAS", "MKL", "OMP"):
        os.environ.setdefault(f"{library}_NUM_THREADS", "1")
    from paceline.web.starting import ServerError

    from .server import serve

    try:
        return serve(args, FORECASTER_TOKEN.read(os.environ))
    except ServerError as error:
        say(str(error), "paceline forecaster")
        return 1


if __name__ == "__main__":
    sys.exit(main())
