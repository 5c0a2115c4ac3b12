"""Text in UTF-16, as a PowerShell writes what it redirects, read as UTF-8.

Rule of this file: by its byte order mark alone; what has none is given as it is.
"""

import codecs
import io
from typing import IO, Any

_BLOCK = 1 << 16


class _AsUtf8(io.RawIOBase):
    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._held = stream.read(2)
        self._decoder = None
        if self._held in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            self._decoder = codecs.getincrementaldecoder("utf-16")("replace")
            self._held = self._decoded(self._held)

    def readable(self) -> bool:
        return True

    def _decoded(self, data: bytes) -> bytes:
        return data if self._decoder is None else self._decoder.decode(data, final=not data).encode()

    def readinto(self, buffer: Any, /) -> int:
        while not self._held:
            data = self._stream.read(_BLOCK)
            self._held = self._decoded(data)
            if not data:
                break
        count = min(len(buffer), len(self._held))
        buffer[:count] = self._held[:count]
        self._held = self._held[count:]
        return count


def as_utf8(stream: IO[bytes]) -> IO[bytes]:
    """What ``stream`` holds from where it is, in UTF-8.

    >>> as_utf8(io.BytesIO("NCCL\\n".encode("utf-16"))).read(), as_utf8(io.BytesIO(b"NCCL")).read()
    (b'NCCL\\n', b'NCCL')
    """
    return io.BufferedReader(_AsUtf8(stream), _BLOCK)
