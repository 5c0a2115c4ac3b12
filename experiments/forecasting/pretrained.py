"""Pretrain the model of patches: on made-up series first, then on them and the recorded development halves.

    python -m experiments.forecasting.pretrained --data FOLDER --fits FOLDER --out forecaster/models/patches-1.npz
    python -m experiments.forecasting.pretrained --data FOLDER --fits FOLDER --leave-out --out CACHE

``--fits`` holds what each fit has done so far: a run that was cut off goes on from there, and the fit on made-up
series, which has seen nothing recorded, is shared by all. With ``--leave-out`` OUT is a folder and gets one file a
source: weights that have seen nothing of that source. ``--only`` fits some of them, for several processes at a time.
"""

import argparse
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from forecaster.learning import blend, pretraining
from forecaster.models import arrays

from . import data, network

#: Examples of made-up series among those of recorded ones, in the scale of ``network.PASTS``.
MADE_UP = 60.0
#: Left out where nothing is.
NONE = "none"
PLAN = pretraining.Plan()


def without(folder: Path, fits: Path, source: str) -> dict[str, Any]:
    """The weights, fitted on the development halves of all sources but one."""
    start = pretraining.invented(fits / "made-up.npz", PLAN, said)
    groups = network.groups(folder, "dev")
    kept = {kind: series for kind, series in groups.items() if network.SOURCE.get(kind, kind) != source}
    shares = {**network.PASTS, blend.MADE_UP: MADE_UP}
    model = pretraining.refined(start, kept, shares, fits / f"without-{source}.npz", PLAN, said)
    card = {
        "learned_from": {kind: len(series) for kind, series in kept.items()},
        "which": "development halves, and made-up series",
        "by": "python -m experiments.forecasting.pretrained",
        **asdict(PLAN),
    }
    return pretraining.packed(model, card)


def said(name: str, number: int, rounds: int, loss: float) -> None:
    """A line on stderr."""
    print(f"{name}: round {number} of {rounds}, loss {loss:.4f}", file=sys.stderr, flush=True)


def main() -> int:
    """Train and write the weights."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="the recorded data; asked for")
    parser.add_argument("--fits", type=Path, required=True, metavar="FOLDER", help="where fits are kept, to resume")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--leave-out", action="store_true", help="one file for each source left out")
    parser.add_argument("--only", metavar="SOURCES", help="with --leave-out: these, with commas")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), metavar="N")
    args = parser.parse_args()
    if (refusal := data.missing(args.data)) is not None:
        print(f"experiments.forecasting.pretrained: {refusal}", file=sys.stderr)
        return 2
    torch.set_num_threads(args.threads)
    args.fits.mkdir(parents=True, exist_ok=True)
    if not args.leave_out:
        arrays.write(args.out, without(args.data, args.fits, NONE))
        return 0
    args.out.mkdir(parents=True, exist_ok=True)
    sources = sorted(set(network.PASTS) - {blend.MADE_UP, *network.SOURCE})
    for source in args.only.split(",") if args.only else sources:
        arrays.write(args.out / f"patches-without-{source}.npz", without(args.data, args.fits, source))
    return 0


if __name__ == "__main__":
    sys.exit(main())
