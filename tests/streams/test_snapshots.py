"""Snapshots: what goes in comes out, and what is no snapshot of this layout is refused in words."""

from concurrent.futures import ThreadPoolExecutor

import msgspec
import numpy as np
import pytest
import zstandard

from streams import snapshots
from streams.snapshots import at_once, cutting, pack, unpack

STATE = {
    "zero": 0.0,
    "none": None,
    "nan": float("nan"),
    "nested": {"rows": [[1, "a"], [2, "b"]], "empty": {}},
    "by_rank": [[3, 0.5]],
}


def same(array):
    """The array after a way to bytes and back."""
    return unpack(1, pack(1, {"array": array}))["array"]


def packed(**state):
    """Bytes of a snapshot whose content nobody checked."""
    return zstandard.compress(msgspec.msgpack.encode(state))


def test_plain_data_comes_back():
    """0.0 and None are told apart, and NaN stays."""
    back = unpack(7, pack(7, STATE))
    assert back.pop("layout") == 7
    assert back.pop("nan") != back.get("nan")
    assert back == {name: value for name, value in STATE.items() if name != "nan"}


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.bool_])
@pytest.mark.parametrize("shape", [(0,), (3, 0), (2, 3), ()])
def test_arrays_come_back_with_shape_and_type(dtype, shape):
    """Also empty ones, and they can be written to."""
    array = np.ones(shape, dtype=dtype)
    back = same(array)
    assert (back.dtype, back.shape) == (array.dtype, array.shape)
    assert np.array_equal(back, array)
    assert back.flags.writeable


def test_threads_may_pack_at_the_same_time():
    """What comes out is what one alone makes."""
    states = [
        {"array": np.arange(20_000) * number, "of": {"longlong": np.arange(3, dtype=np.longlong)}}
        for number in range(4)
    ]
    with ThreadPoolExecutor(4) as threads:
        together = list(threads.map(lambda state: [pack(1, state) for _ in range(5)], states))
    assert together == [[pack(1, state)] * 5 for state in states]


@pytest.mark.long
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.bool_])
def test_large_arrays_come_back_among_small_ones(dtype):
    """Also views of larger ones, and none of them twice; what is read back can be written to."""
    table = (np.arange(600_000) % 7).astype(dtype).reshape(2, 3, 100_000)
    state = {"a": table, "small": np.arange(3), "turned": table.T, "rows": [table[:, 1:], {"empty": np.zeros((0, 4))}]}
    back = unpack(1, pack(1, state))
    assert back["a"].dtype == table.dtype
    assert back["a"].flags.writeable
    for came, went in zip(
        (back["a"], back["small"], back["turned"], back["rows"][0], back["rows"][1]["empty"]),
        (table, np.arange(3), table.T, table[:, 1:], np.zeros((0, 4))),
        strict=True,
    ):
        assert np.array_equal(came, went)
        assert came.shape == went.shape


def test_parts_are_asked_for_their_state_when_their_turn_comes():
    """All of a large state at once would hold up all others."""
    asked = []

    def part(name):
        asked.append(name)
        return {"name": name, "rows": [1, 2]}

    steps = cutting(1, {"first": lambda: part("first"), "second": lambda: part("second")})
    seen = []
    while True:
        try:
            next(steps)
            seen.append(len(asked))
        except StopIteration as ended:
            back = unpack(1, ended.value.pack())
            break
    assert sorted(set(seen)) == [0, 1, 2]
    assert back == {"layout": 1, **{name: {"name": name, "rows": [1, 2]} for name in ("first", "second")}}


def test_a_state_that_goes_on_is_packed_as_it_was():
    """What may still be written to is copied; what is read-only is large, and is not."""
    changing, kept, listed = np.zeros(100_000), np.arange(100_000.0), [1]
    kept.flags.writeable = False
    taken = at_once(cutting(1, {"changing": changing, "kept": kept, "listed": listed, "view": kept[::2]}))
    changing += 1.0
    listed.append(2)
    back = unpack(1, taken.pack())
    assert not back["changing"].any()
    assert back["listed"] == [1]
    assert np.array_equal(back["kept"], kept)
    assert np.array_equal(back["view"], kept[::2])
    assert [np.shares_memory(one, of) for one, of in zip(taken.arrays, (changing, kept, kept), strict=True)] == [
        False,
        True,
        True,
    ]


