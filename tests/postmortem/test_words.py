"""Which lines of a log are read whole."""

import pytest

from postmortem.reading.words import WORDS, line_starts


@pytest.mark.parametrize("word", sorted(WORDS))
def test_a_line_with_a_word_is_found_wherever_it_stands(word: str) -> None:
    """At the block's start, in the middle, and at its end without an end of line."""
    line = f"x {word} y".encode()
    assert line_starts(line + b"\nstep 1\n" + line + b"\n" + line, every=False) == [0, len(line) + 8, 2 * len(line) + 9]


def test_a_line_is_found_once_however_many_words_it_has() -> None:
    """Also where they overlap."""
    assert line_starts(b"step\nNCCL error NCCL error, ncclRemoteError\nTraceback (most\n", every=False) == [5, 44]


def test_frequent_words_are_looked_for_where_asked() -> None:
    """As at a log's start."""
    log = b"CUDA out of memory\nstep 1\n"
    assert (line_starts(log, every=True), line_starts(log, every=False)) == ([0], [])


@pytest.mark.parametrize("log", [b"", b"\n\n", b"step 1\nstep 2\n", b"\xff\xfe\x00"])
def test_other_lines_are_not(log: bytes) -> None:
    """Whatever bytes they are."""
    assert line_starts(log, every=True) == []
