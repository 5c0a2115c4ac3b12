"""``paceline forecaster pretrain``: the pretrained model refined on recordings of your own, or trained from scratch."""

import argparse
import sys
import time
from dataclasses import asdict
from pathlib import Path

from paceline.install import install
from paceline.options import Parser
from paceline.terminal import say

from ..models import arrays, patches
from . import blend
from .command import gathered
from .examples import Recorded

PROGRAM = "paceline forecaster pretrain"
EXAMPLES = """\
examples:
  paceline record -o week.jsonl.zst --from-beginning                      all that the bus holds
  paceline forecaster pretrain week.jsonl.zst --out patches.npz           refine the weights of the package: minutes
  paceline forecaster pretrain --from-archive history --out patches.npz   on the last three days of an archive
  paceline forecaster pretrain --from-scratch --out patches.npz           from made-up series alone: an hour
  paceline forecaster --pretrained patches.npz                            use these weights

What was cut off goes on where it was when the same command is run again.
"""
#: Examples of made-up series beside those of recordings: what it could before is not forgotten.
SHARES = {"recorded": 0.6, blend.MADE_UP: 0.4}
#: A round has a batch at the least.
LEAST = 128


def main(argv: list[str]) -> int:
    """Train and write the weights; 2 where a recording cannot be used or torch is missing."""
    args = _parsed(argv)
    try:
        series = gathered(args.recordings, args.from_archive)
        _train(args, series)
    except (OSError, ValueError) as error:
        return _refuse(str(error))
    except ModuleNotFoundError:
        return _refuse(f"torch is not installed; {install('training')}")
    say(f"{args.out} written; use it with --pretrained {args.out}", PROGRAM)
    return 0


def _parsed(argv: list[str]) -> argparse.Namespace:
    parser = Parser(
        prog=PROGRAM,
        description="Refine the pretrained model on the windows in recordings and archives, or train it from scratch. "
        "It needs paceline[training].",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("recordings", nargs="*", type=Path, metavar="RECORDING")
    parser.add_argument("--from-archive", metavar="WHERE", help="also what `paceline archive` has kept there")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="where to write the weights (.npz)")
    parser.add_argument("--from-scratch", action="store_true", help="begin with random weights and made-up series")
    parser.add_argument(
        "--rounds", type=int, default=10, metavar="N", help="with --from-scratch: of made-up series (10)"
    )
    parser.add_argument("--examples", type=int, default=40_000, metavar="N", help="in each of them (40000)")
    parser.add_argument("--fine-rounds", type=int, default=3, metavar="N", help="with recorded series (3)")
    parser.add_argument("--fine-examples", type=int, default=20_000, metavar="N", help="in each of them (20000)")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    args = parser.parse_args(argv)
    if not args.recordings and not args.from_archive and not args.from_scratch:
        parser.error(
            "from what? Name recordings, or an archive by --from-archive, or --from-scratch for made-up series alone"
        )
    if min(args.rounds, args.fine_rounds, args.examples // LEAST, args.fine_examples // LEAST) < 1:
        parser.error(f"at least one round of {LEAST} examples")
    return args


def _train(args: argparse.Namespace, series: list[Recorded]) -> None:
    """Learn from ``series`` and write the weights.

    Raises:
        OSError: a file cannot be written.
        ValueError: no series is long enough, or the fit that was kept is another one.
        ModuleNotFoundError: torch is not installed.
    """
    from . import pretraining

    plan = pretraining.Plan(
        args.rounds, args.examples, args.fine_rounds, args.fine_examples, pretraining.FINE_RATE, args.seed
    )
    began_s = time.monotonic()

    def told(name: str, number: int, rounds: int, loss: float) -> None:
        minutes = (time.monotonic() - began_s) / 60.0
        say(f"{name}: round {number} of {rounds}, loss {loss:.4f}, {minutes:.1f} min", PROGRAM)

    kept = (args.out.with_suffix(".made-up.npz"), args.out.with_suffix(".recorded.npz"))
    shipped = None if args.from_scratch else patches.shipped()
    model = pretraining.invented(kept[0], plan, told) if shipped is None else pretraining.of_weights(shipped)
    if series:
        model = pretraining.refined(model, {"recorded": series}, SHARES, kept[1], plan, told)
    card = {
        "recorded_series": len(series),
        "begun_with": "made-up series" if args.from_scratch else patches.WEIGHTS,
    }
    arrays.write(args.out, pretraining.packed(model, {**card, "by": PROGRAM, **asdict(plan)}))
    patches.read(args.out)
    for path in kept:
        path.unlink(missing_ok=True)


def _refuse(reason: str) -> int:
    say(reason, PROGRAM)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
