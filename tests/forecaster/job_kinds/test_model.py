"""The shipped model: plain numbers that state where they come from."""

import json
from importlib import resources

import numpy as np
import pytest

from forecaster.job_kinds.features import FEATURES
from forecaster.job_kinds.model import expanded, parse, shipped


@pytest.fixture
def content():
    return json.loads(resources.files("forecaster.job_kinds").joinpath("model.json").read_text("utf-8"))


def test_the_model_states_its_version_data_and_scores(content):
    """A reader of the file knows what it is."""
    assert content["version"]
    assert content["trained_on"]
    assert all(0 < score <= 1 for score in content["scores"]["leave one program out"].values())


def test_a_model_of_another_format_is_refused(content):
    """So is one whose weights or features do not fit."""
    for change in ({"format": 99}, {"features": ["level"]}, {"weights": [[1.0, 2.0]]}):
        with pytest.raises(ValueError, match="model"):
            parse(json.dumps({**content, **change}))


def test_probabilities_add_up_even_where_features_are_missing():
    """A missing feature counts as its mean."""
    rows = np.full((3, len(FEATURES)), np.nan)
    rows[:, 0] = (-2.0, -1.0, 0.0)
    model = shipped()
    assert np.exp(model.log_probabilities(model.standardised(rows))).sum(axis=1) == pytest.approx(1)


def test_products_of_features_are_inputs():
    """1, both features, and three products."""
    assert expanded(np.array([[2.0, 3.0]])).tolist() == [[1.0, 2.0, 3.0, 4.0, 6.0, 9.0]]
