"""What the processors of this node are called.

Rule of this file: standard library; the path is an argument. Arm kernels write no name: None.
"""

from pathlib import Path


def cpu_model(path: Path = Path("/proc/cpuinfo")) -> str | None:
    """The first ``model name`` of /proc/cpuinfo."""
    try:
        with path.open(errors="replace") as lines:
            for line in lines:
                name, _, value = line.partition(":")
                if name.strip() == "model name":
                    return value.strip()
    except OSError:
        return None
    return None
