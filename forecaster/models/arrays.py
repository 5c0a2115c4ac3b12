"""Named arrays from a file that may come from anywhere: bounded, and without anything that runs.

Rule of this file: what cannot be read is a ``ValueError`` that names the file; it knows nothing of what arrays mean.
"""

from collections.abc import Callable, Mapping
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import IO, Any, TypeVar
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")


def parsed(path: Traversable, most_bytes: int, what: str, parse: Callable[[dict[str, NDArray[Any]]], T]) -> T:
    """What ``parse`` makes of the arrays in an .npz file; it may raise KeyError, TypeError and ValueError.

    Raises:
        OSError: no such file.
        ValueError: as ``read``, or ``parse`` refuses its arrays.
    """
    table = read(path, most_bytes, what)
    try:
        return parse(table)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} holds no {what}: {error}") from error


def write(path: Path, table: Mapping[str, NDArray[Any]]) -> None:
    """Write named arrays as ``read`` reads them, under exactly this name.

    Raises:
        OSError: it cannot be written.
    """
    with path.open("wb") as file:
        np.savez_compressed(file, **table)  # type: ignore[arg-type]


def read(path: Traversable, most_bytes: int, what: str) -> dict[str, NDArray[Any]]:
    """The arrays in an .npz file, which unpacks to no more than ``most_bytes``; ``what`` it should hold, for the error.

    Raises:
        OSError: no such file.
        ValueError: it is no such file, torn, too large, or holds objects.
    """
    with path.open("rb") as file:
        try:
            return _read(file, most_bytes)
        except (ValueError, KeyError, BadZipFile, EOFError, AttributeError, MemoryError, NotImplementedError) as error:
            raise ValueError(f"{path} holds no {what}: {error or 'it is cut off'}") from error


def _read(file: IO[bytes], most_bytes: int) -> dict[str, NDArray[Any]]:
    loaded = np.load(file, allow_pickle=False)
    if not isinstance(loaded, np.lib.npyio.NpzFile):
        raise ValueError("it is one array, not an archive of them")
    with loaded as table:
        size = sum(entry.file_size for entry in table.zip.infolist()) if table.zip else 0
        if size > most_bytes:
            raise ValueError(f"{size} bytes unpacked, larger than {most_bytes}")
        return dict(table)
