"""Real workers, from what balanced ranks measured to the plans that are made of it."""

import json
import uuid

import msgspec
import pytest

from paceline import topics, wire
from streams.balance.job_balance import JobBalance

pytestmark = pytest.mark.e2e


@pytest.fixture
def told(make_observations):
    """What a job of the test's own tells, and the plans that an uninterrupted decision makes of it."""
    job = uuid.uuid4().hex
    events = [msgspec.structs.replace(event, job=job, producer=job) for event in make_observations()]
    decision = JobBalance()
    plans = [json.loads(wire.encode(plan)) for event in events for plan in decision.update(event)]
    assert len(plans) >= 2
    return job, events, plans


def test_what_ranks_measured_becomes_plans(workers, told):
    """On the topic where sidecars look for them, under the job's key."""
    job, events, plans = told
    workers.start()
    workers.produce(events, topics.BALANCE)
    workers.until(lambda: workers.plans(job) == plans)


def test_killed_in_between_no_version_comes_with_other_shares(workers, told):
    """kill -9 after the first plan: the next worker may say it again, word for word, and then goes on."""
    job, events, plans = told
    first = workers.start()
    workers.produce(events[:12], topics.BALANCE)
    workers.until(lambda: workers.plans(job) == plans[:1])
    first.kill()
    first.wait()
    workers.start()
    workers.produce(events[12:], topics.BALANCE)
    workers.until(lambda: workers.plans(job)[-1:] == plans[-1:])
    said = workers.plans(job)
    assert [plan for at, plan in enumerate(said) if plan not in said[:at]] == plans
