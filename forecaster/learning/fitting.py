"""The fit: the quantile loss of the network over examples, by torch; the weights as named arrays for numpy."""

from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..models.features import VERSION
from ..models.network import LEVELS
from .examples import Examples

WIDTHS = (160, 96)
DECODER = (96, 64)
BATCH, RATE, DECAY = 256, 2e-3, 1e-3
#: What came is cut here, in scales of the past: one wild value would rule the fit.
LARGEST = 12.0


class Network(nn.Module):
    """An encoder of the past, and a decoder that is asked about one step: the median, 4 gaps above it, 4 below."""

    def __init__(self, past: int, step: int) -> None:
        super().__init__()
        self.encoder = nn.ModuleList([nn.Linear(past, WIDTHS[0]), nn.Linear(WIDTHS[0], WIDTHS[1])])
        sizes = (WIDTHS[1] + step, *DECODER, 9)
        self.decoder = nn.ModuleList([nn.Linear(a, b) for a, b in pairwise(sizes)])
        self.dropout = nn.Dropout(0.1)

    def forward(self, past: Tensor, steps: Tensor) -> Tensor:
        """Quantiles: examples x steps x levels."""
        state = past
        for layer in self.encoder:
            state = self.dropout(torch.relu(layer(state)))
        hidden = torch.cat([state[:, None, :].expand(-1, steps.shape[1], -1), steps], dim=-1)
        for layer in self.decoder[:-1]:
            hidden = torch.relu(layer(hidden))
        hidden = self.decoder[-1](hidden)
        gaps, median = nn.functional.softplus(hidden[..., 1:9]), hidden[..., :1]
        up, down = torch.cumsum(gaps[..., :4], -1), torch.cumsum(gaps[..., 4:], -1)
        return torch.cat([median - down.flip(-1), median, median + up], dim=-1)


def loss(quantiles: Tensor, came: Tensor) -> Tensor:
    """The mean pinball loss; what was not measured does not count."""
    levels = torch.tensor(LEVELS, dtype=torch.float32, device=came.device)
    measured = torch.isfinite(came)
    error = (
        torch.where(measured, came, torch.zeros((), device=came.device)).clamp(-LARGEST, LARGEST)[..., None] - quantiles
    )
    each = 2.0 * torch.maximum(levels * error, (levels - 1.0) * error).mean(-1)
    return (each * measured).sum() / measured.sum().clamp(min=1)


def fit(examples: Examples, rounds: int, seed: int = 0) -> Network:
    """A network that has seen every example ``rounds`` times."""
    torch.manual_seed(seed)
    past, steps, came = (torch.from_numpy(part) for part in (examples.past, examples.steps, examples.came))
    model = Network(past.shape[1], steps.shape[2])
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY)
    batches = max(1, len(past) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=rounds * batches + 1)
    model.train()
    for _ in range(rounds):
        order = torch.randperm(len(past))
        for number in range(batches):
            chosen = order[number * BATCH : (number + 1) * BATCH]
            optimizer.zero_grad()
            loss(model(past[chosen], steps[chosen]), came[chosen]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
    return model.eval()


def packed(models: list[Network]) -> dict[str, NDArray[Any]]:
    """The weights of an ensemble as ``models.network`` reads them: each array has a first axis over the members."""
    states = [model.state_dict() for model in models]
    table = {name: np.stack([state[name].numpy() for state in states]).astype(np.float16) for name in states[0]}
    return table | {"version": np.array(VERSION)}
