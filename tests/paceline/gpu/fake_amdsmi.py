"""A made-up ``amdsmi``: answers in the shapes that AMD's Python binding gives them (its source, 6.1 to 7.2).

What is documented there: dicts by name, "N/A" where a field holds the highest number of its type, enumerations as
attributes, exceptions with ``err_code`` and ``err_info``. A field of a card is free to change at any time; ``refuse``
maps a call to the status that it raises, ``Handle`` is opaque as the real one, a ctypes pointer, is.
"""

# ruff: noqa: N818 - its names
import enum
from types import SimpleNamespace

GIB = 1024**3
STATUS = {
    "AMDSMI_STATUS_INVAL": 1,
    "AMDSMI_STATUS_NOT_SUPPORTED": 2,
    "AMDSMI_STATUS_NOT_YET_IMPLEMENTED": 3,
    "AMDSMI_STATUS_TIMEOUT": 8,
    "AMDSMI_STATUS_RETRY": 9,
    "AMDSMI_STATUS_NO_PERM": 10,
    "AMDSMI_STATUS_IO": 12,
    "AMDSMI_STATUS_BUSY": 30,
    "AMDSMI_STATUS_NOT_FOUND": 31,
    "AMDSMI_STATUS_NOT_INIT": 32,
    "AMDSMI_STATUS_DRIVER_NOT_LOADED": 34,
    "AMDSMI_STATUS_UNEXPECTED_DATA": 43,
}
NOT_SUPPORTED, NO_PERM, BUSY = (STATUS[f"AMDSMI_STATUS_{name}"] for name in ("NOT_SUPPORTED", "NO_PERM", "BUSY"))
NOT_FOUND, DRIVER_NOT_LOADED = (STATUS[f"AMDSMI_STATUS_{name}"] for name in ("NOT_FOUND", "DRIVER_NOT_LOADED"))
IDLE_METRICS = {
    "xgmi_read_data_acc": [1000, 2000, "N/A", "N/A"],
    "xgmi_write_data_acc": [500, 500, "N/A", "N/A"],
    "ppt_residency_acc": 10,
    "socket_thm_residency_acc": 0,
    "hbm_thm_residency_acc": 0,
    "vr_thm_residency_acc": 0,
    "prochot_residency_acc": 0,
    "indep_throttle_status": "N/A",
}


class AmdSmiException(Exception):
    pass


class AmdSmiLibraryException(AmdSmiException):
    def __init__(self, err_code):
        super().__init__(err_code)
        self.err_code = err_code
        name = next((name for name, code in STATUS.items() if code == err_code), "AMDSMI_STATUS_UNKNOWN_ERROR")
        self.err_info = f"{name} - in words"

    def __str__(self):
        return f"Error code:\n\t{self.err_code} | {self.err_info}"


class AmdSmiParameterException(AmdSmiException):
    """Has an ``err_code`` of None."""

    def __init__(self):
        super().__init__()
        self.err_code = None

    def __str__(self):
        return "Invalid parameter:\nActual type: x\nExpected type: y"


class Handle:
    """A card, as callers hold it."""


class Card:
    """A MI300X, idle."""

    def __init__(self, index):
        self.handle = Handle()
        self.refuse = {}
        self.lost = None
        serial = 0x8AF705259683161C + index
        self.asic = {"market_name": "AMD Instinct MI300X", "asic_serial": f"0x{serial:016X}", "vendor_name": "AMD"}
        self.enumeration = {"hip_id": index, "hsa_id": index + 2, "hip_uuid": f"GPU-{serial:016x}"}
        self.uuid = f"{index + 1:02x}ff74a1-0000-1000-80f7-05259683161c"
        self.bdf = f"0000:{index + 12:02x}:00.0"
        self.activity = {"gfx_activity": 42, "umc_activity": 17, "mm_activity": "N/A"}
        self.memory = {"total": 192 * GIB, "used": 100 * GIB}
        self.vram = {"vram_total": 196592, "vram_used": 102400}
        self.power = {"socket_power": 350, "current_socket_power": 350, "average_socket_power": "N/A"}
        self.cap = {"power_cap": 750_000_000, "default_power_cap": 750_000_000, "dpm_cap": 0}
        self.energy = {"energy_accumulator": 2_000_000, "counter_resolution": 15.259, "timestamp": 1}
        self.temperatures = {"HOTSPOT": 61, "VRAM": 48}
        self.clocks = {
            "GFX": {"clk": 1305, "min_clk": 132, "max_clk": 2100, "clk_locked": False, "clk_deep_sleep": "N/A"},
            "MEM": {"clk": 1300, "min_clk": 900, "max_clk": 1300, "clk_locked": "N/A", "clk_deep_sleep": "N/A"},
        }
        self.pcie = {
            "pcie_static": {"max_pcie_width": 16, "max_pcie_speed": 32000, "pcie_interface_version": 5},
            "pcie_metric": {"pcie_width": 16, "pcie_speed": 32000, "pcie_bandwidth": 1, "pcie_replay_count": 3},
        }
        self.ecc = {"correctable_count": 2, "uncorrectable_count": 0, "deferred_count": 0}
        self.blocks = {"XGMI_WAFL": {"correctable_count": 4, "uncorrectable_count": 1, "deferred_count": 0}}
        self.bad_pages = [{"value": 0, "page_address": 1, "page_size": 4096, "status": 0}]
        self.metrics = dict(IDLE_METRICS)
        self.processes = []


