from collectors.gpm import COLUMNS


def test_activity_needs_an_interval(sample, gpus):
    """The first row has no activity, and no reason either: it comes with the second."""
    first, second = sample()[0], sample()[0]

    assert [first[column] for column in COLUMNS] == [None, None, None]
    assert all(0 < second[column] <= 1 for column in COLUMNS)
    assert not set(COLUMNS) & set(gpus.not_measured())


def test_before_hopper_there_is_no_activity(sample, nvml, gpus):
    """A card without GPM says where its activity can be had."""
    nvml.gpus[0].gpm = False
    sample()

    assert sample()[0]["tensor_active_ratio"] is None
    assert "dcgm-exporter" in gpus.not_measured()["tensor_active_ratio[0]"]


def test_samples_are_given_back(nvml, gpus, sample):
    """Closing frees every GPM sample that was allocated."""
    sample()
    sample()
    gpus.close()

    assert nvml._gpm_samples == {}
