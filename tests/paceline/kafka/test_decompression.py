"""A batch unpacks to so much and no more, whatever is in it."""

import gzip
from collections.abc import Callable

import pytest
import zstandard

from paceline.kafka.decompression import UnreadableBatchError, gunzip, refuse, unzstd

CODECS = pytest.mark.parametrize(
    ("pack", "unpack"), [(gzip.compress, gunzip), (zstandard.compress, unzstd)], ids=["gzip", "zstd"]
)
Pack = Callable[[bytes], bytes]
Unpack = Callable[..., bytes]


@CODECS
def test_what_fits_comes_whole(pack: Pack, unpack: Unpack):
    """To the byte; several streams behind each other are one."""
    assert unpack(memoryview(pack(b"x" * 1000)), 1000) == b"x" * 1000
    assert unpack(pack(b"one, ") + pack(b"two"), 8) == b"one, two"


@CODECS
def test_more_than_the_bound_is_refused(pack: Pack, unpack: Unpack):
    """One byte is too much, in one stream or in the second."""
    for packed in (pack(b"x" * 1001), pack(b"x" * 999) + pack(b"xx")):
        with pytest.raises(UnreadableBatchError, match="when unpacked"):
            unpack(packed, 1000)


@CODECS
def test_nonsense_is_refused(pack: Pack, unpack: Unpack):
    """No such format."""
    with pytest.raises(UnreadableBatchError):
        unpack(b"nonsense")


def test_gzip_that_ends_too_early_is_refused():
    """Half a message is none."""
    with pytest.raises(UnreadableBatchError, match="too early"):
        gunzip(gzip.compress(b"x" * 1000)[:-9])


def test_a_codec_without_a_bound_is_refused():
    """And the line says which are read."""
    with pytest.raises(UnreadableBatchError, match="gzip and zstd"):
        refuse(b"")
