import pytest

from paceline.gpu.uuids import canonical, of_serial

ROCM = "GPU-8af705259683161c"


@pytest.mark.parametrize(
    "told",
    [
        ROCM,
        "GPU-8AF705259683161C",
        "GPU-38616637-3035-3235-3936-383331363163",  # PyTorch: HIP's 16 letters, in hexadecimal.
        "GPU-38414637-3035-3235-3936-383331363143",
    ],
)
def test_a_gpu_of_amds_has_one_name(told):
    """However it is told, it is what rocminfo shows."""
    assert canonical(told) == ROCM
    assert canonical(canonical(told)) == ROCM


@pytest.mark.parametrize(
    "told",
    [
        "GPU-51ed0000-0000-4000-8000-000000000000",
        "MIG-38616637-3035-3235-3936-383331363163",
        "cuda:0",
        "cpu",
        "GPU-0000:0c:00.1",
        "GPU-386166373035323539363833313631",  # A byte short.
    ],
)
def test_other_names_stay_as_they_are(told):
    """NVIDIA's, instances', numbers, and places on the bus."""
    assert canonical(told) == told


@pytest.mark.parametrize("told", ["GPU-XX", "GPU-58580000-0000-0000-0000-000000000000", "GPU-N/A", "GPU-", ""])
def test_a_gpu_without_a_name_has_none(told):
    """ROCm writes XX for it, and HIP hands out these two letters."""
    assert canonical(told) is None


def test_the_serial_number_is_the_name():
    """As many digits as ROCm writes; what is no number, or none that fits, names nothing."""
    assert of_serial("0x8AF705259683161C") == ROCM
    assert of_serial("0x1") == "GPU-0000000000000001"
    assert [of_serial(wrong) for wrong in ("N/A", "", "0x0", "-0x1", "0x1ffffffffffffffff")] == [None] * 5
