"""What is missing of producers' messages, and what producers say of themselves."""

from msgspec import structs

from paceline.events import DeliveryAccount
from paceline.topics import HOST, OP, WINDOW
from streams.producers import MOST_PROCESSES, MOST_SENDERS, Producers
from tests.timings import speaking

SIDECAR = ("sidecar", "node-0", "job")


def test_jumps_in_the_numbers_are_counted_by_topic(make_training, make_host_samples):
    """What comes again counts once; what starts in the middle misses nothing."""
    producers, batches = Producers(), make_training(ranks=1, nodes=1, seconds=8)
    for place in (2, 3, 3, 6, 7):
        producers.hear(OP, structs.replace(batches[place], lost=1))
    for samples in make_host_samples(seconds=3):
        producers.hear(HOST, samples)
    assert producers.missing == {"op": 2, "host": 0}
    assert producers.lost_rows == 4


def test_partitions_that_come_back_are_no_gap(make_training):
    """Meanwhile another worker has heard what is between."""
    producers, batches = Producers(), make_training(ranks=1, nodes=1, seconds=8)
    producers.hear(OP, batches[0])
    producers.forget_positions()
    producers.hear(OP, batches[7])
    assert producers.missing == {"op": 0}


def test_an_account_is_the_newest_and_a_restart_another_process(make_training):
    """A spool that empties brings old accounts, of processes that are gone."""
    producers, batches = Producers(), make_training(ranks=1, nodes=1, seconds=4)
    for place, (process, sent) in enumerate((("a", 10), ("b", 1), ("b", 2), ("a", 11))):
        said = structs.replace(batches[place], producer=process, account=DeliveryAccount(sent=sent))
        producers.hear(OP, said if process == "b" else structs.replace(said, t0_s=said.t0_s - 60.0))
    assert producers.senders[SIDECAR].account.sent == 2
    assert producers.senders[SIDECAR].restarts == 1


def test_sidecars_beside_each_other_are_summed_and_none_took_over(make_training):
    """Where every task of a node has its own: each speaks for other ranks."""
    producers, (batch,) = Producers(), make_training(ranks=1, nodes=1, seconds=1)
    for turn, (process, rank, sent) in enumerate((("a", 0, 10), ("b", 1, 5), ("a", 0, 11), ("b", 1, 6))):
        account = DeliveryAccount(sent=sent, shed={"paceline.op.v2": 1})
        producers.hear(OP, speaking(structs.replace(batch, producer=process, sequence=turn, account=account), [rank]))
    sender = producers.senders[SIDECAR]
    assert (sender.account.sent, sender.account.shed, sender.restarts) == (17, {"paceline.op.v2": 2}, 0)


def test_a_process_whose_old_words_come_late_takes_nothing_over(make_training):
    """Even where its successor was heard first; nor does one that learns of more ranks than it had."""
    producers, batches = Producers(), make_training(ranks=1, nodes=1, seconds=4)
    heard = (("new", [0], 3, 1), ("old", [0, 1], 0, 9), ("new", [0, 1], 3, 2), ("old", [0, 1], 1, 9))
    for turn, (process, ranks, second, sent) in enumerate(heard):
        said = speaking(structs.replace(batches[second], producer=process, sequence=turn), ranks)
        producers.hear(OP, structs.replace(said, account=DeliveryAccount(sent=sent)))
    sender = producers.senders[SIDECAR]
    assert (sender.account.sent, sender.restarts, list(sender.processes)) == (2, 1, ["new"])


def test_what_keeps_no_account_is_no_sender(make_training):
    """A recording that is replayed."""
    producers = Producers()
    producers.hear(OP, make_training(ranks=1, nodes=1, seconds=1)[0])
    producers.hear(WINDOW, object())  # type: ignore[arg-type]
    assert producers.senders == {}


def test_memory_is_bounded(make_training):
    """Names come from outside: senders heard longest ago are forgotten, and processes counted up to a bound."""
    producers, (batch,) = Producers(), make_training(ranks=1, nodes=1, seconds=1)
    account = DeliveryAccount()
    for number in range(MOST_SENDERS + 5):
        producers.hear(OP, structs.replace(batch, node=f"n-{number}", producer=str(number), account=account))
    for number in range(MOST_PROCESSES + 5):
        producers.hear(OP, structs.replace(batch, producer=f"p-{number}", account=account))
    assert len(producers.senders) == MOST_SENDERS
    assert ("sidecar", "n-0", "job") not in producers.senders
    assert producers.senders[SIDECAR].restarts == MOST_PROCESSES - 1
