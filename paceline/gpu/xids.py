"""What the driver's error codes (XIDs) mean, whose fault they are, and what to do.

Rule of this file: data, from NVIDIA's "XID Errors" catalogue. A code that is not here is told as unknown, never
guessed. Most XIDs accuse no hardware: the program did something that it may not.
"""

from typing import Literal, NamedTuple, get_args

from paceline.events import Severity

#: What a code speaks of: a part of the machine, or the program that runs on it.
Part = Literal["memory", "bus", "nvlink", "driver", "program"]
PARTS: tuple[Part, ...] = get_args(Part)


class Xid(NamedTuple):
    """A code: which part it speaks of, whether it proves a fault by itself, and what to do."""

    part: Part
    proof: bool
    severity: Severity
    meaning: str
    advice: str


_SANITIZE = "run it under compute-sanitizer; where several programs fault on this GPU alone, run dcgmi diag -r 3"
_RESET = "drain the node and reset the GPU (nvidia-smi --gpu-reset); replace it if this comes again"
_LINKS = "check the links (nvidia-smi nvlink -s)"
_UPDATE = "reset the GPU; update the driver"
_REBOOT = "drain the node and power-cycle it; where it comes again, reseat or replace the GPU"

XIDS: dict[int, Xid] = {
    13: Xid("program", False, "warning", "a kernel of the program faulted", _SANITIZE),
    31: Xid("program", False, "warning", "the program touched memory that is not its own", _SANITIZE),
    32: Xid("bus", False, "warning", "a command stream arrived damaged", "check the PCIe link and the driver"),
    38: Xid("driver", False, "warning", "the driver's firmware failed", "update the driver where it comes again"),
    43: Xid("program", False, "warning", "the GPU stopped a faulty program", _SANITIZE),
    46: Xid("driver", True, "critical", "the GPU stopped processing", _RESET),
    48: Xid("memory", True, "critical", "memory held an error that could not be corrected", _RESET),
    61: Xid("driver", False, "warning", "an internal microcontroller stopped at a warning", "reset the GPU when idle"),
    62: Xid("driver", True, "critical", "an internal microcontroller halted", _RESET),
    63: Xid("memory", False, "warning", "a bad piece of memory was set aside", "reset the GPU when it is idle"),
    64: Xid("memory", True, "critical", "a bad piece of memory could not be set aside", _RESET),
    69: Xid("program", False, "warning", "the program sent a command that the GPU does not know", _SANITIZE),
    74: Xid("nvlink", True, "critical", "an NVLink failed", "drain the node, reset the GPUs, check bridge or switch"),
    79: Xid("bus", True, "critical", "the GPU has fallen off the bus", _REBOOT),
    92: Xid("memory", False, "warning", "corrected memory errors come often", "watch it; run dcgmi diag -r 3 soon"),
    94: Xid("memory", True, "warning", "a memory error was contained: it ended one program", "reset the GPU when idle"),
    95: Xid("memory", True, "critical", "a memory error could not be contained", _RESET),
    109: Xid("driver", False, "warning", "a program would not leave the GPU in time", _UPDATE),
    119: Xid("driver", True, "critical", "the GPU's own processor (GSP) does not answer", _RESET),
    120: Xid("driver", True, "critical", "the GPU's own processor (GSP) failed", _RESET),
    140: Xid("memory", True, "critical", "memory errors outran the driver", _RESET),
    143: Xid("driver", True, "critical", "the GPU could not be initialised", _RESET),
    145: Xid("nvlink", False, "warning", "an NVLink reported errors", _LINKS),
    149: Xid("nvlink", False, "warning", "an NVLink's network reported errors", _LINKS),
}
#: Codes that only accompany something else: 45 cleans up after a program that ended or another XID, 154 names the
#: recovery that another XID asks for, 171 and 172 tell more of a 48; 106 and 107 are test messages.
SILENT = frozenset({0, 45, 106, 107, 154, 171, 172})


def xid(code: int) -> Xid | None:
    """The entry of ``code``; None for one that says nothing by itself."""
    if code in SILENT:
        return None
    unknown = Xid("driver", False, "warning", "not in this table", "look it up in NVIDIA's list of XIDs")
    return XIDS.get(code, unknown)
