from streams.reports.gpus import GpuReport


def test_the_means_of_each_gpu_are_read_by_the_table(make_device_samples):
    """Two GPUs, two pictures; what is not measured is not spoken of."""
    gpus = GpuReport()
    for event in make_device_samples(10, utilization_ratio=[0.2, 0.9], temperature_celsius=[60.0, 88.0]):
        gpus.update(event)
    found = {uuid: {(one.name, one.word) for one in said} for (_, uuid), said in gpus.readings().items()}

    assert found["GPU-a"] == {("utilization_ratio", "under-used"), ("temperature_celsius", "cool")}
    assert ("utilization_ratio", "throttling risk") in found["GPU-b"]


def test_nothing_sampled_says_what_samples(make_device_samples):
    """Without GPUs the page names the command."""
    assert "paceline collect" in GpuReport().page()


def test_a_gpu_that_measures_nothing_says_so(make_device_samples):
    """All columns None."""
    gpus = GpuReport()
    for event in make_device_samples(3):
        gpus.update(event)

    assert gpus.page().count("nothing measured that has a rule") == 2
