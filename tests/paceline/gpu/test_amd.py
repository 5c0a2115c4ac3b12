"""AMD's library behind the interface that NVIDIA's is behind, on a made-up ``amdsmi``."""

import sys

import pytest

from paceline.gpu import amd
from paceline.gpu.amd import AmdSmi
from paceline.gpu.driver import AbsentError, opened
from tests.paceline.gpu.fake_amdsmi import DRIVER_NOT_LOADED, NO_PERM, FakeAmdSmi

FIRST, SECOND = "GPU-8af705259683161c", "GPU-8af705259683161d"


@pytest.fixture
def smi():
    return FakeAmdSmi(2)


@pytest.fixture
def driver(smi):
    made = AmdSmi(smi)
    made.open()
    return made


def test_gpus_are_called_as_rocm_calls_them(driver):
    """By the digits that rocminfo shows."""
    assert [driver.uuid(driver.handle(index)) for index in range(driver.count())] == [FIRST, SECOND]


@pytest.mark.parametrize(
    "name",
    [
        FIRST,
        "GPU-38616637-3035-3235-3936-383331363163",
        "GPU-01ff74a1-0000-1000-80f7-05259683161c",
    ],
    ids=["as rocminfo", "as PyTorch", "as AMD SMI"],
)
def test_a_ranks_gpu_is_found_by_any_of_its_names(driver, smi, name):
    """And it is all of the GPU."""
    found = driver.find(name)

    assert (found.handle, found.whole) == (smi.cards[0].handle, None)


@pytest.mark.parametrize("name", ["GPU-00000000000000ff", "MIG-x", "cuda:0", "cuda:1", "GPU-XX"])
def test_what_is_not_sure_is_not_found(driver, name):
    """A number counts what the process may see, in an order that is not AMD SMI's; a name may be another node's."""
    assert driver.find(name) is None


@pytest.mark.parametrize("name", ["cuda:0", "GPU-58580000-0000-0000-0000-000000000000"])
def test_one_gpu_alone_is_sure(name):
    """Also where ROCm has no name for it."""
    smi = FakeAmdSmi(1)
    driver = AmdSmi(smi)
    driver.open()

    assert driver.find(name).handle is smi.cards[0].handle


def test_an_older_library_names_gpus_by_their_serial_numbers(smi, monkeypatch):
    """Before 7.0 it does not tell HIP's names."""
    monkeypatch.delattr(FakeAmdSmi, "amdsmi_get_gpu_enumeration_info")
    driver = AmdSmi(smi)
    driver.open()

    assert driver.uuid(driver.handle(1)) == SECOND


def test_a_card_that_tells_no_name_has_a_number(smi):
    """Nobody's rank can be on it by name; its samples go on."""
    card = smi.cards[1]
    card.refuse = dict.fromkeys(
        ("amdsmi_get_gpu_enumeration_info", "amdsmi_get_gpu_asic_info", "amdsmi_get_gpu_device_uuid"), NO_PERM
    )
    driver = AmdSmi(smi)
    driver.open()

    assert [driver.uuid(driver.handle(index)) for index in range(2)] == [FIRST, "AMD-1"]


def test_parts_of_a_gpu_are_told_apart_by_their_places(smi):
    """In CPX mode they share the serial number: samples keep them apart, and no rank is given another's numbers."""
    for card in smi.cards:
        card.enumeration["hip_uuid"] = FIRST
        card.asic["asic_serial"] = "0x8AF705259683161C"
    driver = AmdSmi(smi)
    driver.open()

    assert [driver.uuid(driver.handle(index)) for index in range(2)] == ["GPU-0000:0c:00.0", "GPU-0000:0d:00.0"]
    assert driver.find(FIRST) is None


def test_processes_come_with_their_memory_of_the_card(driver, smi):
    """Not with that of the host which the GPU may use; a name that nobody may see is none."""
    memory = {"gtt_mem": 5, "cpu_mem": 6, "vram_mem": 7 * 1024**3}
    smi.cards[0].processes = [
        {"name": "/usr/bin/python3", "pid": 4711, "mem": 9, "memory_usage": memory},
        {"name": "N/A", "pid": 4712, "mem": 9, "memory_usage": memory | {"vram_mem": 0}},
    ]

    assert [tuple(one) for one in driver.running(driver.handle(0))] == [
        (4711, 7 * 1024**3, "python3"),
        (4712, 0, ""),
    ]


