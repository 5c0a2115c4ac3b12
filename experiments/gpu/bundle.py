"""What an offline machine's Python lacks, from wheels that were carried there (`make gpu-bundle`).

Rule of this file: nothing is installed and no index is asked. A wheel is an archive: what fits this interpreter is
unpacked into a folder that goes when the suite ends.
"""

import importlib.util
import os
import sys
import zipfile
from pathlib import Path

#: What has to be importable, and the package that brings it.
NEEDED = {
    "kafka": "kafka-python",
    "msgspec": "msgspec",
    "zstandard": "zstandard",
    "psutil": "psutil",
    "pynvml": "nvidia-ml-py",
    "numpy": "numpy",
}


def fits(name: str, python: tuple[int, int]) -> bool:
    """Whether the wheel called ``name`` is for this Python, or for any.

    >>> fits("msgspec-0.20.0-cp312-cp312-manylinux_2_28_x86_64.whl", (3, 12))
    True
    >>> fits("msgspec-0.20.0-cp311-cp311-manylinux_2_28_x86_64.whl", (3, 12))
    False
    >>> fits("psutil-7.0.0-cp36-abi3-manylinux2014_x86_64.whl", (3, 12)), fits("a-1-py3-none-any.whl", (3, 12))
    (True, True)
    """
    interpreter, binary = name.removesuffix(".whl").split("-")[-3:-1]
    return binary in ("none", "abi3") or interpreter == f"cp{python[0]}{python[1]}"


def unpack(wheels: Path, folder: Path) -> None:
    """Put what ``wheels`` holds for this Python where this process and its children find it, after what they have."""
    chosen = [wheel for wheel in sorted(wheels.glob("*.whl")) if fits(wheel.name, sys.version_info[:2])]
    for wheel in chosen:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
    if chosen:
        sys.path.append(str(folder))
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(folder)]))


def missing() -> list[str]:
    """Packages that are neither installed nor carried along."""
    return [package for module, package in NEEDED.items() if importlib.util.find_spec(module) is None]
