"""Compressed files: known by name or first bytes, bounded, and cut ones give what comes before the cut."""

import gzip
import io
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from paceline.unpacking import DamagedError, TooLargeError, opened, unpacked

TEXT = b"".join(b"line %d of %d\n" % (number, random.Random(number).getrandbits(64)) for number in range(20_000))
PACK: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}


def given(path: Path) -> io.BufferedReader:
    return io.BufferedReader(io.FileIO(path))


@pytest.mark.long
@pytest.mark.parametrize("suffix", PACK)
def test_what_is_named_so_is_unpacked(tmp_path: Path, suffix: str):
    path = tmp_path / f"job.log{suffix}"
    path.write_bytes(PACK[suffix](TEXT))
    with opened(str(path), len(TEXT)) as stream:
        assert stream.read() == TEXT


@pytest.mark.long
@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize("named", [True, False], ids=["named", "unnamed"])
def test_what_may_have_any_name_is_known_by_its_first_bytes(tmp_path: Path, suffix: str, named: bool):
    path = tmp_path / f"job.log{suffix if named else ''}"
    path.write_bytes(PACK[suffix](TEXT))
    with unpacked(given(path), str(path), len(TEXT), pytest.fail) as stream:
        assert stream.read() == TEXT


@pytest.mark.long
@pytest.mark.parametrize("suffix", PACK)
def test_parts_that_follow_each_other_are_one_file(tmp_path: Path, suffix: str):
    """As a log that was appended to after it had been packed."""
    path = tmp_path / f"job.log{suffix}"
    path.write_bytes(PACK[suffix](TEXT[:1000]) + PACK[suffix](TEXT[1000:]))
    with opened(str(path), len(TEXT)) as stream:
        assert stream.read() == TEXT


@pytest.mark.parametrize("data", [b"", b"\x1f", b"plain text\n"])
def test_what_is_not_compressed_is_read_as_it_is(tmp_path: Path, data: bytes):
    path = tmp_path / "job.log"
    path.write_bytes(data)
    with opened(str(path), 1) as stream:
        assert stream.read() == data
    with unpacked(given(path), str(path), 1, pytest.fail) as stream:
        assert stream.read() == data


@pytest.mark.parametrize("suffix", PACK)
def test_more_than_the_bound_is_an_error_that_names_the_option(tmp_path: Path, suffix: str):
    path = tmp_path / f"job.log{suffix}"
    path.write_bytes(PACK[suffix](bytes(1 << 20)))
    with opened(str(path), 1 << 20) as stream:
        assert len(stream.read()) == 1 << 20
    with opened(str(path), (1 << 20) - 1) as stream, pytest.raises(TooLargeError, match="--most-unpacked"):
        stream.read()


@pytest.mark.long
@pytest.mark.parametrize("suffix", PACK)
@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: data[:10] + b"\xff" * 200 + data[210:],
        lambda data: b"no archive",
    ],
    ids=["overwritten", "other"],
)
def test_damage_is_one_error_whatever_the_codec_raises(tmp_path: Path, suffix: str, spoil: Callable[[bytes], bytes]):
    path = tmp_path / f"job.log{suffix}"
    path.write_bytes(spoil(PACK[suffix](TEXT)))
    with opened(str(path), 1 << 30) as stream, pytest.raises(DamagedError, match="damaged"):
        stream.read()


@pytest.mark.long
def test_a_cut_archive_is_an_error_unless_it_is_forgiven(tmp_path: Path):
    """Then all that comes before the cut is read, to the last byte, and the error is handed over once."""
    path, packed = tmp_path / "job.log.gz", gzip.compress(TEXT)
    path.write_bytes(packed[: len(packed) // 2])
    with opened(str(path), 1 << 30) as stream, pytest.raises(DamagedError, match="no end"):
        stream.read()
    errors: list[OSError] = []
    with unpacked(given(path), str(path), 1 << 30, errors.append) as stream:
        read = b"".join(iter(lambda: stream.read(1 << 16), b""))
        assert stream.read(1) == b""
    assert TEXT.startswith(read)
    assert len(read) > len(TEXT) // 3
    (error,) = errors
    assert "no end" in str(error)


def test_a_bomb_that_is_forgiven_ends_at_the_bound(tmp_path: Path):
    path = tmp_path / "job.log.gz"
    path.write_bytes(gzip.compress(bytes(1 << 20)))
    errors: list[OSError] = []
    with unpacked(given(path), str(path), 1 << 18, errors.append) as stream:
        assert len(stream.read()) <= 1 << 18
    assert isinstance(errors[0], TooLargeError)


def test_a_pipe_is_unpacked_though_it_cannot_be_sought():
    reading, writing = os.pipe()
    with open(writing, "wb") as out:
        out.write(gzip.compress(b"short\n"))
    with unpacked(io.BufferedReader(io.FileIO(reading)), "standard input", 100, pytest.fail) as stream:
        assert not stream.seekable()
        assert stream.read() == b"short\n"


@pytest.mark.long
def test_closing_closes_the_file(tmp_path: Path):
    path = tmp_path / "job.log"
    for packed in (TEXT, gzip.compress(TEXT), zstandard.compress(TEXT)):
        path.write_bytes(packed)
        raw = given(path)
        unpacked(raw, str(path), 1 << 30, pytest.fail).close()
        assert raw.closed


def test_without_zstandard_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "run.zst"
    path.write_bytes(zstandard.compress(b"a"))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(OSError, match="pip install zstandard"):
        opened(str(path), 100)