def test_a_view_comes_back_as_what_it_showed():
    """Columns and turned arrays lie otherwise in memory; NaN is kept."""
    table = np.array([[1.0, np.nan], [3.0, 4.0]])
    assert np.array_equal(same(table.T), table.T, equal_nan=True)
    assert same(table[:, 0]).tolist() == [1.0, 3.0]
    assert unpack(1, pack(1, {"value": np.float64(0.5)}))["value"] == 0.5


@pytest.mark.parametrize(
    "value", [np.array(["a"]), np.array([object()]), np.zeros(2, dtype=np.int8), np.ones(2, dtype=">f8"), object()]
)
def test_what_is_no_state_is_refused_when_it_is_packed(value):
    """By its type, before it is stored; bytes in another order would come back as other numbers."""
    with pytest.raises(TypeError, match="is no state"):
        pack(1, {"value": value})


def test_another_layout_is_refused():
    """Older, newer and none."""
    for layout in (1, 3):
        with pytest.raises(ValueError, match=f"layout {layout}, this version reads 2"):
            unpack(2, pack(layout, STATE))
    with pytest.raises(ValueError, match="layout None"):
        unpack(2, packed(value=1))


@pytest.mark.parametrize("data", [b"", b"no snapshot", pack(1, STATE)[:-3], zstandard.compress(b"\xc1")])
def test_damaged_bytes_are_refused(data):
    """Nothing, nonsense, cut short, and well-packed nonsense."""
    with pytest.raises(ValueError, match="not a snapshot"):
        unpack(1, data)


def test_every_bit_that_flips_is_refused_or_read():
    """Never another error than ``ValueError``, whatever a disk did."""
    data = pack(1, {**STATE, "array": np.arange(4.0)})
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 0xFF
        try:
            unpack(1, bytes(damaged))
        except ValueError:
            continue


def test_what_is_no_mapping_is_refused():
    """A list has no layout."""
    with pytest.raises(ValueError, match="no mapping"):
        unpack(1, zstandard.compress(msgspec.msgpack.encode([1, 2])))


def test_an_unknown_extension_is_refused():
    """Nothing but arrays is read."""
    with pytest.raises(ValueError, match="unknown extension 9"):
        unpack(1, packed(layout=1, value=msgspec.msgpack.Ext(9, b"")))


@pytest.mark.parametrize(
    "body",
    [
        [[2], "f8", b"\0" * 8],
        [[2], "O8", b"\0" * 16],
        [["a"], "i8", b""],
        [[1], "f8", 3],
        7,
        [],
    ],
)
def test_an_array_that_does_not_fit_its_bytes_is_refused(body):
    """Wrong length, a type that could run code, a shape that cannot be."""
    array = msgspec.msgpack.Ext(1, msgspec.msgpack.encode(body))
    with pytest.raises(ValueError, match=r"."):
        unpack(1, packed(layout=1, value=array))


@pytest.mark.parametrize("shape", [[-1], [-1, 4], [2, -2], [2**63], [2**62, 2**62], [0, 2**63]], ids=repr)
def test_an_array_of_a_shape_that_none_has_is_refused(shape):
    """To numpy -1 means whatever fits, and a length beyond 64 bits is another error."""
    array = msgspec.msgpack.Ext(1, msgspec.msgpack.encode([shape, "f8", bytes(32)]))
    with pytest.raises(ValueError, match=r"."):
        unpack(1, packed(layout=1, value=array))


@pytest.mark.parametrize("one", [b"\x91", b"\x81\xa1a"], ids=["lists", "mappings"])
def test_deep_nesting_is_refused(one):
    """A kilobyte of lists in lists is no reason to end."""
    data = zstandard.compress(b"\x82\xa6layout\x01\xa1v" + one * 100_000 + b"\x01")
    with pytest.raises(ValueError, match="not a snapshot"):
        unpack(1, data)


@pytest.mark.parametrize("told", [True, False])
def test_what_unpacks_to_more_than_is_allowed_is_refused(monkeypatch, told):
    """A small message may not fill the memory, whether or not it tells its size."""
    monkeypatch.setattr(snapshots, "MOST_BYTES", 1000)
    large = msgspec.msgpack.encode({"layout": 1, "value": "a" * 5000})
    data = zstandard.ZstdCompressor(write_content_size=told).compress(large)
    with pytest.raises(ValueError, match="not a snapshot"):
        unpack(1, data)
    assert unpack(1, pack(1, {"value": "a" * 900}))["value"] == "a" * 900
