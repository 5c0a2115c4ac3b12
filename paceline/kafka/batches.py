"""What a broker answers a fetch with: batches of messages, which of them can be read, and where the others end.

Rule of this file: pure, and of no client: both read through it. A batch that cannot be read is passed over with a
reason, and its offsets with it, so that no bytes stop a reader, send it back, or lead it beyond the end. Brokers hand
on what is on their disks as it is, and a checksum covers neither a batch's offset nor its format.
"""

import math
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from paceline.kafka.decompression import UnreadableBatchError

#: The first offset, the one after, and why: of what is passed over.
Tell = Callable[[int, int, str], None]
#: The one format that is read, of 2017; brokers since 4.0 keep no other.
FORMAT = 2
#: First offset, bytes to come, epoch, format, checksum, attributes, last offset's distance, ..., number of records.
_HEADER = struct.Struct(">qiibIhi30xi")
_OFFSET = struct.Struct(">q")
#: What ``bytes to come`` does not count.
_UNCOUNTED = 12


@dataclass(frozen=True)
class Span:
    """A batch's bytes; its offsets, from where the one before ended to before ``after``; why it is not to be read."""

    data: memoryview
    first: int
    after: int
    reason: str = ""


def spans(
    data: bytes | memoryview, position: int, end: int | None, whole: Callable[[memoryview], bool]
) -> Iterator[Span]:
    """The batches of ``data``, the answer to a fetch at ``position`` of a partition that ends at ``end``, if known.

    ``whole`` says whether a batch's checksum fits. Every span ends beyond ``position`` and the spans before it.
    """
    rest, due, most = memoryview(data), position, math.inf if end is None else end
    first_of_answer = True
    while rest:
        head = bytes(rest[: _HEADER.size]).ljust(_HEADER.size, b"\0")
        first, to_come, _, form, _, _, distance, count = _HEADER.unpack(head)
        size, after = _UNCOUNTED + to_come, first + distance + 1
        if size > len(rest) and not first_of_answer:
            return  # The answer was cut off here; what is missing comes with the next.
        if not _HEADER.size <= size <= len(rest):
            yield Span(rest, due, due + 1, f"a batch of {size} bytes, in an answer of {len(rest)}")
            return
        follows: float = _OFFSET.unpack_from(rest, size)[0] if len(rest) >= size + _OFFSET.size else math.inf
        near, counted = due < follows <= most, distance == count - 1
        if first == due or (first_of_answer and first < due):  # A fetch may begin in the middle of a batch.
            credible = after <= most or counted
        else:
            # Compaction leaves gaps. A batch that is beyond the one behind it has a wrong offset, though.
            credible = due < first and after <= (min(most, follows) if near else most)
        placed = credible and max(first, due) < after
        reason = ""
        if form != FORMAT:
            reason = f"a batch of format {form}; {FORMAT} is read"
        elif not placed:
            reason = f"a batch with offsets from {first} to {after - 1}, where {due} was due"
        elif not whole(rest[:size]):
            reason = "a batch whose checksum does not fit"
        if reason:
            # Of what its header says the number of records and the last offset confirm each other.
            after = int(follows) if near else after if placed and counted else due + 1
        yield Span(rest[:size], due, after, reason)
        rest, due, first_of_answer = rest[size:], after, False


@dataclass
class PassedOver:
    """What a client is given for a batch that is not to be read: one of those that it steps over by itself."""

    next_offset: int
    is_control_batch = True
    magic = FORMAT
    leader_epoch = -1

    def validate_crc(self) -> bool:
        """Asked by the clients."""
        return True


class Checked:
    """A client's own batch; where its records are damaged, those before are read, and the rest is reported."""

    def __init__(self, batch: Any, span: Span, end: int | None, tell: Tell) -> None:
        self._batch, self._span, self._end, self._tell = batch, span, end, tell
        self.next_offset = span.after

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def validate_crc(self) -> bool:
        """It was validated before."""
        return True

    def __iter__(self) -> Iterator[Any]:
        due, least = self._span.first, self._batch.base_offset
        try:
            for record in self._batch:
                if not least <= record.offset < self._span.after:
                    raise UnreadableBatchError(f"a record at offset {record.offset}, where {least} was due")
                least = record.offset + 1
                due = max(due, least)
                yield record
        except Exception as error:  # The clients' decoders fail in many ways; none of them may end the reading.
            if self._end is not None and self.next_offset > self._end:
                self.next_offset = due + 1
            known = isinstance(error, UnreadableBatchError)
            self._tell(due, self.next_offset, str(error) if known else f"damaged records: {error}")


def batches(
    data: bytes | memoryview,
    position: int,
    end: int | None,
    decode: Callable[[memoryview], Any],
    tell: Tell,
) -> Iterator[PassedOver | Checked]:
    """What a client is to be given of ``data`` (as in ``spans``); ``decode`` makes its own batch of one's bytes."""
    decoded: list[Any] = []

    def whole(span: memoryview) -> bool:
        decoded[:] = [decode(span)]
        return bool(decoded[0].validate_crc())

    for span in spans(data, position, end, whole):
        if span.reason:
            tell(span.first, span.after, span.reason)
            yield PassedOver(span.after)
        else:
            yield Checked(decoded.pop(), span, end, tell)
