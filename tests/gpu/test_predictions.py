"""Every prediction about the probe on a GPU, as a test each; `make test-gpu` runs the same ones without pytest.

Nothing is skipped where there is no GPU: whoever asks for these tests is told so.
"""

from functools import cache

import pytest

from experiments.gpu import machine
from experiments.gpu.bench import Bench
from experiments.gpu.case import NOT_RUN, Reading
from experiments.gpu.one import read
from experiments.gpu.table import CASES, TWO_RANKS

pytestmark = pytest.mark.gpu
facts = cache(machine.asked)


@pytest.fixture(scope="session")
def backend(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What two ranks can talk through here."""
    told = facts()
    if isinstance(told, str) or told["device"] is None:
        pytest.fail(f"no GPU: {told}")
    reading = read(TWO_RANKS, Bench("cuda", tmp_path_factory.mktemp(TWO_RANKS)))
    return "nccl" if reading.holds else "gloo"


@pytest.mark.parametrize("name", [case.name for case in CASES])
def test_the_prediction_holds(name, backend, tmp_path):
    """What is read on this GPU is what was predicted."""
    reading: Reading = read(name, Bench("cuda", tmp_path, backend))
    if reading.outcome == NOT_RUN:
        pytest.skip(reading.words)
    assert reading.holds, reading.words
