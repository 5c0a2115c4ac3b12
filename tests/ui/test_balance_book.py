"""What the page holds of a balancer: plans in their order, the newest proposal, and times, all bounded."""

import msgspec
import numpy as np
import pytest

from tests.balanced_job import BalancedJob
from ui import balance_book
from ui.balance_book import LEAST, PLANS, BalanceBook


def proposal(job, version, **changed):
    """A plan that is made for ``job`` and that nobody follows."""
    return msgspec.structs.replace(job.plan(), version=version, first_batch=None, made_by="streams", **changed)


@pytest.fixture
def job():
    return BalancedJob(source="inband")


def test_a_job_without_a_balancer_has_nothing_to_show():
    """Nor before anything was heard."""
    assert BalanceBook().view() is None


def test_plans_are_listed_as_they_followed_each_other(job):
    """Whatever the order in which they come, and each once."""
    book, told = BalanceBook(), []
    for version in range(4):
        job.version, job.second = version, 10 * version
        told.append(job.plan(reason=f"reason {version}"))
    for plan in (told[2], told[0], told[3], told[1], told[3]):
        book.plan(plan)
    assert [one.event.version for one in book.view().plans] == [0, 1, 2, 3]
    assert [one.event.reason for one in book.view().plans] == [f"reason {version}" for version in range(4)]


def test_what_a_step_took_under_a_plan_is_measured(job):
    """The median over its observations of the slowest rank; None before there is one."""
    book = BalanceBook()
    book.plan(job.plan())
    for _ in range(20):
        book.observe(job.observed())
    before_s = job.step_s
    job.version, job.shares = 1, [32, 32, 64, 128]
    book.plan(job.plan())
    (first, second) = book.view().plans
    assert first.took_s == pytest.approx(before_s, rel=0.05)
    assert second.took_s is None


def test_a_proposal_goes_once_it_is_followed_or_overtaken(job):
    """By the plan of its version, or of a later one."""
    book = BalanceBook()
    book.plan(job.plan())
    book.plan(proposal(job, 2))
    book.plan(proposal(job, 1))
    assert book.view().proposed.event.version == 2
    job.version, job.second = 3, 5
    book.plan(job.plan())
    assert book.view().proposed is None
    book.plan(proposal(job, 3))
    assert book.view().proposed is None


def test_what_was_not_measured_is_not_a_number(job):
    """And an observation of nothing has no slowest rank."""
    book = BalanceBook()
    book.observe(job.observed(ready_s=[0.5, None, 0.25, None]))
    book.observe(job.observed(ready_s=[None] * 4))
    view = book.view()
    assert np.array_equal(np.isnan(view.ready_s[:, 0]), [False, True, False, True])
    assert view.step_s[0] == 0.5
    assert np.isnan(view.step_s[1])


def test_what_a_spool_held_back_is_passed_over(job):
    """The newest stays the newest."""
    book, held = BalanceBook(), job.observed()
    newer = job.observed()
    book.observe(newer)
    book.observe(held)
    assert book.view().batch.tolist() == [newer.batch]


def test_another_number_of_ranks_is_another_run(job):
    """What was held of the run before goes."""
    book = BalanceBook()
    book.plan(job.plan())
    book.observe(job.observed())
    book.observe(BalancedJob((100.0,) * 3).observed())
    view = book.view()
    assert view.shares.size == 3
    assert view.plans == ()
    assert view.ready_s.shape == (3, 1)


def test_it_holds_so_much_and_no_more(monkeypatch, job):
    """Of plans and of observations, fewer of many ranks; asked to, it keeps half."""
    monkeypatch.setattr(balance_book, "CELLS", 400)
    monkeypatch.setattr(balance_book, "PLAN_CELLS", 40)
    book = BalanceBook()
    for version in range(PLANS + 5):
        job.version = version
        book.plan(job.plan())
        book.observe(job.observed())
    view = book.view()
    assert len(view.plans) == 10
    assert view.batch.size == 100
    before = book.cells
    gained = 0
    while freed := book.shrink():
        gained += freed
    assert book.cells == before - gained
    assert LEAST <= book.view().batch.size < 2 * LEAST


def test_a_view_is_a_copy(job):
    """Drawn outside the lock while more comes in."""
    book = BalanceBook()
    book.observe(job.observed())
    view = book.view()
    book.observe(job.observed())
    assert view.batch.size == 1
