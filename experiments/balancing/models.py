"""Small models of three kinds with made-up data that can be learned: a residual network, an encoder, a decoder.

Rule of this file: a model and its data are functions of the seed; a sample takes half a millisecond to one of a core.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

CLASSES, VOCABULARY, LENGTH = 10, 256, 32


class Samples(Dataset[tuple[Tensor, Tensor]]):
    """Inputs with their targets."""

    def __init__(self, inputs: Tensor, targets: Tensor) -> None:
        self.inputs, self.targets = inputs, targets

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.inputs[index], self.targets[index]


class _Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(width, width, 3, 1, 1),
            nn.GroupNorm(4, width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, 1, 1),
            nn.GroupNorm(4, width),
        )

    def forward(self, hidden: Tensor) -> Tensor:
        return torch.relu(hidden + self.body(hidden))


class ResNet(nn.Module):
    """Three residual blocks; normalised by group, for statistics of a batch depend on how it is cut."""

    def __init__(self, width: int = 24, blocks: int = 3) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, width, 3, 2, 1), nn.ReLU(), *(_Residual(width) for _ in range(blocks)), nn.AdaptiveAvgPool2d(2)
        )
        self.head = nn.Linear(width * 4, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.head(self.body(images).flatten(1))
        return scores


class Transformer(nn.Module):
    """Two layers over ``LENGTH`` tokens: an encoder that classifies, or a decoder that tells the next token."""

    def __init__(self, *, decoder: bool, width: int = 48, layers: int = 2) -> None:
        super().__init__()
        self.decoder = decoder
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.places = nn.Parameter(torch.zeros(LENGTH, width))
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, VOCABULARY if decoder else CLASSES)

    def forward(self, tokens: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1]) if self.decoder else None
        hidden = self.body(self.tokens(tokens) + self.places, mask=mask, is_causal=self.decoder)
        scores: Tensor = self.head(hidden if self.decoder else hidden.mean(1))
        return scores


@dataclass(frozen=True)
class Kind:
    """A model, its data, and its loss as a mean over samples."""

    model: Callable[[], nn.Module]
    data: Callable[[int], Samples]
    loss: Callable[[Tensor, Tensor], Tensor]
    rate: float


def _images(size: int) -> Samples:
    generator = torch.Generator().manual_seed(1)
    targets = torch.randint(CLASSES, (size,), generator=generator)
    patterns = torch.randn(CLASSES, 3, 24, 24, generator=generator)
    return Samples(torch.randn(size, 3, 24, 24, generator=generator) + 0.3 * patterns[targets], targets)


def _sentences(size: int) -> Samples:
    """The class is which tenth of the vocabulary is preferred."""
    generator = torch.Generator().manual_seed(1)
    targets = torch.randint(CLASSES, (size,), generator=generator)
    common = torch.randint(VOCABULARY, (size, LENGTH), generator=generator)
    own = targets[:, None] * 25 + torch.randint(25, (size, LENGTH), generator=generator)
    return Samples(torch.where(torch.rand(size, LENGTH, generator=generator) < 0.3, own, common), targets)


def _texts(size: int) -> Samples:
    """The next token is a function of the one before, three times in four."""
    generator = torch.Generator().manual_seed(1)
    after = torch.randperm(VOCABULARY, generator=generator)
    tokens = torch.randint(VOCABULARY, (size, LENGTH + 1), generator=generator)
    for place in range(1, LENGTH + 1):
        follows = torch.rand(size, generator=generator) < 0.75
        tokens[:, place] = torch.where(follows, after[tokens[:, place - 1]], tokens[:, place])
    return Samples(tokens[:, :-1], tokens[:, 1:])


def _token_loss(scores: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.cross_entropy(scores.flatten(0, 1), targets.flatten())


KINDS = {
    "resnet": Kind(ResNet, _images, nn.functional.cross_entropy, 0.05),
    "bert": Kind(lambda: Transformer(decoder=False), _sentences, nn.functional.cross_entropy, 0.05),
    "gpt": Kind(lambda: Transformer(decoder=True), _texts, _token_loss, 0.1),
}
