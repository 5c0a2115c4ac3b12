"""The fit of the pretrained model, by torch: examples drawn for each round again, resumable, its weights for numpy.

It learns from made-up series first, which takes hours on a processor, and is refined on recorded ones, which takes
minutes.

Rule of this file: what is kept between two runs are named arrays, never a pickle.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..models import arrays
from ..models.features import STEP
from ..models.patches import ABOUT, HEADS, PATCH, TOKENS, VERSION, Weights
from . import blend
from .examples import Examples, Recorded
from .fitting import loss

WIDTH, WIDE, LAYERS, QUESTIONS = 96, 192, 3, 2
BATCH, RATE, DECAY, DROPPED = 128, 1e-3, 0.02, 0.05
#: How often an example is seen: drawing one takes a third of the time of learning from it.
SEEN = 3
#: The share of a fit in which the learning rate rises.
RISING = 0.1
#: The highest rate where there is something to forget.
FINE_RATE = 4e-4
#: No fit that is kept is larger than this.
MOST_BYTES = 64 * 1024 * 1024


class _Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.asking, self.known, self.held, self.mixed = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, rows: Tensor, others: Tensor, seen: Tensor) -> Tensor:
        def heads(of: Tensor) -> Tensor:
            return of.view(*of.shape[:2], HEADS, WIDTH // HEADS).transpose(1, 2)

        mixed = nn.functional.scaled_dot_product_attention(
            heads(self.asking(rows)), heads(self.known(others)), heads(self.held(others)), seen[:, None, None, :]
        )
        made: Tensor = self.mixed(mixed.transpose(1, 2).reshape(rows.shape))
        return made


class _Layer(_Attention):
    """Attention, then a wide and a narrow layer, each added to what came in."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, WIDE), nn.Linear(WIDE, WIDTH)
        self.dropout = nn.Dropout(DROPPED)

    def follow(self, rows: Tensor, others: Tensor | None, seen: Tensor) -> Tensor:
        """``rows`` after looking at ``others``, or at each other."""
        normal = self.before(rows)
        rows = rows + self.dropout(self(normal, normal if others is None else others, seen))
        made: Tensor = rows + self.dropout(self.narrow(torch.relu(self.wide(self.after(rows)))))
        return made


