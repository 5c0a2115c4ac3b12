"""``paceline forecaster``: the service, or the training of its global model."""

import argparse
import sys

EXAMPLES = """\
examples:
  paceline forecaster                                on 127.0.0.1:8000, learning from PACELINE_BROKERS
"""


def main(argv: list[str] | None = None) -> int:
    """Serve until SIGTERM; the exit status."""
    _parse(sys.argv[1:] if argv is None else argv)
    return 0


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="paceline forecaster",
        description="Forecasts with honest intervals, cycles and kinds of job, over HTTP and on the bus.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
