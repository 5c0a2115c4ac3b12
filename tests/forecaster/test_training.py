"""`paceline forecaster train`: from a recording of the bus to weights that answer."""

import json
from pathlib import Path

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
    with pytest.raises(ValueError, match=r"other\.npz|pickled|magic"):
        network.read(path)


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
