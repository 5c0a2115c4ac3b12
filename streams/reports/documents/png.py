"""A picture of pixels as a PNG, for pictures of more cells than SVG should hold.

Rule of this file: pure; https://www.w3.org/TR/png-3/, eight bits a channel with transparency, no filter.
"""

import base64
import struct
import zlib
from typing import Any

import numpy as np


def data_uri(pixels: np.ndarray[Any, np.dtype[np.uint8]]) -> str:
    """``pixels`` (rows x columns x red, green, blue, alpha) as an address that needs no file."""
    rows, columns, _ = pixels.shape
    header = struct.pack(">2I5B", columns, rows, 8, 6, 0, 0, 0)
    plain = np.zeros((rows, 1 + 4 * columns), dtype=np.uint8)
    plain[:, 1:] = pixels.reshape(rows, 4 * columns)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(plain.tobytes(), 9)), (b"IEND", b""))
    png = b"\x89PNG\r\n\x1a\n" + b"".join(map(_chunk, chunks))
    return "data:image/png;base64," + base64.b64encode(png).decode()


def _chunk(chunk: tuple[bytes, bytes]) -> bytes:
    kind, content = chunk
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
