"""The page of a job with a balancer: who takes how much, what it brought, and every plan with its reason."""

import csv
import io
import json

import msgspec
import numpy as np
import pytest

from paceline import topics
from streams.balance.job_balance import JobBalance
from tests.balanced_job import START_S, BalancedJob
from tests.ui.opened_app import opened, text_of
from ui import balance_figures
from ui.balance_book import BalanceBook
from ui.feed import Feed
from ui.figure_frame import as_csv
from ui.screens import balance as screen
from ui.theme import DARK

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore::DeprecationWarning")]


def script(source):
    from ui.screens import job

    job.show(source)


@pytest.fixture
def open_page(snapshot_of):
    """The job's screen over a feed."""

    def open_page(feed, **changed):
        return opened(script, (lambda job, rank=None: snapshot_of(feed, now_s=START_S + 60, **changed),), {})

    return open_page


@pytest.fixture
def balance(tell):
    """Tells a feed what a balanced job tells in ``seconds``; its ranks follow the plans of the stream processors."""

    def balance(feed, job, seconds=40):
        decision = JobBalance()
        tell(feed, [(topics.PLAN, job.plan())], job.at_s)
        for _ in range(seconds):
            observed = job.observed()
            tell(feed, [(topics.BALANCE, observed)], job.at_s)
            for plan in decision.update(observed):
                tell(feed, [(topics.PLAN, plan), (topics.PLAN, job.follow(plan))], job.at_s)

    return balance


def specs(app):
    """The pictures of a page, by the name of their x axis."""
    drawn = [json.loads(chart.proto.spec) for chart in app.get("plotly_chart")]
    return {one["layout"]["xaxis"]["title"]["text"].partition(",")[0]: one for one in drawn}


@pytest.mark.slow
def test_a_job_without_a_balancer_has_no_such_section(played, open_page):
    """Nothing is said of what is not there."""
    assert "Balance" not in text_of(open_page(played))


def test_the_section_shows_split_times_and_plans(balance, open_page):
    """Before and after, foretold and measured, and why."""
    feed, job = Feed(), BalancedJob()
    before_ms = job.step_s * 1e3
    balance(feed, job)
    app = open_page(feed)
    shown, drawn = text_of(app), specs(app)
    assert "<h2>Balance</h2>" in shown
    assert "decided by the stream processors" in shown
    assert "speeds were measured" in shown
    assert " ".join(map(str, job.shares)) in shown
    (now,) = drawn["samples of a batch"]["data"]
    assert now["y"] == ["0", "1", "2", "3"]
    times = drawn["training batch"]
    assert [one["name"] for one in times["data"][:4]] == [f"rank {rank}" for rank in range(4)]
    assert len(times["layout"]["shapes"]) >= 1
    took = feed.view("default", "balanced").balance
    assert took.plans[-1].took_s * 1e3 < 0.6 * before_ms


@pytest.mark.slow
def test_the_gain_is_beside_the_slow_time_not_beside_the_warm_up(tell, open_page):
    """A rank turned slow after the first plan: 114 ms, then 206 ms, now 180 ms."""
    feed, job = Feed(), BalancedJob(noise=0.0)
    told = [("warmed up", 0.112, 0.114), ("a rank is slow", 0.180, 0.206), ("a little better", 0.179, 0.181)]
    for version, (reason, after_s, before_s) in enumerate(told, 1):
        job.version = version
        tell(feed, [(topics.PLAN, job.plan(reason, after_s, before_s))], job.at_s)
        tell(feed, [(topics.BALANCE, job.observed(ready_s=[0.18] * 4))], job.at_s)
    shown = text_of(open_page(feed))
    assert "Before plan 2" in shown
    assert "now 87 % of it" in shown


def test_a_proposed_split_stands_beside_the_one_that_is_followed(balance, tell, open_page):
    """Until all ranks have it."""
    feed, job = Feed(), BalancedJob(source="inband")
    balance(feed, job, seconds=5)
    plan = msgspec.structs.replace(job.plan("why not"), version=9, first_batch=None, shares=[32, 32, 64, 128])
    tell(feed, [(topics.PLAN, plan)], job.at_s)
    app = open_page(feed)
    assert [one["name"] for one in specs(app)["samples of a batch"]["data"]] == ["now", "proposed"]
    assert "why not" in text_of(app)
    assert "proposed" in text_of(app)


