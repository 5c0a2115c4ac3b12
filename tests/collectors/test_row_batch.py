from collectors.host import Host
from collectors.row_batch import RowBatch, host_samples
from paceline import wire
from paceline.gpu.sample_rows import device_samples
from paceline.topics import DEVICE, HOST

PRODUCER = {"cluster": "c", "producer": "p", "sequence": 0, "node": "n"}


def test_rows_become_columns_in_their_order(gpus, sample):
    """Two samples of two GPUs are four rows; the event passes the wire's own check."""
    batch = RowBatch()
    for at_s in (100.0, 100.25):
        batch.append(at_s, zip(gpus.uuids, sample(), strict=True))
    event = device_samples(batch.drain(), 0.0, [], gpus.uuids, {}, **PRODUCER)
    back = wire.decode(DEVICE, wire.encode(event))

    assert (back.t0_s, back.time_s, back.device) == (100.0, [0.0, 0.0, 0.25, 0.25], [0, 1, 0, 1])
    assert back == event


def test_rows_of_a_device_that_has_gone_keep_its_name(gpus, sample):
    """A row whose GPU is no longer open is not counted to another one."""
    batch = RowBatch()
    batch.append(1.0, zip(["GPU-gone", gpus.uuids[0]], sample(), strict=True))
    event = device_samples(batch.drain(), 0.0, [], gpus.uuids, {}, **PRODUCER)

    assert [event.uuids[place] for place in event.device] == ["GPU-gone", gpus.uuids[0]]


def test_host_rows_pass_the_wire():
    """Host rows become an event that decodes to itself."""
    host, batch = Host(), RowBatch()
    for second in (1.0, 2.0):
        batch.append(second, [("", host.sample(second))])
    event = host_samples(batch.drain(), host.network_errors(), host.not_measured(), **PRODUCER)

    assert wire.decode(HOST, wire.encode(event)) == event


def test_a_batch_nobody_takes_is_bounded():
    """Rows that nobody takes are shed, the oldest first, and counted."""
    batch = RowBatch(most=3)
    for at_s in range(5):
        batch.append(float(at_s), [("", {})])

    assert ([at_s for at_s, _, _ in batch.drain()], batch.shed) == ([2.0, 3.0, 4.0], 2)


def test_a_cut_empties():
    """What was cut is not cut again."""
    batch = RowBatch()
    batch.append(1.0, [("", {})])
    batch.drain()

    assert batch.drain() == []
