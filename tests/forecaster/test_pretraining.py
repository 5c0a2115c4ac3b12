"""`paceline forecaster pretrain`: the fit is resumed where it was, and what it writes answers as it did in PyTorch."""

from pathlib import Path

import numpy as np
import pytest

from forecaster.learning import blend
from forecaster.learning.pretrain_command import main
from forecaster.models import patches
from forecaster.models.features import STEP

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("pytorch")]
DRAW = blend.rounds({}, {blend.MADE_UP: 1.0}, 256, 1)


def test_numpy_answers_as_pytorch_does() -> None:
    """Also where half of the past was not measured."""
    import torch

    from forecaster.learning import pretraining

    torch.manual_seed(3)
    model = pretraining.Network().eval()
    weights = patches.unpacked(pretraining.packed(model, {}))
    again = pretraining.of_weights(weights).eval()
    rng = np.random.default_rng(0)
    for known in (1.0, 0.5, 0.02):
        past = rng.standard_normal((patches.TOKENS, patches.PATCH))
        past[rng.random(past.shape) > known] = np.nan
        past[-9:] = np.nan
        whole, steps = rng.standard_normal(patches.ABOUT), rng.standard_normal((7, STEP))
        row = torch.tensor(np.concatenate([past.ravel(), whole])[None], dtype=torch.float32)
        expected = model(row, torch.tensor(steps[None], dtype=torch.float32)).detach().numpy()[0]
        made = patches.answers(weights, past[None], whole[None], steps[None])[0]
        np.testing.assert_allclose(made, expected, atol=5e-3)
        resumed = again(row, torch.tensor(steps[None], dtype=torch.float32)).detach().numpy()[0]
        np.testing.assert_allclose(resumed, expected, atol=5e-3)


def test_a_fit_that_was_cut_off_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    """The same losses and weights, but for what dropping out at random changes; and it learns."""
    from forecaster.learning import pretraining

    whole = pretraining.Fit(DRAW, 4, 256, tmp_path / "whole.npz")
    losses = [whole.round() for _ in range(4)]
    pretraining.Fit(DRAW, 4, 256, tmp_path / "part.npz").round()
    torn = pretraining.Fit(DRAW, 4, 256, tmp_path / "part.npz")
    assert torn.done == 1
    again = [torn.round() for _ in range(3)]
    np.testing.assert_allclose(again, losses[1:], rtol=0.05)
    assert losses[-1] < losses[0]
    rates = [fit.optimizer.param_groups[0]["lr"] for fit in (torn, whole)]
    assert rates[0] == rates[1]


def test_a_kept_fit_of_something_else_is_refused(tmp_path: Path) -> None:
    """By its name, and what to do about it."""
    from forecaster.learning import pretraining

    kept = tmp_path / "kept.npz"
    pretraining.Fit(DRAW, 4, 256, kept).round()
    with pytest.raises(ValueError, match=r"kept\.npz.*remove it"):
        pretraining.Fit(DRAW, 5, 256, kept)
    kept.write_bytes(kept.read_bytes()[:2000])
    with pytest.raises(ValueError, match=r"kept\.npz"):
        pretraining.Fit(DRAW, 4, 256, kept)


def test_made_up_series_make_weights_that_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command from its first round to a file that the service reads; what it kept on the way is removed."""
    out = tmp_path / "patches.npz"
    assert main(["--from-scratch", "--rounds", "1", "--examples", "128", "--out", str(out)]) == 0
    assert patches.read(out).layers == 3
    assert [path.name for path in tmp_path.iterdir()] == ["patches.npz"]
    said = capsys.readouterr().err
    assert "round 1 of 1" in said
    assert "--pretrained" in said


def test_it_asks_what_to_learn_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No recording, no archive, and not from scratch: nothing is begun."""
    with pytest.raises(SystemExit):
        main(["--out", str(tmp_path / "never.npz")])
    assert "--from-scratch" in capsys.readouterr().err
    assert main([str(tmp_path / "absent.jsonl"), "--out", str(tmp_path / "never.npz")]) == 2
    assert "absent.jsonl" in capsys.readouterr().err
