"""Starts the ranks of a script so that they share one import of PyTorch: by ``forked_ranks.py``; they meet over TCP."""

from pathlib import Path
from typing import NamedTuple

SCRIPT = Path(__file__).parent / "forked_ranks.py"


class Forking(NamedTuple):
    """In place of torchrun where it does not matter who starts ranks: what Python is to run, and its environment.

    The script and its arguments follow. It fails if a rank does.
    """

    command: tuple[str, ...]
    environ: dict[str, str]
    folder: Path

    def said(self) -> str:
        """What the ranks have printed."""
        return "\n".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("stderr-*")))


def forking(world: int, folder: Path, port: int) -> Forking:
    """For ``world`` ranks that meet at ``port`` of this machine."""
    environ = {"WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    return Forking((str(SCRIPT), str(world), str(folder)), environ, folder)
