"""A recording reads back as it was written, and a damaged one as far as it goes."""

import gzip
import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline import wire
from paceline.events import JobProfile
from paceline.recording import LONGEST_LINE, Bad, Line, RecordingError, Writer, check_writable, parse, read, render
from paceline.timed_event import TimedEvent
from paceline.topics import PROFILE

SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst")
JSON = st.recursive(st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(), st.lists, max_leaves=5)


def write(path: Path, count: int, *, close: bool = True) -> Writer:
    writer = Writer(str(path))
    for number in range(count):
        writer.write("paceline.op.v2", "job", number, b'{"step":%d}' % number)
    writer.flush()
    if close:
        writer.close()
    return writer


@pytest.mark.long
@settings(deadline=None, max_examples=40)
@given(topic=st.text(), key=st.none() | st.text(), when=st.integers(0, 2**53), value=st.binary())
def test_any_message_survives_the_line(topic: str, key: str | None, when: int, value: bytes) -> None:
    """Bytes that are no JSON too: the line is one line, and gives back the message."""
    raw = render(topic, key, when, value)
    assert raw.count(b"\n") == 1
    found = parse(1, raw)
    assert isinstance(found, Line)
    assert (found.topic, found.key, found.timestamp_ms) == (topic, key, when)
    if not value.strip().startswith((b"{", b"[", b'"')) and b"\n" not in value and b"\r" not in value:
        assert found.value.strip() == value.strip()


@pytest.mark.parametrize("value", [b'{"a": "\xc3\xa9", "b": [1.5e300, null]}', b'{"a":\n 1}', b"\xff\x00", b"", b"nul"])
def test_a_value_is_kept_to_the_byte_but_for_line_ends(value: bytes) -> None:
    """Numbers are not read and written again: 1.5e300 stays as it was spelled."""
    found = parse(1, render("t", None, 0, value))
    assert isinstance(found, Line)
    assert found.value == value.replace(b"\n", b" ")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_reads_back(tmp_path: Path, suffix: str) -> None:
    """Plain or compressed, as the name says."""
    path = tmp_path / f"run{suffix}"
    write(path, 1000)
    found = list(read(str(path)))
    assert [(line.number, line.timestamp_ms) for line in found if isinstance(line, Line)] == [
        (number + 1, number) for number in range(1000)
    ]