def test_refusals_are_told_in_the_words_of_all_drivers(driver):
    """In a line each; a call that fails for a reason of its own keeps AMD's words."""
    exception = sys.modules["tests.paceline.gpu.fake_amdsmi"].AmdSmiLibraryException
    said = {code: driver.reason(exception(code)) for code in (2, 10, 31, 34, 30, 43)}

    assert (said[2], said[10], said[31]) == ("not supported by this GPU", "no permission", "GPU is lost")
    assert said[34] == "AMD driver (amdgpu) not loaded"
    assert said[43] == "AMD SMI: AMDSMI_STATUS_UNEXPECTED_DATA - in words"
    assert not any("\n" in words for words in said.values())
    assert [driver.is_passing(exception(code)) for code in (30, 9, 2)] == [True, True, False]
    assert [driver.is_lost(exception(code)) for code in (31, 32, 2)] == [True, True, False]


def test_a_wrong_parameter_is_a_reason_on_one_line(driver):
    """The binding raises it with no code."""
    exception = sys.modules["tests.paceline.gpu.fake_amdsmi"].AmdSmiParameterException

    assert driver.reason(exception()) == "Invalid parameter: Actual type: x Expected type: y"
    assert not driver.is_lost(exception())
    assert not driver.is_passing(exception())


def test_a_driver_that_does_not_open_is_a_reason():
    """As on a machine with ROCm and without a card."""
    drivers, why = opened([lambda: AmdSmi(FakeAmdSmi(0, init_error=DRIVER_NOT_LOADED))])

    assert (drivers, why) == ([], ["AMD driver (amdgpu) not loaded"])


def test_without_the_package_it_is_said(monkeypatch):
    """And nothing is imported."""
    monkeypatch.setattr(amd.importlib.util, "find_spec", lambda name: None)

    with pytest.raises(AbsentError, match=r"no AMD SMI \(the Python package amdsmi is not installed\)"):
        amd.load()


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The package as PyPI has it: it fails without ROCm's library, and writes to standard output before."""
    package = tmp_path / "amdsmi"
    package.mkdir()
    (package / "__init__.py").write_text("print('Unable to find libamd_smi.so')\n{}['libamd_smi.so']\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("amdsmi", None)
    for name in ("ROCM_HOME", "ROCM_PATH", "LD_LIBRARY_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(amd, "_USUAL", (tmp_path / "opt",))
    monkeypatch.setattr(amd, "_LOADER", tmp_path / "ld.so.cache")
    yield package
    sys.modules.pop("amdsmi", None)


def test_without_rocm_the_package_is_not_even_imported(installed, capfd):
    """A recording may go to standard output."""
    with pytest.raises(AbsentError, match=r"no AMD SMI \(ROCm's libamd_smi\.so not found\)"):
        amd.load()

    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("where", ["ROCM_PATH", "ROCM_HOME", "LD_LIBRARY_PATH", "/opt", "beside it", "the loader"])
def test_a_library_that_is_there_and_does_not_load_is_a_reason(installed, tmp_path, monkeypatch, where):
    """With or without a version behind its name. It is looked for, not loaded: two copies of it would break both."""
    folder = {"/opt": tmp_path / "opt", "beside it": installed}.get(where, tmp_path / "rocm" / "lib")
    folder.mkdir(parents=True, exist_ok=True)
    if where == "the loader":
        (tmp_path / "ld.so.cache").write_bytes(b"glibc\0libamd_smi.so\0")
    else:
        (folder / "libamd_smi.so.26").write_bytes(b"")
    if where.isupper():
        monkeypatch.setenv(where, str(folder if where == "LD_LIBRARY_PATH" else folder.parent))

    with pytest.raises(AbsentError, match=r"AMD SMI does not load: .libamd_smi\.so"):
        amd.load()


def test_the_package_is_taken_where_it_loads(installed, tmp_path):
    """As it is."""
    (installed / "__init__.py").write_text("AmdSmiException = ValueError\n")
    (installed / "libamd_smi.so").write_bytes(b"")

    assert amd.load().library.AmdSmiException is ValueError