class Network(nn.Module):
    """``models.patches.answers`` for many pasts at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.patch, self.about = nn.Linear(2 * PATCH, WIDTH), nn.Linear(ABOUT, WIDTH)
        self.place = nn.Parameter(0.02 * torch.randn(TOKENS, WIDTH))
        self.question = nn.Linear(STEP, WIDTH)
        self.encoder = nn.ModuleList([_Layer() for _ in range(LAYERS)])
        self.decoder = nn.ModuleList([_Layer() for _ in range(QUESTIONS)])
        self.encoded, self.asked = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.out = nn.Linear(WIDTH, 9)

    def forward(self, past: Tensor, steps: Tensor) -> Tensor:
        """Quantiles: examples x steps x levels. ``past``: rows of ``models.patches.past_row``."""
        patches, about = past[:, : TOKENS * PATCH].view(-1, TOKENS, PATCH), past[:, TOKENS * PATCH :]
        known = torch.isfinite(patches)
        told = torch.cat([torch.where(known, patches, torch.zeros((), device=past.device)), known.float()], dim=2)
        state = torch.cat([self.about(about)[:, None], self.patch(told) + self.place], dim=1)
        seen = torch.cat([torch.ones(len(past), 1, dtype=torch.bool, device=past.device), known.any(2)], dim=1)
        for layer in self.encoder:
            assert isinstance(layer, _Layer)
            state = layer.follow(state, None, seen)
        state, hidden = self.encoded(state), self.question(steps)
        for layer in self.decoder:
            assert isinstance(layer, _Layer)
            hidden = layer.follow(hidden, state, seen)
        hidden = self.out(self.asked(hidden))
        gaps, median = nn.functional.softplus(hidden[..., 1:9]), hidden[..., :1]
        up, down = torch.cumsum(gaps[..., :4], -1), torch.cumsum(gaps[..., 4:], -1)
        return torch.cat([median - down.flip(-1), median, median + up], dim=-1)


class Fit:
    """A fit of ``rounds`` rounds, each on examples of its own; what it has done so far is in ``kept``.

    Args:
        draw: the examples of a round, by its number: as many in each.
        rounds: how many in all.
        examples: of a round.
        kept: the file that holds the fit between two runs.
        seed: of the first weights and of the order of the examples.
        seen: how often each example is seen.
        rate: the highest learning rate.
        start: the weights to begin with, in place of random ones.

    Raises:
        ValueError: ``kept`` holds no such fit.
    """

    def __init__(
        self,
        draw: Callable[[int], Examples],
        rounds: int,
        examples: int,
        kept: Path,
        seed: int = 0,
        seen: int = SEEN,
        rate: float = RATE,
        start: Network | None = None,
    ) -> None:
        torch.manual_seed(seed)
        self.draw, self.rounds, self.kept, self.seed, self.seen = draw, rounds, kept, seed, seen
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.model = Network()
        if start is not None:
            self.model.load_state_dict(start.state_dict())
        self.model.to(self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=rate, weight_decay=DECAY)
        self.rate, self.batches = rate, seen * (examples // BATCH)
        self.done = 0
        self._plan = np.array([rounds, examples, seen, seed])
        if kept.is_file():
            self._load()

    def round(self) -> float:
        """One round more, kept; its mean loss."""
        examples = self.draw(self.done)
        past, steps, came = (
            torch.from_numpy(part).to(self.device) for part in (examples.past, examples.steps, examples.came)
        )
        order = torch.Generator().manual_seed(self.seed * 100_003 + self.done)
        losses: list[Tensor] = []
        self.model.train()
        for _ in range(self.seen):
            shuffled = torch.randperm(len(past), generator=order)
            for first in range(0, len(past) - BATCH + 1, BATCH):
                chosen = shuffled[first : first + BATCH]
                for group in self.optimizer.param_groups:
                    share = (self.done + len(losses) / self.batches) / self.rounds
                    group["lr"] = self.rate * warmed_up(share)
                self.optimizer.zero_grad()
                missed = loss(self.model(past[chosen], steps[chosen]), came[chosen])
                missed.backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.optimizer.step()
                losses.append(missed.detach())
        self.done += 1
        self._keep()
        return float(torch.stack(losses).mean())

    def _keep(self) -> None:
        state = self.optimizer.state_dict()["state"]
        table = {f"model.{name}": value.cpu().numpy() for name, value in self.model.state_dict().items()}
        table |= {
            f"optimizer.{at}.{name}": one.cpu().numpy() for at, held in state.items() for name, one in held.items()
        }
        table |= {"done": np.array(self.done), "plan": self._plan}
        part = self.kept.with_suffix(".part.npz")
        with part.open("wb") as file:
            np.savez(file, **table)
        part.replace(self.kept)

    def _load(self) -> None:
        table = arrays.read(self.kept, MOST_BYTES, "fit")
        try:
            if not np.array_equal(table["plan"], self._plan):
                raise ValueError("it is one of other rounds, examples or another seed")
            self.model.load_state_dict(_weights(table))
            state: dict[int, dict[str, Tensor]] = {}
            for name in table:
                if name.startswith("optimizer."):
                    _, at, part = name.split(".")
                    state.setdefault(int(at), {})[part] = torch.from_numpy(table[name])
            self.optimizer.load_state_dict(self.optimizer.state_dict() | {"state": state})
            self.done = int(table["done"])
        except (KeyError, RuntimeError, ValueError) as error:
            raise ValueError(f"{self.kept} cannot be resumed: {error}; remove it to begin again") from error


def warmed_up(share: float) -> float:
    """The learning rate after this share of the fit, of the highest: up in a line, then down along a cosine.

    >>> [round(warmed_up(share), 2) for share in (0.0, 0.05, 0.1, 0.55, 1.0)]
    [0.01, 0.5, 1.0, 0.5, 0.0]
    """
    if share < RISING:
        return max(share / RISING, 0.01)
    return 0.5 * (1.0 + math.cos(math.pi * (share - RISING) / (1.0 - RISING)))


def _weights(table: Mapping[str, NDArray[Any]]) -> dict[str, Tensor]:
    return {name.removeprefix("model."): torch.from_numpy(table[name]) for name in table if name.startswith("model.")}


@dataclass(frozen=True)
class Plan:
    """How long to learn: rounds, and examples in each, from made-up series alone and then with recorded ones."""

    rounds: int = 10
    examples: int = 40_000
    fine_rounds: int = 3
    fine_examples: int = 20_000
    fine_rate: float = FINE_RATE
    seed: int = 5


#: Told after each round: of which fit, its number, of how many, the mean loss.
Told = Callable[[str, int, int, float], None]


def invented(kept: Path, plan: Plan, told: Told) -> Network:
    """A model that has seen made-up series alone."""
    draw = blend.rounds({}, {blend.MADE_UP: 1.0}, plan.examples, plan.seed)
    return _run(Fit(draw, plan.rounds, plan.examples, kept, plan.seed), "made-up series", told)


def refined(
    start: Network,
    recorded: Mapping[str, Sequence[Recorded]],
    shares: Mapping[str, float],
    kept: Path,
    plan: Plan,
    told: Told,
) -> Network:
    """``start`` after recorded series, by kind, in their ``shares``; ``blend.MADE_UP`` has one, too.

    Raises:
        ValueError: no series of a kind is long enough.
    """
    draw = blend.rounds(recorded, shares, plan.fine_examples, plan.seed)
    fit = Fit(draw, plan.fine_rounds, plan.fine_examples, kept, plan.seed, rate=plan.fine_rate, start=start)
    return _run(fit, "recorded series", told)


def _run(fit: Fit, name: str, told: Told) -> Network:
    while fit.done < fit.rounds:
        loss = fit.round()
        told(name, fit.done, fit.rounds, loss)
    return fit.model.cpu().eval()


def packed(model: Network, card: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """The weights as ``models.patches`` reads them: matrices are (in, out); ``card``: what they come from."""
    table = {name: _turned(name, value.cpu().numpy()).astype(np.float16) for name, value in model.state_dict().items()}
    return table | {"version": np.array(VERSION), "card": np.array(json.dumps(card))}


def of_weights(weights: Weights) -> Network:
    """The model that ``packed`` made ``weights`` of, to learn more."""
    model = Network()
    model.load_state_dict(
        {name: torch.from_numpy(_turned(name, value).copy()) for name, value in weights.table.items()}
    )
    return model


def _turned(name: str, value: NDArray[Any]) -> NDArray[Any]:
    """Matrices the other way round: torch's are (out, in)."""
    return value.T if name.endswith(".weight") and value.ndim == 2 else value
