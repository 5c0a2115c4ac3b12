"""What the page says is wrong with Paceline itself."""

import msgspec
import pytest

from paceline import events
from paceline.topics import HOST, OP
from ui.feed import Feed
from ui.troubles import HEARD_S, HELD_BACK, LAG, troubles, well

NOTHING = events.DeliveryAccount(sent=9)


def texts(snapshot):
    return [trouble.text for trouble in troubles(snapshot)]


@pytest.fixture
def sends(simulated_job, tell):
    """A feed that has heard the sidecars' and collectors' accounts, node by node."""

    def sends(feed, account, at_s=1000.0, on=OP, jump=0):
        numbered = simulated_job.timings(at_s, 0, 1) if on is OP else simulated_job.machines(at_s)
        said = [
            (topic, msgspec.structs.replace(event, account=account, sequence=event.sequence + jump))
            for topic, event in numbered
            if topic is on
        ]
        tell(feed, said, at_s)
        return feed

    return sends


def test_what_is_well_is_not_mentioned(played, sends, snapshot_of):
    """A feed without a gap, a queue or a letter."""
    assert troubles(snapshot_of(sends(played, NOTHING))) == []


def test_messages_on_their_way_are_counted_where_nothing_is_wrong(played, sends, snapshot_of):
    """As the table of senders below has them."""
    assert well(snapshot_of(sends(played, NOTHING))) == "No messages are missing, waiting or rejected."
    shown = snapshot_of(sends(played, events.DeliveryAccount(waiting=1)))
    assert troubles(shown) == []
    count = len(shown.senders)
    assert well(shown).startswith(f"No messages are missing or rejected; {count} message{'s' * (count > 1)} not sent")


def test_gaps_are_told_by_topic(sends, snapshot_of):
    """What was numbered and never came."""
    feed = sends(sends(Feed(), NOTHING), NOTHING, jump=10)
    (found,) = troubles(snapshot_of(feed))
    assert (found.lost, found.text) == (True, f"Messages are missing: {10 * len(feed.senders)} on op")


@pytest.mark.parametrize(("topic", "who"), [(OP, "the sidecar of "), (HOST, "the collector of ")])
def test_what_was_shed_is_lost_and_told_first(sends, snapshot_of, topic, who):
    """By how many, and by whom, before what is only late."""
    feed = sends(Feed(), events.DeliveryAccount(shed={OP.name: 7}, spooled=HELD_BACK + 1), on=topic)
    shed, waiting = troubles(snapshot_of(feed))
    assert (shed.lost, waiting.lost) == (True, False)
    assert f"{7 * len(feed.senders):,} messages were dropped by {who}" in shed.text
    assert f"{(HELD_BACK + 1) * len(feed.senders):,} messages wait" in waiting.text


def test_a_second_of_messages_is_no_queue(sends, snapshot_of):
    """And what a sender said long ago no longer holds."""
    assert texts(snapshot_of(sends(Feed(), events.DeliveryAccount(waiting=HELD_BACK)))) == []
    full = sends(Feed(), events.DeliveryAccount(waiting=1, spooled=HELD_BACK))
    assert len(texts(snapshot_of(full))) == 1
    assert texts(snapshot_of(full, now_s=1000.0 + HEARD_S)) == []


def test_an_account_from_a_spool_does_not_hide_a_newer_one(sends, snapshot_of):
    """Messages that were held back come after newer ones."""
    feed = sends(Feed(), NOTHING, at_s=1000.0)
    sends(feed, events.DeliveryAccount(spooled=HELD_BACK + 1), at_s=990.0)
    assert texts(snapshot_of(feed)) == []


def sampled(feed, simulated_job, tell, times):
    feed.traffic["window"].lag = 0
    for at_s in times:
        tell(feed, simulated_job.machines(at_s), at_s)
    return feed


def test_samples_that_no_worker_reads_are_reported(simulated_job, tell, snapshot_of):
    """A worker that hangs or has not joined: its group's lag says little, and its windows do not come."""
    feed = sampled(Feed(), simulated_job, tell, range(1000, 1026, 5))
    assert texts(snapshot_of(feed)) == []
    sampled(feed, simulated_job, tell, [1030])
    assert "No stream worker reads device and host: no window was received" in texts(snapshot_of(feed, now_s=1030.0))[0]
    tell(feed, [simulated_job.window(1030.0, 99)], 1030.0)
    assert texts(snapshot_of(feed, now_s=1030.0)) == []
    sampled(feed, simulated_job, tell, range(1035, 1061, 5))
    assert "the last window was received 30 s ago" in texts(snapshot_of(feed, now_s=1060.0))[0]


def test_a_worker_is_not_blamed_for_a_pause(simulated_job, tell, snapshot_of):
    """Samples begin again after an hour, or the page has not read the windows to their end."""
    feed = sampled(Feed(), simulated_job, tell, [1000.0])
    tell(feed, [simulated_job.window(1000.0, 99)], 1000.0)
    sampled(feed, simulated_job, tell, [4600.0, 4605.0])
    assert texts(snapshot_of(feed, now_s=4605.0)) == []
    behind = sampled(Feed(), simulated_job, tell, range(1000, 1100, 5))
    behind.traffic["window"].lag = None
    assert texts(snapshot_of(behind, now_s=1100.0)) == []


def test_its_own_reading_is_told(snapshot_of):
    """Lag, messages passed over or not readable, and threads that were started again."""
    feed = Feed()
    feed.traffic["op"].lag = LAG
    assert texts(snapshot_of(feed)) == []
    feed.traffic["op"].lag = LAG + 1
    feed.skip("op", 40)
    feed.unusable("window", "torn")
    found = " ".join(texts(snapshot_of(feed, restarts=2)))
    wanted = ("behind: 1,001 on op", "skipped messages to keep up: 40 on op", "messages: 1 on window", "so far: 2")
    assert [words for words in wanted if words not in found] == []


@pytest.mark.parametrize(("age_s", "told"), [(5.0, True), (4000.0, False)])
def test_the_newest_refusal_is_told_with_its_reason(snapshot_of, age_s, told):
    """While it is news."""
    feed = Feed()
    for at_s, reason in ((2.0, "newer"), (1.0, "older")):
        letter = events.DeadLetter(
            reason=reason, topic=OP.name, partition=0, offset=1, time_s=10_000.0 + at_s, excerpt=""
        )
        feed.update("deadletter", letter, 10_000.0)
    found = " ".join(texts(snapshot_of(feed, now_s=10_002.0 + age_s)))
    assert ("newer" in found, "older" in found) == (told, False)
