"""A checkpoint by layer: whole or not there, of this model or refused."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402

from paceline.balance import layer_checkpoint  # noqa: E402
from paceline.balance.layer_checkpoint import Checkpoint, CheckpointError, shape_of  # noqa: E402

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("pytorch")]


@pytest.fixture(autouse=True)
def group(tmp_path: Path) -> Iterator[None]:
    """One rank, for a checkpoint is of all ranks together."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def model(*widths: int, seed: int = 0) -> tuple[dict[int, nn.Module], Any, list[str]]:
    """Layers that were trained for a step, their optimizer and their shapes."""
    torch.manual_seed(seed)
    layers = {index: nn.Linear(8, width) for index, width in enumerate(widths)}
    optimizer = torch.optim.AdamW([one for layer in layers.values() for one in layer.parameters()])
    sum(layer(torch.ones(2, 8)).sum() for layer in layers.values()).backward()  # type: ignore[union-attr]
    optimizer.step()
    return layers, optimizer, [shape_of(layer) for layer in layers.values()]


def saved(root: Path, step: int = 3) -> Checkpoint:
    layers, optimizer, shapes = model(4, 6)
    return layer_checkpoint.save(root, step, [2], layers, optimizer, shapes=shapes)[0]


def test_what_comes_back_is_what_was_saved(tmp_path: Path) -> None:
    """Weights, the optimizer's state and rate, and random numbers."""
    layers, optimizer, shapes = model(4, 6)
    optimizer.param_groups[0]["lr"] = 0.5
    layer_checkpoint.save(tmp_path / "at", 3, [2], layers, optimizer, shapes=shapes)
    drawn = torch.randn(3)
    others, other, _ = model(4, 6, seed=1)
    found = layer_checkpoint.newest(tmp_path / "at")
    assert found is not None
    assert (found.step, found.cut) == (3, [2])
    layer_checkpoint.load(found, others, other, shapes=shapes)
    assert torch.equal(torch.randn(3), drawn)
    for one, two in zip(layers.values(), others.values(), strict=True):
        assert torch.equal(one.weight, two.weight)
        assert torch.equal(optimizer.state[one.weight]["exp_avg"], other.state[two.weight]["exp_avg"])
        assert optimizer.state[one.weight]["step"] == other.state[two.weight]["step"]
    assert other.param_groups[0]["lr"] == 0.5


def test_the_newest_counts_and_two_are_kept(tmp_path: Path) -> None:
    """What was being written when a run ended is none."""
    assert layer_checkpoint.newest(tmp_path / "none") is None
    for step in (9, 10, 11):
        saved(tmp_path / "at", step)
    (tmp_path / "at" / ".step-000000012.writing").mkdir()
    found = layer_checkpoint.newest(tmp_path / "at")
    assert found is not None
    assert found.step == 11
    assert len(list((tmp_path / "at").glob("step-*"))) == 2


def test_another_cut_is_a_line_of_its_manifest(tmp_path: Path) -> None:
    layer_checkpoint.cut_anew(saved(tmp_path / "at"), [1, 1])
    found = layer_checkpoint.newest(tmp_path / "at")
    assert found is not None
    assert found.cut == [1, 1]


@pytest.mark.parametrize(
    ("widths", "said"), [((4, 7), r"layer 1 is 'Linear weight\(6,8\)"), ((4, 6, 2), "2 layers, and not 3")]
)
def test_another_models_is_refused(tmp_path: Path, widths: tuple[int, ...], said: str) -> None:
    layers, optimizer, shapes = model(*widths)
    with pytest.raises(CheckpointError, match=f"is of another model: .*{said}"):
        layer_checkpoint.load(saved(tmp_path / "at"), layers, optimizer, shapes=shapes)


def test_a_torn_file_is_refused(tmp_path: Path) -> None:
    """Shortened, changed in one byte, or gone."""
    found = saved(tmp_path / "at")
    layers, optimizer, shapes = model(4, 6)
    path = found.folder / "layer-00001.pt"
    whole = path.read_bytes()
    for torn in (whole[:-100], whole[:200] + bytes([whole[200] ^ 1]) + whole[201:]):
        path.write_bytes(torn)
        with pytest.raises(CheckpointError, match=r"layer-00001\.pt is torn"):
            layer_checkpoint.load(found, layers, optimizer, shapes=shapes)
    path.unlink()
    with pytest.raises(CheckpointError, match=r"layer-00001\.pt cannot be read: No such file"):
        layer_checkpoint.load(found, layers, optimizer, shapes=shapes)


@pytest.mark.parametrize(
    "changed",
    [
        {"step": -1},
        {"step": "3"},
        {"step": True},
        {"cut": [1]},
        {"cut": [2, 0]},
        {"cut": 2},
        {"format": 2},
        {"files": {"layer": 1}},
        {"files": []},
    ],
)
def test_a_manifest_of_nonsense_is_refused(tmp_path: Path, changed: dict[str, Any]) -> None:
    path = saved(tmp_path / "at").folder / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))
    with pytest.raises(CheckpointError, match="manifest"):
        layer_checkpoint.newest(tmp_path / "at")
    path.write_text("{")
    with pytest.raises(CheckpointError, match="is no manifest"):
        layer_checkpoint.newest(tmp_path / "at")


def test_an_object_in_a_file_is_not_built(tmp_path: Path) -> None:
    """A file whose digest is right, made by somebody else: tensors and plain numbers are read, nothing more."""
    found = saved(tmp_path / "at")
    path = found.folder / "layer-00000.pt"
    torch.save({"weights": nn.Linear(2, 2)}, path)
    found.files[path.name] = (path.stat().st_size, layer_checkpoint._digest(path))
    layers, optimizer, shapes = model(4, 6)
    with pytest.raises(CheckpointError, match=r"layer-00000\.pt holds more than tensors"):
        layer_checkpoint.load(found, layers, optimizer, shapes=shapes)


def test_several_groups_of_parameters_are_refused(tmp_path: Path) -> None:
    layers, optimizer, shapes = model(4, 6)
    optimizer.add_param_group({"params": [nn.Parameter(torch.ones(1))]})
    with pytest.raises(CheckpointError, match="several groups"):
        layer_checkpoint.save(tmp_path / "at", 1, [2], layers, optimizer, shapes=shapes)
