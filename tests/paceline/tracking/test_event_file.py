"""Event files: records with their checksums, in a folder of their own; ``make integration-check`` has them read."""

import struct
from pathlib import Path

from paceline.tracking.event_file import EventFile
from paceline.tracking.event_records import crc32c


def records(path: Path) -> list[bytes]:
    """The events of a file, whose checksums must be right."""
    data, found = path.read_bytes(), []
    while data:
        (length,) = struct.unpack_from("<Q", data)
        assert _unmasked(data[8:12]) == crc32c(data[:8])
        event = data[12 : 12 + length]
        assert _unmasked(data[12 + length : 16 + length]) == crc32c(event)
        found.append(event)
        data = data[16 + length :]
    return found


def _unmasked(data: bytes) -> int:
    (masked,) = struct.unpack("<I", data)
    rotated = (masked - 0xA282EAD8) & 0xFFFFFFFF
    return (rotated >> 17 | rotated << 15) & 0xFFFFFFFF


def test_it_lies_below_the_writers_folder_and_begins_with_its_version(tmp_path: Path) -> None:
    """Beside the script's own file TensorBoard would show one of the two."""
    file = EventFile(str(tmp_path / "runs"))
    assert not list(tmp_path.iterdir())
    file.scalars(3, {"paceline/step_s": 0.5})
    file.text(3, "paceline/finding", "rank 1\nis slow")
    file.close()
    (path,) = [found for found in tmp_path.rglob("*") if found.is_file()]
    assert path.parent == tmp_path / "runs" / "paceline"
    assert path.name.startswith("events.out.tfevents.")
    assert path.name.endswith(".paceline")
    version, scalar, text = records(path)
    assert b"brain.Event:2" in version
    assert b"paceline/step_s" in scalar
    assert struct.pack("<f", 0.5) in scalar
    assert b"rank 1  \nis slow" in text


def test_a_folder_that_cannot_be_written_ends_it_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "paceline").write_text("a file")
    file = EventFile(str(tmp_path))
    file.scalars(1, {"a": 1.0})
    file.scalars(2, {"a": 1.0})
    assert file.reason
    assert file.written == 0
