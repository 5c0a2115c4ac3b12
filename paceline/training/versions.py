"""Which versions a rank runs on, as far as asking costs nothing: PyTorch's, and with CUDA those of it, NCCL and driver.

Rule of this file: CUDA is never initialised for it, and nothing here raises.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

#: Where Linux tells the version of NVIDIA's kernel driver, also inside a container.
DRIVER = Path("/sys/module/nvidia/version")
LONGEST = 200


def versions_of(torch: Any, driver: Path = DRIVER) -> dict[str, str]:
    """By the names of facts that ranks tell; what is not there is left out.

    Args:
        torch: the module; None where nobody has imported it.
        driver: the file that tells the driver's version.
    """
    if torch is None:
        return {}
    version = getattr(torch, "version", None)
    cuda, hip = getattr(version, "cuda", None), getattr(version, "hip", None)
    found = {"pytorch_version": getattr(torch, "__version__", None), "cuda_version": cuda or hip}
    if cuda:
        found |= {"nccl_version": _nccl(torch), "driver_version": _text(driver)}
    return {name: str(word).strip()[:LONGEST] for name, word in found.items() if word}


def _nccl(torch: Any) -> str:
    """As NCCL itself writes it: 2.21.5."""
    try:
        told = torch.cuda.nccl.version()
    except Exception:  # Not built in, or a build of somebody's own that tells otherwise: then nothing is told.
        return ""
    numbers = told[:3] if isinstance(told, tuple) else ()
    return ".".join(str(number) for number in numbers) if all(isinstance(one, int) for one in numbers) else ""


def _text(path: Path) -> str:
    try:
        with path.open(encoding="ascii", errors="replace") as file:
            return file.read(LONGEST)
    except OSError:
        return ""
