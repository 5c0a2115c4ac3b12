"""A checkpoint by layer: a file for each, so that any cut of the same model can go on from it.

Rule of this file: a checkpoint is whole or it is not there. Files are written beside it, with size and digest in the
manifest, and it gets its name last. On reading nothing is believed: names and sizes are checked, digests compared, and
tensors are read by ``weights_only``, which builds no object of the file's choosing. It assumes a folder that all ranks
share, and one optimizer with one group of parameters a rank. What every rank holds alike (the step) is in the
manifest; random states are a stage's own, and only meaningful for the same cut.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import nn

_FORMAT = 1
#: What a manifest can be, and how many layers; of old checkpoints so many are kept.
_MOST_BYTES, _MOST_LAYERS, _KEPT = 16 << 20, 100_000, 2
_MANIFEST = "manifest.json"
_STEP = re.compile(r"step-(\d{9})")
_PLAIN = (int, float, bool, str, tuple)


class CheckpointError(ValueError):
    """A checkpoint cannot be written or read; the message says which, why, and what to do."""


class Checkpoint(NamedTuple):
    """A checkpoint that is whole by its manifest: where, of which step, and by which cut to go on."""

    folder: Path
    step: int
    cut: list[int]
    shapes: list[str]
    files: dict[str, tuple[int, str]]


def shape_of(layer: nn.Module) -> str:
    """What a layer's weights and buffers are, in words: two layers that differ in it cannot take each other's.

    >>> shape_of(nn.Linear(2, 3))
    'Linear weight(3,2) bias(3)'
    """
    parts = (f"{name}({','.join(map(str, value.shape))})" for name, value in layer.state_dict().items())
    return " ".join([type(layer).__name__, *parts])


def save(
    root: Path,
    step: int,
    cut: Sequence[int],
    layers: Mapping[int, nn.Module],
    optimizer: torch.optim.Optimizer,
    *,
    shapes: Sequence[str],
) -> tuple[Checkpoint, int]:
    """Writes this rank's layers; all ranks must call it. The checkpoint, and the bytes that this rank wrote.

    Args:
        root: where checkpoints are, on a disk that all ranks share.
        step: the next to be taken.
        cut: layers a stage.
        layers: this rank's, by their number in the model.
        optimizer: of their parameters, in one group.
        shapes: `shape_of` every layer of the model.
    """
    rank, folder = dist.get_rank(), root / f"step-{step:09d}"
    writing = root / f".{folder.name}.writing"
    if rank == 0:
        root.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(writing, ignore_errors=True)
        writing.mkdir()
    dist.barrier()
    if not writing.is_dir():
        raise CheckpointError(f"rank {rank} does not see {writing}: all ranks need one folder, on a shared disk")
    files = {f"layer-{index:05d}.pt": _of_layer(layer, optimizer) for index, layer in layers.items()}
    files[f"random-{rank:05d}.pt"] = _random_state()
    told = {name: _write(writing / name, content) for name, content in files.items()}
    _write_json(writing / f"rank-{rank:05d}.json", told)
    dist.barrier()
    if rank == 0:
        _finish(writing, folder, {"format": _FORMAT, "step": step, "cut": list(cut), "shapes": list(shapes)})
    dist.barrier()
    return read(folder), sum(size for size, _ in told.values())


def newest(root: Path) -> Checkpoint | None:
    """The newest checkpoint below ``root``; None where there is none. What was being written when it ended is none."""
    if not root.is_dir():
        return None
    steps = sorted(path for path in root.iterdir() if _STEP.fullmatch(path.name))
    return read(steps[-1]) if steps else None


def read(folder: Path) -> Checkpoint:
    """The checkpoint in ``folder`` by its manifest, which is checked; the layers' files are when they are loaded.

    Raises:
        CheckpointError: it is no manifest of ours.
    """
    path = folder / _MANIFEST
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise CheckpointError(f"{path} is larger than {_MOST_BYTES} bytes: no manifest is")
        told = json.loads(path.read_text())
        found = Checkpoint(
            folder, _count(told["step"]), [_count(one) for one in told["cut"]], list(map(str, told["shapes"])), {}
        )
        for name, (size, digest) in told["files"].items():
            found.files[str(name)] = (_count(size), str(digest))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(
            f"{path} is no manifest: {error!r}; remove {folder} to go on from the one before"
        ) from None
    if told.get("format") != _FORMAT:
        raise CheckpointError(f"{path} has format {told.get('format')!r}: this version reads {_FORMAT}")
    if sum(found.cut) != len(found.shapes) or 0 in found.cut or len(found.shapes) > _MOST_LAYERS:
        raise CheckpointError(f"{path}: the cut {found.cut} is not one of {len(found.shapes)} layers")
    return found


def cut_anew(found: Checkpoint, cut: Sequence[int]) -> Checkpoint:
    """The same checkpoint, to go on from by another cut: a line of its manifest. All ranks must call it."""
    if dist.get_rank() == 0:
        path = found.folder / _MANIFEST
        told = json.loads(path.read_text())
        _write_json(path, {**told, "cut": list(cut)})
    dist.barrier()
    return read(found.folder)


def load(
    found: Checkpoint, layers: Mapping[int, nn.Module], optimizer: torch.optim.Optimizer, *, shapes: Sequence[str]
) -> None:
    """Puts the checkpoint's weights, optimizer's and random state into this rank's layers.

    Raises:
        CheckpointError: it is of another model, or a file is torn.
    """
    if len(shapes) != len(found.shapes):
        raise CheckpointError(f"{found.folder} is of another model: {len(found.shapes)} layers, and not {len(shapes)}")
    for index, (own, other) in enumerate(zip(shapes, found.shapes)):
        if own != other:
            raise CheckpointError(f"{found.folder} is of another model: layer {index} is {other!r} there, not {own!r}")
    for index, layer in layers.items():
        _into_layer(_read(found, f"layer-{index:05d}.pt"), layer, optimizer)
    name = f"random-{dist.get_rank():05d}.pt"
    if name in found.files:
        _set_random_state(_read(found, name))


def _of_layer(layer: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    states = {name: dict(optimizer.state[one]) for name, one in layer.named_parameters() if one in optimizer.state}
    return {"weights": layer.state_dict(), "optimizer": states, "options": _options(optimizer)}


def _options(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """What a schedule may have changed: the learning rate and the like."""
    if len(optimizer.param_groups) != 1:
        raise CheckpointError("the optimizer has several groups: use one a stage, so that a layer can change its stage")
    return {name: value for name, value in optimizer.param_groups[0].items() if isinstance(value, _PLAIN)}


def _into_layer(content: dict[str, Any], layer: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    layer.load_state_dict(content["weights"])
    for name, one in layer.named_parameters():
        if name in content["optimizer"]:
            optimizer.state[one] = {
                key: value.to(one.device) if isinstance(value, torch.Tensor) and value.dim() else value
                for key, value in content["optimizer"][name].items()
            }
    optimizer.param_groups[0].update(content["options"])


def _random_state() -> dict[str, Any]:
    state = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def _set_random_state(state: Mapping[str, Any]) -> None:
    torch.set_rng_state(state["cpu"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])


def _write(path: Path, content: dict[str, Any]) -> tuple[int, str]:
    """Size and digest of what was written and has reached the disk."""
    torch.save(content, path)
    with path.open("rb+") as file:
        os.fsync(file.fileno())
        return path.stat().st_size, _digest(path)


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def _write_json(path: Path, content: object) -> None:
    beside = path.with_name(f".{path.name}.writing")
    with beside.open("w") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def _finish(writing: Path, folder: Path, manifest: dict[str, Any]) -> None:
    """Rank 0: joins what all ranks told to a manifest, and gives the checkpoint its name."""
    files: dict[str, Any] = {}
    for rank in range(dist.get_world_size()):
        path = writing / f"rank-{rank:05d}.json"
        if not path.exists():
            raise CheckpointError(
                f"rank {rank} wrote nothing to {writing}: all ranks need one folder, on a shared disk"
            )
        files.update(json.loads(path.read_text()))
        path.unlink()
    _write_json(writing / _MANIFEST, {**manifest, "files": files})
    shutil.rmtree(folder, ignore_errors=True)
    writing.replace(folder)
    _to_disk(folder.parent)
    kept = sorted(path for path in folder.parent.iterdir() if _STEP.fullmatch(path.name))
    for old in kept[:-_KEPT]:
        shutil.rmtree(old, ignore_errors=True)


def _to_disk(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _read(found: Checkpoint, name: str) -> Any:
    path = found.folder / name
    size, digest = found.files.get(name, (-1, ""))
    try:
        if path.stat().st_size != size or _digest(path) != digest:
            said = f"{path} is torn: it is not what was written; remove {found.folder} to go on from before"
            raise CheckpointError(said)
        return torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        said = f"{path} cannot be read: {error.strerror}; remove {found.folder} to go on from before"
        raise CheckpointError(said) from None
    except (RuntimeError, UnpicklingError) as error:
        raise CheckpointError(f"{path} holds more than tensors and numbers: {str(error)[:200]}") from None


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**53:
        raise ValueError(f"{value!r} is no count")
    return value
