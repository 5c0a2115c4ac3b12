"""`paceline forecaster train`: from a recording of the bus to weights that answer."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forecaster.learning.command import main
from forecaster.learning.examples import Recorded, drawn
from forecaster.learning.synthetic import made_up
from forecaster.models import network
from paceline import topics, wire
from paceline.events import HostWindow

MINUTES = 400


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Half a day of two nodes, and a line that is none."""
    rng = np.random.default_rng(1)
    lines = ["{torn"]
    for minute in range(MINUTES):
        for node in ("a", "b"):
            mean = {"cpu_ratio": float(rng.random()), "memory_used_bytes": 1e9 * (1 + minute % 90)}
            window = HostWindow(
                cluster="c", start_s=60.0 * minute, length_s=60.0, node=node, samples=60, mean=mean, max={}
            )
            value = json.loads(wire.encode(window))
            row = {"topic": topics.WINDOW.name, "key": node, "timestamp_ms": 60_000 * minute, "value": value}
            lines.append(json.dumps(row))
    path = tmp_path / "day.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.e2e
def test_a_recording_makes_weights(recording: Path, tmp_path: Path) -> None:
    """What is written is read again by the service and answers in ascending quantiles."""
    out = tmp_path / "network.npz"
    assert main([str(recording), "--out", str(out), "--pasts", "160", "--rounds", "1", "--members", "2"]) == 0
    weights = network.read(out)
    size = weights.encoder[0][0].shape[1]
    asked = weights.decoder[0][0].shape[1] - weights.encoder[-1][0].shape[2]
    rows = network.answers(weights, np.zeros(size), np.zeros((5, asked)))
    assert rows.shape == (5, 9)
    assert (np.diff(rows, axis=1) > 0).all()


def test_a_recording_without_windows_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """There is nothing to learn from: one line says so."""
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    assert main([str(empty), "--out", str(tmp_path / "never.npz")]) == 2
    assert "no series" in capsys.readouterr().err
    assert not (tmp_path / "never.npz").exists()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no archive", b"\x00" * 100])
def test_what_holds_no_weights_is_refused(tmp_path: Path, content: bytes) -> None:
    """A file that is something else is named."""
    path = tmp_path / "other.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"other\.npz"):
        network.read(path)


@pytest.mark.long
def test_weights_that_unpack_to_too_much_are_refused(tmp_path: Path) -> None:
    """Forty megabytes of zeros take little on disk."""
    path = tmp_path / "w.npz"
    table: dict[str, Any] = {"version": np.array(1), "encoder.0.weight": np.zeros((10_000, 1000), dtype=np.float32)}
    np.savez_compressed(path, **table)
    with pytest.raises(ValueError, match="larger than"):
        network.read(path)


@pytest.mark.parametrize(
    "change",
    [
        {"version": np.array([1, 1])},
        {"version": np.array(99)},
        {"encoder.0.weight": np.array(b"1")},
        {"encoder.0.weight": np.full((3, 160, 116), np.nan, np.float32)},
        {"encoder.0.weight": np.zeros((3, 160, 115), np.float32)},
        {"encoder.1.bias": np.full((3, 96), np.inf)},
        {"decoder.2.weight": np.zeros((3, 8, 64)), "decoder.2.bias": np.zeros((3, 8))},
        {"encoder.2.weight": np.zeros((3, 96, 96))},
    ],
)
def test_weights_that_do_not_fit_are_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    """They would answer NaN, or fail in every forecast; the file is named."""
    with np.load(Path(network.__file__).parent / network.WEIGHTS) as table:
        shipped = dict(table)
    path = tmp_path / "other.npz"
    np.savez(path, **(shipped | change))
    with pytest.raises(ValueError, match=r"other\.npz"):
        network.read(path)


def test_an_array_that_claims_to_be_larger_than_memory_is_refused(tmp_path: Path) -> None:
    """And one array instead of an archive of them, and members that are no arrays."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (10**13,)})
    path = tmp_path / "other.npz"
    for name, content in (("version.npy", header.getvalue()), ("version", b"1")):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(name, content)
        with pytest.raises(ValueError, match=r"other\.npz"):
            network.read(path)
    with path.open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(ValueError, match=r"other\.npz"):
        network.read(path)


@pytest.mark.long
def test_the_same_seed_draws_the_same_examples() -> None:
    """Training can be repeated."""
    first, second = (drawn(made_up(6, np.random.default_rng(2)), 40, np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(first.past, second.past)
    assert np.isfinite(first.past).all()
    assert np.isfinite(first.steps).all()


def test_gaps_are_no_targets() -> None:
    """What was not measured is NaN in what came, never a number."""
    rng = np.random.default_rng(4)
    values = np.where(rng.random(900) < 0.2, np.nan, rng.standard_normal(900))
    examples = drawn([Recorded(values, 60.0)], 60, rng)
    assert 0.02 < np.isnan(examples.came).mean() < 0.6
