"""Iterations from the sequence of calls alone."""

import numpy as np
import pytest

from streams.jobs.iterations import Iterations, find_period

AR, AG, RS = 1, 2, 3


def sequence(pattern, pauses, iterations, *, jitter=0.1, extra=None, every=10, seed=0):
    """Tokens and starts of ``iterations`` of a pattern; ``extra`` calls follow every tenth of them."""
    rng = np.random.default_rng(seed)
    token, pause, truth = [], [], []
    for number in range(iterations):
        more = list(extra) if extra and number % every == every - 1 else []
        token += [*pattern, *more]
        pause += [*pauses, *[pauses[-1]] * len(more)]
        truth += [number] * (len(pattern) + len(more))
    pause = np.array(pause) * np.exp(jitter * rng.standard_normal(len(pause)))
    return np.array(token), np.cumsum(pause), np.array(truth)


CASES = {
    "one all-reduce an iteration": ([AR], [0.1], None),
    "two equal buckets": ([AR, AR], [0.1, 0.02], None),
    "plain DDP, twelve equal buckets": ([AR] * 12, [0.2, *[0.005] * 11], None),
    "buckets of different sizes": ([AR, AR + 10, AR + 20], [0.1, 0.01, 0.01], None),
    "equal layers": ([AG, AG + 1] * 20 + [RS, RS + 1] * 20, [0.05, *[0.004] * 79], None),
    "two extra calls every ten iterations": ([AR] * 6, [0.1, *[0.01] * 5], [AR, AR]),
    "an evaluation's calls every ten iterations": ([AG, RS, AR], [0.1, 0.02, 0.02], [7, 7, 7, 7]),
    "one call, and another every ten": ([AR], [0.1], [AG]),
    "thousands of calls": ([AG] * 1500 + [RS] * 1500, [0.3, *[0.0005] * 2999], None),
}


@pytest.mark.parametrize("name", CASES)
def test_the_period_is_found(name):
    """With jitter, equal layers, extra calls and thousands of calls an iteration."""
    pattern, pauses, extra = CASES[name]
    token, start, _ = sequence(pattern, pauses, 5 if len(pattern) > 1000 else 60, extra=extra, jitter=0.2)
    found = find_period(token, start)
    assert found is not None
    assert found.calls == len(pattern)


@pytest.mark.parametrize("seed", range(5))
def test_where_nothing_repeats_there_is_no_period(seed):
    """Calls and pauses by chance."""
    rng = np.random.default_rng(seed)
    token, start = rng.integers(0, 5, 800), np.cumsum(rng.lognormal(0, 1, 800))
    assert find_period(token, start) is None
    assert find_period(np.zeros(800, dtype=np.int64), start) is None


@pytest.mark.parametrize("name", [name for name in CASES if name != "one call, and another every ten"])
@pytest.mark.parametrize("cut", [7, 1000])
def test_every_call_gets_its_iteration(name, cut):
    """In any batching; nearly all as in truth, and never more than one off, extra calls or not."""
    pattern, pauses, extra = CASES[name]
    token, start, truth = sequence(pattern, pauses, 6 if len(pattern) > 1000 else 80, extra=extra)
    iterations, numbered = Iterations(), []
    for first in range(0, token.size, cut):
        found = iterations.update(token[first : first + cut], start[first : first + cut])
        if found is not None:
            numbered += found.tolist()
    off = np.abs(np.array(numbered) - truth[: len(numbered)])
    assert len(numbered) == token.size
    assert off.max() <= 1
    assert (off == 0).mean() > 0.9


def test_what_is_remembered_survives_a_restart():
    """Before and after the period is known."""
    token, start, _ = sequence([AG, RS, AR], [0.1, 0.02, 0.02], 80)
    whole = Iterations()
    expected = [
        found.tolist()
        for at in range(0, 240, 24)
        if (found := whole.update(token[at : at + 24], start[at : at + 24])) is not None
    ]
    again, got = Iterations(), []
    for at in range(0, 240, 24):
        kept = Iterations()
        kept.load(again.state())
        again = kept
        if (found := again.update(token[at : at + 24], start[at : at + 24])) is not None:
            got.append(found.tolist())
    assert got == expected