@pytest.mark.slow
def test_a_plan_alone_has_a_section(tell, open_page):
    """Before the first time is measured."""
    feed = Feed()
    tell(feed, [(topics.PLAN, BalancedJob().plan())])
    app = open_page(feed)
    assert "<h2>Balance</h2>" in text_of(app)
    assert "No times of ranks have been received yet." in [one.value for one in app.caption]


@pytest.mark.slow
def test_times_alone_have_a_section(tell, open_page):
    """Of a balancer whose first plan was told before the page looked back."""
    feed = Feed()
    tell(feed, [(topics.BALANCE, BalancedJob().observed())])
    assert "<h2>Balance</h2>" in text_of(open_page(feed))


def test_hostile_words_stay_text(tell, open_page):
    """Reason, maker and mode come from other people's jobs."""
    feed = Feed()
    hostile = "<img src=x onerror=alert(1)>"
    plan = msgspec.structs.replace(BalancedJob().plan(hostile, by=hostile), mode=hostile)
    tell(feed, [(topics.PLAN, plan), (topics.BALANCE, BalancedJob(source="=1+1").observed(mode=hostile))])
    shown = text_of(open_page(feed))
    assert "<img" not in shown
    assert "&lt;img" in shown


@pytest.mark.slow
def test_a_thousand_ranks_stay_readable(balance, open_page):
    """A few bars, a few lines, and shares as from least to most."""
    feed = Feed()
    job = BalancedJob((*(100.0 + rank % 5 for rank in range(1023)), 40.0), total=64 * 1024)
    balance(feed, job, seconds=12)
    app = open_page(feed)
    drawn = specs(app)
    assert len(drawn["samples of a batch"]["data"][0]["y"]) == balance_figures.BARS
    assert "1023" in drawn["samples of a batch"]["data"][0]["y"]
    assert [one["name"] for one in drawn["training batch"]["data"] if one["name"]] == [
        "slowest rank",
        "90 % of ranks within",
        "median rank",
        "fastest rank",
    ]
    assert "(rank 1023) to" in text_of(app)
    assert f"The {balance_figures.BARS} furthest from an equal share." in " ".join(one.value for one in app.caption)


def test_places_stand_for_ranks_in_their_order():
    """The slowest, the 90th of a hundred, the median and the fastest, whatever was not measured."""
    ready_s = np.arange(1, 101, dtype=np.float32)[:, None] / 100
    ready_s = np.concatenate([ready_s, np.full((20, 1), np.nan, np.float32)])
    figure = balance_figures.times(np.array([7]), np.random.default_rng(1).permutation(ready_s), [], DARK)
    assert [one.y[0] for one in figure.data if one.name] == pytest.approx([1000.0, 900.0, 500.0, 10.0])


def test_nothing_measured_is_no_picture_and_no_error():
    """A job whose times are all missing."""
    ready_s = np.full((12, 3), np.nan, np.float32)
    figure = balance_figures.times(np.arange(3), ready_s, [], DARK)
    assert all(np.isnan(one.y).all() for one in figure.data if one.name)


def test_pictures_and_plans_are_there_as_numbers(balance):
    """CSV of the times, and of every plan with all its shares."""
    feed, job = Feed(), BalancedJob()
    balance(feed, job)
    held = feed.view("default", "balanced").balance
    figure = balance_figures.times(held.batch, held.ready_s, held.plans, DARK)
    head, *rows = csv.reader(io.StringIO(as_csv(figure).decode()))
    assert (head[:2], head[2][:18]) == (["series", "training batch"], "compute-ready time")
    assert len(rows) == 4 * 40
    head, *rows = csv.reader(io.StringIO(screen.numbers(list(held.plans)).decode()))
    assert head[-1] == "shares"
    assert [int(share) for share in rows[-1][-1].split()] == job.shares


def test_a_book_that_saw_nothing_but_a_proposal_shows_it():
    """The processors may be heard before the ranks."""
    book, job = BalanceBook(), BalancedJob()
    book.plan(msgspec.structs.replace(job.plan(), version=1, first_batch=None))
    view = book.view()
    assert view.plans == ()
    assert view.proposed.event.version == 1
