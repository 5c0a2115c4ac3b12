import pynvml

from collectors.xid_listener import MOST


def test_each_xid_is_in_exactly_one_row(sample, nvml):
    """XIDs come in their order, one a row, and are then over; other rows say 0."""
    sample()
    nvml.gpus[0].xids += [31, 79]

    assert [sample()[0]["xid"] for _ in range(4)] == [31, 79, 0, 0]


def test_an_xid_belongs_to_its_device(sample, nvml):
    """The neighbour of a GPU with an XID has none."""
    sample()
    nvml.gpus[1].xids.append(48)

    assert [row["xid"] for row in sample()] == [0, 48]


def test_the_xid_of_a_lost_gpu_is_told(sample, nvml):
    """A GPU that falls off the bus still tells the XID that says so."""
    sample()
    nvml.gpus[0].xids.append(79)
    nvml.gpus[0].lost = pynvml.NVML_ERROR_GPU_IS_LOST
    row = sample()[0]

    assert (row["xid"], row["power_w"]) == (79, None)


def test_a_flood_of_xids_ends(sample, nvml):
    """Thousands of XIDs at once do not hold up the row; the oldest come first."""
    sample()
    nvml.gpus[0].xids += [13] + [45] * 10_000

    assert sample()[0]["xid"] == 13
    assert len(nvml.gpus[0].xids) == 10_001 - MOST
