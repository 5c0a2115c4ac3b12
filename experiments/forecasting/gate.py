"""Fit the gate on recorded series' development halves and on made-up ones: minutes, as often as a member comes or goes.

    python -m experiments.forecasting.gate --data FOLDER --cache FOLDER --leave-out --out forecaster/gate-1.json
    python -m experiments.forecasting.gate --data FOLDER --cache FOLDER      what those in the cache make of it

The cache must hold the networks of ``experiments.forecasting.network --leave-out``: the gate learns how far to trust a
network on a source from one that was trained without that source. With ``--leave-out`` the cache also gets
``gate-without-SOURCE.json`` (which ``experiments.forecasting`` judges), and a table of the development halves is
printed. It needs torch.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from forecaster import ensemble, traits
from forecaster.gate import LARGEST, read

from . import data, evidence
from .contest import LEVELS
from .evidence import MADE_UP, MEMBERS, SOURCES, Evidence

HIDDEN, NETWORKS, ROUNDS, BATCH, RATE, DECAY = 16, 3, 30, 128, 4e-3, 0.1
#: So often a case is shown as if there had been no back-test, and so often a member as if it could not forecast.
UNTRIED, UNABLE = 0.05, 0.1
#: Made-up series count so much beside recorded ones.
MADE_UP_COUNTS = 0.5
#: A case counts by what a middling member loses there, and by so much of what such a one loses in its whole group.
EVENED = 0.2
#: Where the fit begins: a weight falls with the cube of the loss, and each older moment counts half.
POWER, FADE = 3.0, 0.8


class Network(nn.Module):
    """``forecaster.gate`` in torch: scores of the members and the power of their losses."""

    def __init__(self, centre: Tensor, spread: Tensor, members: int) -> None:
        super().__init__()
        self.centre, self.spread = nn.Buffer(centre), nn.Buffer(spread)
        self.hidden = nn.Linear(len(traits.NAMES) + members + 1, HIDDEN)
        self.out = nn.Linear(HIDDEN, members + 1)
        self.fade = nn.Parameter(torch.tensor(FADE))
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)
        with torch.no_grad():
            self.out.bias[-1] = POWER

    def forward(self, described: Tensor, losses: Tensor, heard: Tensor) -> Tensor:
        """Shares: cases x members."""
        ratios = log_ratios(losses, self.fade)
        tried = torch.isfinite(losses).flatten(1).any(1).float()[:, None]
        asked = torch.cat([(described - self.centre) / self.spread, ratios, tried], dim=1)
        out = self.out(torch.tanh(self.hidden(asked)))
        scores = out[:, :-1] - nn.functional.softplus(out[:, -1:]) * ratios
        return torch.softmax(scores.masked_fill(~heard, -torch.inf), dim=1)


def log_ratios(losses: Tensor, fade: Tensor) -> Tensor:
    """``forecaster.gate.log_ratios`` for many cases: cases x moments x members to cases x members."""
    measured = torch.isfinite(losses)
    counts = torch.exp(-fade * torch.arange(losses.shape[1]))[None, :, None] * measured
    means = (torch.where(measured, losses, 0.0) * counts).sum(1) / counts.sum(1).clamp(min=1e-12)
    known = measured.any(1)
    best = torch.where(known, means, torch.inf).amin(1, keepdim=True)
    worst = torch.where(known, means, 0.0).amax(1, keepdim=True)
    best = torch.where(torch.isfinite(best), best, 1.0)
    floor = torch.maximum(1e-3 * best, 1e-9 * worst).clamp(min=1e-30)
    return torch.where(known, torch.log((means + floor) / (best + floor)).clamp(0.0, LARGEST), 0.0)


def combined(made: Tensor, shares: Tensor) -> Tensor:
    """The members' quantiles by their shares: cases x knots x levels."""
    return (torch.nan_to_num(made) * shares[:, :, None, None]).sum(1).sort(-1).values


def pinball(actual: Tensor, quantiles: Tensor) -> Tensor:
    """Each case's mean loss."""
    levels = torch.tensor(LEVELS, dtype=torch.float32)
    measured = torch.isfinite(actual)
    error = torch.nan_to_num(actual)[..., None] - quantiles
    each = 2.0 * torch.maximum(levels * error, (levels - 1.0) * error).mean(-1)
    return (each * measured).sum(1) / measured.sum(1).clamp(min=1)


class Table:
    """Evidence as tensors. ``able``: which members may have a share in each case, as in the service."""

    def __init__(self, found: Evidence) -> None:
        self.traits = torch.tensor(found.traits, dtype=torch.float32)
        self.losses = torch.tensor(found.losses, dtype=torch.float32)
        self.made, self.actual = torch.tensor(found.made), torch.tensor(found.actual, dtype=torch.float32)
        able, tried = torch.isfinite(self.made[..., 0, 0]), torch.isfinite(self.losses).any(1)
        self.untested = able
        self.able = able & (tried | ~tried.any(1, keepdim=True))
        rests = self.traits[:, traits.NAMES.index("rests")] > 0.0
        state = self.able & torch.tensor([name in ensemble.STATES for name in MEMBERS])
        self.able = torch.where((rests & state.any(1))[:, None], state, self.able)