class AmdSmiClkType(enum.IntEnum):
    GFX = 1
    MEM = 5


class AmdSmiTemperatureType(enum.IntEnum):
    EDGE = 0
    HOTSPOT = 1
    VRAM = 2


class FakeAmdSmi:
    """The module, as far as Paceline asks it."""

    AmdSmiException = AmdSmiException
    AmdSmiClkType = AmdSmiClkType
    AmdSmiTemperatureType = AmdSmiTemperatureType
    AmdSmiTemperatureMetric = enum.IntEnum("AmdSmiTemperatureMetric", {"CURRENT": 0})
    AmdSmiMemoryType = enum.IntEnum("AmdSmiMemoryType", {"VRAM": 0})
    AmdSmiGpuBlock = enum.IntEnum("AmdSmiGpuBlock", {"XGMI_WAFL": 128})

    def __init__(self, cards, init_error=None):
        self.cards = [Card(index) for index in range(cards)]
        self.init_error = init_error
        self.open = False
        self.calls = []
        self.amdsmi_wrapper = SimpleNamespace(**STATUS)

    def _card(self, call, handle):
        if not self.open:
            raise AmdSmiLibraryException(STATUS["AMDSMI_STATUS_NOT_INIT"])
        if not isinstance(handle, Handle):
            raise AmdSmiParameterException
        card = next(card for card in self.cards if card.handle is handle)
        self.calls.append(call)
        for code in (card.lost, card.refuse.get(call)):
            if code is not None:
                raise AmdSmiLibraryException(code)
        return card

    def amdsmi_init(self):
        if self.init_error is not None:
            raise AmdSmiLibraryException(self.init_error)
        self.open = True

    def amdsmi_shut_down(self):
        self.open = False

    def amdsmi_get_processor_handles(self):
        return [card.handle for card in self.cards]

    def amdsmi_get_gpu_asic_info(self, handle):
        return dict(self._card("amdsmi_get_gpu_asic_info", handle).asic)

    def amdsmi_get_gpu_enumeration_info(self, handle):
        return dict(self._card("amdsmi_get_gpu_enumeration_info", handle).enumeration)

    def amdsmi_get_gpu_device_uuid(self, handle):
        return self._card("amdsmi_get_gpu_device_uuid", handle).uuid

    def amdsmi_get_gpu_device_bdf(self, handle):
        return self._card("amdsmi_get_gpu_device_bdf", handle).bdf

    def amdsmi_get_gpu_driver_info(self, handle):
        self._card("amdsmi_get_gpu_driver_info", handle)
        return {"driver_name": "amdgpu", "driver_version": "6.14.14", "driver_date": "N/A"}

    def amdsmi_get_gpu_activity(self, handle):
        return dict(self._card("amdsmi_get_gpu_activity", handle).activity)

    def amdsmi_get_gpu_memory_total(self, handle, kind):
        return self._card("amdsmi_get_gpu_memory_total", handle).memory["total"]

    def amdsmi_get_gpu_memory_usage(self, handle, kind):
        return self._card("amdsmi_get_gpu_memory_usage", handle).memory["used"]

    def amdsmi_get_gpu_vram_usage(self, handle):
        return dict(self._card("amdsmi_get_gpu_vram_usage", handle).vram)

    def amdsmi_get_power_info(self, handle):
        return dict(self._card("amdsmi_get_power_info", handle).power)

    def amdsmi_get_power_cap_info(self, handle):
        return dict(self._card("amdsmi_get_power_cap_info", handle).cap)

    def amdsmi_get_energy_count(self, handle):
        return dict(self._card("amdsmi_get_energy_count", handle).energy)

    def amdsmi_get_temp_metric(self, handle, kind, metric):
        found = self._card("amdsmi_get_temp_metric", handle).temperatures.get(kind.name)
        if found is None:
            raise AmdSmiLibraryException(NOT_SUPPORTED)
        return found

    def amdsmi_get_clock_info(self, handle, kind):
        return dict(self._card("amdsmi_get_clock_info", handle).clocks[kind.name])

    def amdsmi_get_pcie_info(self, handle):
        return self._card("amdsmi_get_pcie_info", handle).pcie

    def amdsmi_get_gpu_pci_replay_counter(self, handle):
        self._card("amdsmi_get_gpu_pci_replay_counter", handle)
        return 9

    def amdsmi_get_gpu_metrics_info(self, handle):
        return dict(self._card("amdsmi_get_gpu_metrics_info", handle).metrics)

    def amdsmi_get_gpu_ecc_count(self, handle, block):
        return dict(self._card("amdsmi_get_gpu_ecc_count", handle).blocks[block.name])

    def amdsmi_get_gpu_total_ecc_count(self, handle):
        return dict(self._card("amdsmi_get_gpu_total_ecc_count", handle).ecc)

    def amdsmi_get_gpu_bad_page_info(self, handle):
        return self._card("amdsmi_get_gpu_bad_page_info", handle).bad_pages

    def amdsmi_get_gpu_process_list(self, handle):
        return list(self._card("amdsmi_get_gpu_process_list", handle).processes)
