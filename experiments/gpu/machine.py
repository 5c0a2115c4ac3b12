"""What the suite runs on: asked in a process of its own, so that the runner never touches the device.

Rule of this file: ``python -m experiments.gpu.machine`` prints it as one JSON object.
"""

import json
import subprocess
import sys
from typing import Any

from experiments import machine


def facts() -> dict[str, Any]:
    """This machine, its PyTorch and its GPU; ``device`` is None where PyTorch sees none.

    Raises:
        ModuleNotFoundError: there is no PyTorch.
    """
    import torch

    found = machine.machine() | {"torch": torch.__version__, "cuda": torch.version.cuda, "device": None, "nccl": None}
    if torch.cuda.is_available():
        found |= {"device": torch.cuda.get_device_name(0), "nccl": ".".join(map(str, torch.cuda.nccl.version()))}
    return found


def asked() -> dict[str, Any] | str:
    """``facts``, or why there are none, on one line."""
    done = subprocess.run([sys.executable, "-m", __name__], capture_output=True, text=True, check=False)
    if done.returncode:
        return (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    print(json.dumps(facts()))