def importance(found: Evidence, table: Table) -> Tensor:
    """How much each case counts: a middling member's loss to 1, and each source as much as the next."""
    losses = torch.stack([pinball(table.actual, made) for made in torch.nan_to_num(table.made).unbind(1)], 1).numpy()
    middling = np.nanmedian(np.where(table.untested.numpy(), losses, np.nan), axis=1)
    counts = np.zeros(len(middling))
    for group in np.unique(found.group):
        chosen = found.group == group
        counts[chosen] = 1.0 / np.maximum(middling[chosen] + EVENED * middling[chosen].mean(), 1e-9)
    for source in np.unique(found.source):
        chosen = found.source == source
        counts[chosen] *= (MADE_UP_COUNTS if source == MADE_UP else 1.0) / chosen.sum()
    return torch.tensor(counts * len(counts), dtype=torch.float32)


def fit(found: Evidence, seed: int) -> Network:
    """One network that has seen every case ``ROUNDS`` times."""
    torch.manual_seed(seed)
    table = Table(found)
    counts = importance(found, table)
    model = Network(table.traits.mean(0), table.traits.std(0).clamp(min=0.05), table.made.shape[1])
    weights: list[dict[str, Any]] = [
        {"params": [model.hidden.weight, model.out.weight]},
        {"params": [model.hidden.bias, model.out.bias, model.fade], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(weights, lr=RATE, weight_decay=DECAY)
    batches = max(1, len(counts) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=ROUNDS * batches + 1)
    for _ in range(ROUNDS):
        order = torch.randperm(len(counts))
        for number in range(batches):
            chosen = order[number * BATCH : (number + 1) * BATCH]
            optimizer.zero_grad()
            (_losses(model, table, chosen) * counts[chosen]).mean().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    return model.eval()


def _losses(model: Network, table: Table, chosen: Tensor) -> Tensor:
    untried = torch.rand(len(chosen)) < UNTRIED
    seen = torch.where(untried[:, None, None], torch.nan, table.losses[chosen])
    heard = table.able[chosen]
    kept = heard & (torch.rand(heard.shape) >= UNABLE)
    heard = torch.where(kept.any(1, keepdim=True), kept, heard)
    return pinball(table.actual[chosen], combined(table.made[chosen], model(table.traits[chosen], seen, heard)))


def fitted(found: Evidence) -> list[Network]:
    """The networks of a gate."""
    return [fit(found, seed) for seed in range(NETWORKS)]


def packed(models: Sequence[Network], sources: Sequence[str], cases: int) -> dict[str, Any]:
    """The weights as ``forecaster.gate.unpacked`` reads them, and what they come from."""

    def stacked(name: str, turned: bool = False) -> Any:
        parts = [model.get_parameter(name).detach().numpy() for model in models]
        return np.round(np.stack([part.T if turned else part for part in parts]).astype(np.float64), 4)

    return {
        "version": traits.VERSION,
        "card": {
            "learned_from": f"development halves of {', '.join(sources)}",
            "cases": cases,
            "by": "python -m experiments.forecasting.gate",
            "seeds": list(range(len(models))),
        },
        "traits": list(traits.NAMES),
        "members": list(MEMBERS),
        "centre": np.round(models[0].centre.numpy().astype(np.float64), 4).tolist(),
        "spread": np.round(models[0].spread.numpy().astype(np.float64), 4).tolist(),
        "hidden": stacked("hidden.weight", turned=True).tolist(),
        "hidden_bias": stacked("hidden.bias")[:, None].tolist(),
        "out": stacked("out.weight", turned=True).tolist(),
        "out_bias": stacked("out.bias")[:, None].tolist(),
        "fade": stacked("fade").tolist(),
    }


def left_out(found: Evidence, cache: Path) -> None:
    """A gate without each source into ``cache``."""
    for source in SOURCES:
        others = evidence.part(found, found.source != source)
        models = fitted(others)
        learned = [one for one in (*SOURCES, MADE_UP) if one != source]
        _write(cache / f"gate-without-{source}.json", packed(models, learned, len(others.source)))
        print(f"{source}: fitted without it", file=sys.stderr, flush=True)


def judged(found: Evidence, cache: Path) -> str:
    """What the gates in ``cache`` make of the sources that they have not seen, as a table."""
    lines = ["| source left out | cases | wQL | without the gate | inside 80 % |", "|---|---|---|---|---|"]
    for source in SOURCES:
        shown = evidence.part(found, found.source == source)
        held = evidence.with_gate(shown, read(cache / f"gate-without-{source}.json"))
        wql, usual = (evidence.relative(shown, one) for one in (held, evidence.without_gate(shown)))
        inside = float(np.nanmean(evidence.inside(shown, held)))
        lines.append(f"| {source} | {len(shown.source)} | {wql:.3f} | {usual:.3f} | {inside:.0%} |")
    return "\n".join(lines)


def main() -> int:
    """Fit, write, say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="the recorded data; asked for")
    parser.add_argument("--cache", type=Path, required=True, metavar="FOLDER", help="networks and evidence")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where to write the gate of all sources")
    parser.add_argument("--leave-out", action="store_true", help="also a gate for each source left out, and a table")
    args = parser.parse_args()
    if (refusal := data.missing(args.data) or evidence.missing(args.cache)) is not None:
        print(f"experiments.forecasting.gate: {refusal}", file=sys.stderr)
        return 2
    torch.set_num_threads(1)
    found = evidence.cached(args.data, args.cache)
    if args.leave_out:
        left_out(found, args.cache)
    print(judged(found, args.cache))
    if args.out:
        _write(args.out, packed(fitted(found), (*SOURCES, MADE_UP), len(found.source)))
    return 0


def _write(path: Path, table: dict[str, Any]) -> None:
    path.write_text(json.dumps(table, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