def test_an_event_is_written_under_its_own_key(tmp_path: Path) -> None:
    """With its topic, and its time in whole milliseconds: what importers and the simulator make."""
    event = JobProfile(cluster="c", job="j", attempt=0, time_s=1.0)
    writer = Writer(str(tmp_path / "run.jsonl"))
    writer.write_event(TimedEvent(1.5009, PROFILE, event))
    writer.close()
    assert list(read(str(tmp_path / "run.jsonl"))) == [Line(1, PROFILE.name, "j", 1500, wire.encode(event))]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_was_flushed_can_be_read_before_the_end(tmp_path: Path, suffix: str) -> None:
    """A writer that is killed loses no more than what it had not flushed."""
    path = tmp_path / f"run{suffix}"
    writer = write(path, 100, close=False)
    found = [line for line in read(str(path)) if isinstance(line, Line)]
    writer.close()
    assert len(found) == 100


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_torn_file_gives_what_is_whole(tmp_path: Path, suffix: str) -> None:
    """Cut anywhere, it yields messages from the start and at most one complaint, at the end."""
    path = tmp_path / f"run{suffix}"
    write(path, 200)
    whole = path.read_bytes()
    for cut in range(0, len(whole), max(1, len(whole) // 40)):
        path.write_bytes(whole[:cut])
        found = list(read(str(path)))
        assert [line.timestamp_ms for line in found if isinstance(line, Line)] == list(
            range(sum(isinstance(line, Line) for line in found))
        )
        assert all(isinstance(line, Line) for line in found[:-1])


def test_a_torn_last_line_is_named(tmp_path: Path) -> None:
    """With its number, and what it is."""
    path = tmp_path / "run.jsonl"
    write(path, 2)
    path.write_bytes(path.read_bytes()[:-5])
    assert [line.number for line in read(str(path))] == [1, 2]
    last = list(read(str(path)))[-1]
    assert isinstance(last, Bad)
    assert last.reason.startswith("torn last line")


@pytest.mark.parametrize(
    "raw",
    [
        b"not json\n",
        b"[]\n",
        b"null\n",
        b'{"topic": 1, "timestamp_ms": 0}\n',
        b'{"topic": "t"}\n',
        b'{"topic": "t", "timestamp_ms": 0, "value_base64": "!"}\n',
        b"\xff\xfe\n",
        b"[" * 100_000 + b"\n",
        b'{"topic": "t", "timestamp_ms": 0, "value": ' + b"[" * 100_000 + b"\n",
    ],
)
def test_a_hostile_line_is_bad_and_the_next_one_is_read(tmp_path: Path, raw: bytes) -> None:
    """One reason on one line, with the line's number; reading goes on."""
    path = tmp_path / "run.jsonl"
    path.write_bytes(raw + b"\n" + render("t", None, 5, b"{}"))
    bad, good = read(str(path))
    assert isinstance(bad, Bad)
    assert "\n" not in bad.reason
    assert isinstance(good, Line)
    assert (bad.number, good.number) == (1, 3)


@pytest.mark.long
def test_a_line_without_end_is_not_taken_into_memory(tmp_path: Path) -> None:
    """It is bad, and what follows it is read."""
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"x" * (3 * LONGEST_LINE) + b"\n" + render("t", None, 5, b"{}"))
    bad, good = read(str(path))
    assert isinstance(bad, Bad)
    assert isinstance(good, Line)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_last_line_that_is_too_long_and_has_no_newline_is_one_complaint(tmp_path: Path, suffix: str) -> None:
    """Reading ends with the file; what came before is read."""
    path = tmp_path / f"run{suffix}"
    compress: dict[str, Callable[[bytes], bytes]] = {".jsonl.gz": gzip.compress, ".jsonl.zst": zstandard.compress}
    path.write_bytes(compress.get(suffix, bytes)(render("t", None, 5, b"{}") + b"x" * (LONGEST_LINE + 2)))
    good, bad = itertools.islice(read(str(path)), 2)
    assert isinstance(good, Line)
    assert isinstance(bad, Bad)
    assert bad.reason.startswith("longer than")


def test_a_compressed_file_that_is_none_is_one_complaint(tmp_path: Path) -> None:
    """A wrong suffix ends in a reason, not in a trace."""
    for suffix in (".gz", ".zst"):
        path = tmp_path / f"run{suffix}"
        path.write_bytes(b"plain text, not compressed\n")
        (bad,) = read(str(path))
        assert isinstance(bad, Bad)


def test_recordings_can_be_joined(tmp_path: Path) -> None:
    """``cat a.gz b.gz > c.gz`` and the same with .zst read as one."""
    for suffix in SUFFIXES:
        path = tmp_path / f"run{suffix}"
        write(path, 10)
        path.write_bytes(path.read_bytes() * 2)
        assert len(list(read(str(path)))) == 20


def test_a_path_that_cannot_be_opened_is_told_on_one_line(tmp_path: Path) -> None:
    """Missing folder, folder in place of a file, no such file."""
    for action in (check_writable, Writer, lambda path: list(read(path))):
        for path in (tmp_path, tmp_path / "none" / "run.jsonl"):
            with pytest.raises(RecordingError, match=r"cannot (read|write)"):
                action(str(path))


def test_a_full_disk_is_an_os_error_and_the_file_is_closed() -> None:
    """Whoever writes decides what a full disk means."""
    writer = Writer("/dev/full")
    writer.write("t", None, 0, b"{}")
    with pytest.raises(OSError, match="No space"):
        writer.flush()
    with pytest.raises(OSError, match="No space"):
        writer.close()


@pytest.mark.long
@settings(deadline=None, max_examples=40)
@given(values=st.lists(JSON, max_size=10))
def test_compressed_by_hand_reads_too(values: list[object], tmp_path_factory: pytest.TempPathFactory) -> None:
    """The format is plain gzip: any tool may write it."""
    import msgspec

    path = tmp_path_factory.mktemp("recording") / "run.jsonl.gz"
    lines = [{"topic": "t", "key": None, "timestamp_ms": 1, "value": value} for value in values]
    path.write_bytes(gzip.compress(b"\n".join(msgspec.json.encode(line) for line in lines)))
    assert [msgspec.json.decode(line.value) for line in read(str(path)) if isinstance(line, Line)] == values


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_bomb_breaks_off_at_the_bound(tmp_path: Path, suffix: str) -> None:
    """What came before is read; more than is allowed is not unpacked."""
    path = tmp_path / f"run.jsonl{suffix}"
    blank = (b" " * 1023 + b"\n") * 1024
    lines = render("t", None, 0, b"{}") + blank * 64
    packed = gzip.compress(lines) if suffix == ".gz" else zstandard.ZstdCompressor().compress(lines)
    path.write_bytes(packed)
    first, last = read(str(path), most_unpacked=1 << 24)
    assert isinstance(first, Line)
    assert isinstance(last, Bad)
    assert "breaks off here: more than 0.015625 GiB unpacked" in last.reason
    assert [item.number for item in read(str(path))] == [1]
