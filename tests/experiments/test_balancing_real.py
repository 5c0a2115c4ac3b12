"""What is read off real runs of the balancing benchmark, and what stands in for the balancer's own controller there.

Rule of this file: what imports PyTorch is imported by a fixture, so that collecting the tests loads none of it.
"""

import pytest

from experiments.balancing.quota import Quota, QuotaError
from paceline.balance.controller import Controller, ControllerConfig
from paceline.balance.plan import Plan

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("pytorch")]


@pytest.fixture(scope="module")
def real():
    """The runs of the benchmark."""
    pytest.importorskip("torch")
    from experiments.balancing import real

    return real


@pytest.fixture(scope="module")
def worker(real):
    """A rank of them."""
    from experiments.balancing import worker

    return worker


@pytest.fixture(scope="module")
def steps(worker):
    """Makes a rank whose steps take so long, half of them its own."""

    def steps(*lengths):
        own = [length / 2 for length in lengths]
        return worker.Measured(list(lengths), own, [8] * len(own), [1.0] * len(own), plans=3, final_loss=0.5)

    return steps


def test_a_runs_figures_are_over_all_ranks_samples(real, worker, steps) -> None:
    """Two ranks with eight samples a step of half a second: 32 a second."""
    task = worker.Task("resnet", "plain", 60, 16, ((0, (0.5, 0.5)),))
    found = real.figures(task, [steps(*[0.5] * 60), steps(*[0.5] * 60)])
    assert (found["samples_per_s"], found["step_ms"], found["epoch_s"]) == (32.0, 500.0, 128.0)
    assert (found["slowest_over_mean"], found["load_variation"], found["plans"]) == (1.0, 0.0, 3)
    assert len(found["at_s"]) == len(found["loss"]) == 60


def test_adaptation_ends_where_three_steps_are_near_what_comes_later(real, worker, steps) -> None:
    """One good step by chance does not count."""
    lengths = [0.3, 0.1, 0.3, 0.3, *[0.1] * 56]
    task = worker.Task("resnet", "ours", 60, 16, ((0, (0.5, 0.5)),))
    assert real.figures(task, [steps(*lengths)])["adapts_in_steps"] == [4]


def test_a_rule_is_told_what_our_controller_is(worker) -> None:
    """Times under a plan with its shares; what it wants becomes a plan, and a rank without a time is waited for."""

    class Swap:
        def __init__(self) -> None:
            self.seen: list[object] = []

        def observe(self, seen):
            self.seen.append((seen.step, seen.version, tuple(seen.shares), seen.times_s.tolist()))
            return tuple(reversed(seen.shares))

        def adopted(self, version, first_batch, shares):
            self.seen.append((version, first_batch, tuple(shares)))

    policy = Swap()
    rule = worker.Rule(policy, Controller(ControllerConfig(total=8), [2, 6]))
    assert rule.observe(0, [1.0, None]) is None
    assert rule.observe(0, [1.0, 2.0]).shares == (6, 2)
    rule.adopt(Plan(1, 4, (6, 2)))
    assert rule.observe(1, [1.0, 2.0]).shares == (2, 6)
    assert policy.seen == [(0, 0, (2, 6), [1.0, 2.0]), (1, 4, (6, 2)), (1, 1, (6, 2), [1.0, 2.0])]


def test_the_oracle_shares_out_by_cost(real) -> None:
    """Twice the processor, twice the samples, where a step costs nothing beside them."""
    assert real.Costs(0.0, 0.001).shares((0.2, 0.2, 0.4, 0.8), 256) == (32, 32, 64, 128)


def test_two_in_turn_are_compared_by_their_blocks_once_the_balancer_has_settled(real, worker, monkeypatch) -> None:
    """Blocks of 5 steps; the first four of each are not counted."""
    plain, ours = (
        worker.Measured([9.0] * 20 + [0.4] * 5 + [0.6] * 5),
        worker.Measured([9.0] * 20 + [0.2] * 5 + [0.3] * 5, plans=1),
    )
    monkeypatch.setattr(real, "measured", lambda tasks, policies: [[plain], [ours]])
    found = real._in_turn("bert", worker.Task("bert", "plain", 30, 256))
    assert found["plain"] == 512.0
    assert (found["over_uniform"], found["standard_error"], found["plans"]) == (2.0, 0.0, 1)


def test_models_take_turns_in_the_same_processes(real, worker) -> None:
    """Twelve steps in blocks of five; equal shares, and shares that are known from the seventh on."""
    plain = worker.Task("bert", "plain", 12, 32)
    known = worker.Task("bert", "oracle", 12, 32, plans=((6, (4, 4, 8, 16)),))
    first, second = real.measured([plain, known], [None, None])
    assert [one.samples for one in first] == [[8] * 12] * 4
    assert [one.samples for one in second] == [[8] * 6 + [share] * 6 for share in (4, 4, 8, 16)]
    assert all(len(one.step_s) == len(one.own_s) == 12 for one in (*first, *second))
    assert first[0].final_loss == pytest.approx(first[1].final_loss)


def test_an_aim_that_is_missed_is_said_to_be(real) -> None:
    """Of the parts that were run, and of no other."""
    from experiments.balancing import real_report

    run = {"over_uniform": 1.8, "of_oracle": 0.95}
    found = {
        "bert": {"1:1:2:4": {"ours": run, "oracle": run}, "slowed in the middle": {"ours": run, "oracle": run}},
        "equal": {"bert": {"over_uniform": 0.985, "standard_error": 0.002}},
        "convergence": {"plain": {"mean": 1.0, "sd": 0.1}, "ours": {"mean": 1.05, "sd": 0.1}},
    }
    assert [aim.met for aim in real_report.aims(found)] == [False, True, False, True]
    assert real_report.aims({}) == []


def test_without_the_right_to_set_quotas_it_says_what_it_takes(monkeypatch, tmp_path) -> None:
    """One line, that names the right."""
    monkeypatch.setattr("experiments.balancing.quota._V1", tmp_path / "none")
    monkeypatch.setattr("experiments.balancing.quota._V2", tmp_path / "nowhere")
    with pytest.raises(QuotaError, match="run as root"):
        Quota("paceline-test").make()
