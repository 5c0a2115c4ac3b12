"""What may be asked of the stateless routes: strict types, limits, and a reason for whatever is refused."""

import math
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Any, ClassVar, Self

import msgspec
import numpy as np
from fastapi import HTTPException
from pydantic import BaseModel, ConfigDict, Field, GetPydanticSchema, ValidationError, model_validator
from pydantic.types import JsonValue
from pydantic_core import InitErrorDetails, PydanticCustomError, core_schema

from paceline.decoders import json_decoder

from ..forecast import MODELS
from ..question import ENSEMBLE
from ..series import Array

#: Values in one question, steps ahead (a day of seconds), quantiles, and questions in one batch.
VALUES, HORIZON, QUANTILES, BATCH = 100_000, 86_400, 99, 1000
#: Values of all questions of a batch, gaps between their times included.
BATCH_VALUES = 50 * VALUES
#: Bytes of one question, all digits of as many values and timestamps written out: it is parsed in one go.
QUESTION_BYTES = 8 * 1024 * 1024
#: Beside its values a question has so many other parts, it opens so many lists and objects, and so much may be wrong
#: with it before the reasons are left out: a reason takes a kilobyte.
OTHER_PARTS, OPENED, PROBLEMS = 1_000, 1_000, 100
#: Objects that one question of a batch may hold; it has none where it is right.
NESTED = 8
#: Numbers in the answer to one question: horizon x quantiles.
ANSWER = 1_000_000
#: So many wrong values are named.
NAMED = 3
SHORTEST_S, LONGEST_S = 1e-3, 604_800.0

#: Any number; ``finite`` refuses what is none, by its name and place.
Number = Annotated[float, Field(strict=True, allow_inf_nan=True)]
Time = Number | Annotated[str, Field(max_length=40)]
Levels = Annotated[list[Annotated[Number, Field(gt=0.0, lt=1.0)]], Field(min_length=1, max_length=QUANTILES)]
Interval = Annotated[Number, Field(ge=SHORTEST_S, le=LONGEST_S, examples=[60.0])]

WAVE: list[JsonValue] = [round(50 + 40 * math.sin(step / 12 * 2 * math.pi) + step % 5, 1) for step in range(72)]


def refused(field: str, reason: str) -> PydanticCustomError:
    """An error that names its field."""
    return PydanticCustomError("refused", "{reason}", {"field": field, "reason": reason})


def finite(field: str, values: Sequence[Any]) -> None:
    """Refuse NaN and infinity by name and place.

    Raises:
        PydanticCustomError: there is one.
    """
    for place, value in enumerate(values):
        if isinstance(value, float) and not math.isfinite(value):
            where = f"{field}[{place}]" if len(values) > 1 else field
            raise refused(where, f"{_name(value)} is not a measured number")


def _name(value: float) -> str:
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def _refused_at(place: int, count: int, reason: str) -> PydanticCustomError:
    """An error that names its place in a list of ``count``; pydantic adds the list's own name."""
    return PydanticCustomError("refused" if count > 1 else "value", "{reason}", {"field": place, "reason": reason})


def _finite(numbers: Sequence[float | str | None], mend: str = "") -> None:
    for place, number in enumerate(numbers):
        if isinstance(number, float) and not math.isfinite(number):
            raise _refused_at(place, len(numbers), f"{_name(number)} is not a measured number{mend}")


def measured(values: list[float | None]) -> Array:
    """``values`` as an array, NaN for gaps: a quarter of what the list takes.

    Raises:
        PydanticCustomError: one is NaN or infinite, or none was measured.
    """
    _finite(values, "; send null for a gap")
    made = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    if np.isnan(made).all():
        raise PydanticCustomError("value", "{reason}", {"reason": "every one is null: nothing was measured"})
    return made


def seconds(times: Sequence[float | str]) -> Array:
    """Unix seconds of times given as such or as ISO 8601; without a zone they are UTC.

    Raises:
        PydanticCustomError: one is no time.
    """
    _finite(times)
    moments_s = np.empty(len(times))
    for place, value in enumerate(times):
        if isinstance(value, str):
            try:
                moment = datetime.fromisoformat(value)
                value = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
            except (ValueError, OverflowError):
                reason = f"{value!r} is neither Unix seconds nor an ISO 8601 time"
                raise _refused_at(place, len(times) + 1, reason) from None
        moments_s[place] = value
    return moments_s


#: A list whose first wrong value refuses it.
Listed = Annotated[list[Number], Field(min_length=1, max_length=VALUES, fail_fast=True)]
ListedGaps = Annotated[list[Number | None], Field(max_length=VALUES, fail_fast=True)]
Values = Annotated[
    Array,
    GetPydanticSchema(
        lambda _, make: core_schema.no_info_after_validator_function(
            measured, make.generate_schema(Annotated[ListedGaps, Field(min_length=1)])
        )
    ),
]
Times = Annotated[
    Array,
    GetPydanticSchema(
        lambda _, make: core_schema.no_info_after_validator_function(
            seconds, make.generate_schema(Annotated[list[Time], Field(max_length=VALUES, fail_fast=True)])
        )
    ),
]


def check_sampling(values: Array, interval_s: float | None, times_s: Array | None) -> None:
    """Refuse values without times, or with too few or too many.

    Raises:
        PydanticCustomError: there is neither interval nor times, or not a time a value.
    """
    if interval_s is None and times_s is None:
        raise refused("interval_s", "give interval_s or timestamps")
    if interval_s is not None:
        finite("interval_s", [interval_s])
    if times_s is not None and len(times_s) != len(values):
        raise refused("timestamps", f"{len(times_s)} for {len(values)} values; give one a value")


def check_range(values: Array, minimum: float | None, maximum: float | None) -> None:
    """Refuse values outside the range that was given with them, naming the first of them.

    Raises:
        PydanticCustomError: there is one.
    """
    for name, bound, side in (("minimum", minimum, "below"), ("maximum", maximum, "above")):
        if bound is not None:
            outside = values[values < bound if side == "below" else values > bound]
            if outside.size:
                named = ", ".join(f"{value:g}" for value in outside[:NAMED]) + (", …" if outside.size > NAMED else "")
                raise refused(name, f"values {side} the {name} that you gave, {bound:g}: {named}")


class Strict(BaseModel):
    """No value is turned into another type, and no field is ignored."""

    model_config = ConfigDict(strict=True, extra="forbid")

    #: How many lists of values it may hold.
    lists: ClassVar[int] = 2

    @classmethod
    def from_json(cls, body: bytes) -> Self:
        """The question in ``body``.

        What it takes while it is parsed is bounded by what is counted before.

        Raises:
            HTTPException: it is too large.
            ValidationError: it is none.
        """
        if len(body) > QUESTION_BYTES:
            raise HTTPException(413, f"more than {QUESTION_BYTES >> 20} MiB for one question")
        if body.count(b",") > cls.lists * VALUES + OTHER_PARTS:
            raise HTTPException(413, f"more than {cls.lists * VALUES:,} values for one question")
        if body.count(b"[") + body.count(b"{") > OPENED:
            raise _too_much(cls, f"holds more than {OPENED:,} lists and objects")
        try:
            return cls.model_validate_json(body)
        except ValidationError as error:
            if error.error_count() <= PROBLEMS:
                raise
            reason = f"{error.error_count():,} values or fields are wrong"
        raise _too_much(cls, reason)


def _too_much(model: type[BaseModel], reason: str) -> ValidationError:
    kind = PydanticCustomError("too_much", "{reason}", {"reason": reason})
    return ValidationError.from_exception_data(model.__name__, [{"type": kind, "loc": (), "input": None}])


class Sampled(Strict):
    """Values at a regular interval, or at times."""

    values: Values = Field(description="One a sample, oldest first; null for a gap.")
    interval_s: Interval | None = Field(None, description="Seconds between two samples; or give `timestamps`.")
    timestamps: Times | None = Field(
        None, description="One a value, ascending: Unix seconds or ISO 8601. Missing ones are gaps."
    )

    @model_validator(mode="after")
    def _sampled(self) -> "Sampled":
        check_sampling(self.values, self.interval_s, self.timestamps)
        return self


class ForecastQuestion(Sampled):
    """A series and how far ahead to look."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"values": WAVE, "interval_s": 300.0, "horizon": 12, "quantiles": [0.1, 0.5, 0.9]}]
        }
    )

    horizon: int = Field(ge=1, le=HORIZON, description="Steps ahead.")
    quantiles: Levels = Field([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9], description="Between 0 and 1.")
    minimum: Number | None = Field(None, description="No answer is below it.")
    maximum: Number | None = Field(None, description="No answer is above it.")
    season_length: int | None = Field(
        None, ge=0, le=VALUES, description="Samples in a season; 0 for none; found from the values where not given."
    )
    model: str = Field(ENSEMBLE, max_length=64, description=f"One of {', '.join(MODELS)}.", examples=[ENSEMBLE])

    @model_validator(mode="after")
    def _sensible(self) -> "ForecastQuestion":
        for name, bound in (("minimum", self.minimum), ("maximum", self.maximum)):
            if bound is not None:
                finite(name, [bound])
        if self.minimum is not None and self.maximum is not None and not self.minimum < self.maximum:
            raise refused("minimum", f"{self.minimum:g} is not below the maximum, {self.maximum:g}")
        check_range(self.values, self.minimum, self.maximum)
        finite("quantiles", self.quantiles)
        if len(set(self.quantiles)) < len(self.quantiles):
            raise refused("quantiles", "one is given twice")
        if self.horizon * len(self.quantiles) > ANSWER:
            raise refused("horizon", f"times the number of quantiles is more than {ANSWER} numbers")
        if self.model not in MODELS:
            raise refused("model", f"there is none called {self.model!r}; there are {', '.join(MODELS)}")
        return self


class _Whole(msgspec.Struct, forbid_unknown_fields=True):
    """A batch whose questions are not parsed yet."""

    questions: msgspec.Raw


_BETWEEN, _END = re.compile(rb"[\s,]*"), re.compile(rb"\}")


def _pieces(array: memoryview) -> Iterator[bytes]:
    """The JSON of each object of ``array``, the JSON of a list, one after the other; ``null`` for the first that is
    none, and no more. As objects of Python's all of them would take ten times as much as the array.

    Raises:
        HTTPException: one is too large.
    """
    at = 1
    while (at := _begin(array, at)) < len(array) - 1:
        if array[at] != ord("{"):
            yield b"null"
            return
        piece = _piece(array, at)
        yield piece
        at += len(piece)


def _begin(array: memoryview, at: int) -> int:
    blank = _BETWEEN.match(array, at)
    return len(array) if blank is None else blank.end()


def _piece(array: memoryview, begin: int) -> bytes:
    """The object that begins there. It ends with the first brace that makes it whole: one may be in a text of it."""
    for brace in islice(_END.finditer(array, begin), NESTED):
        if brace.end() - begin > QUESTION_BYTES:
            raise HTTPException(413, f"more than {QUESTION_BYTES >> 20} MiB for one question")
        piece = bytes(array[begin : brace.end()])
        try:
            json_decoder(msgspec.Raw).decode(piece)
        except msgspec.DecodeError:
            continue
        return piece
    raise HTTPException(422, "a question holds numbers, texts and lists, and no objects")


def _within(place: int, error: ValidationError) -> ValidationError:
    """``error`` of one question of a batch."""
    problems: list[InitErrorDetails] = []
    for one in error.errors(include_url=False):
        context = one.get("ctx") or {}
        kind = PydanticCustomError(one["type"], "{reason}", {"reason": one["msg"], **context})
        problems.append({"type": kind, "loc": ("questions", place, *one["loc"]), "input": None})
    return ValidationError.from_exception_data("BatchQuestion", problems)


class BatchQuestion(Strict):
    """Several forecasts in one request, computed on all processors."""

    questions: Annotated[list[ForecastQuestion], Field(min_length=1, max_length=BATCH)]

    @classmethod
    def from_json(cls, body: bytes) -> Self:
        """As of one question, which are parsed one after the other: others get their turn between two."""
        try:
            array = memoryview(json_decoder(_Whole).decode(body).questions)
        except msgspec.MsgspecError:
            return super().from_json(body)  # It knows what is wrong, and where.
        if array[0] != ord("["):
            return super().from_json(body)
        questions: list[ForecastQuestion] = []
        for place, piece in enumerate(islice(_pieces(array), BATCH + 1)):
            try:
                questions.append(ForecastQuestion.from_json(piece))
            except ValidationError as error:
                raise _within(place, error) from error
        return cls(questions=questions)

    @model_validator(mode="after")
    def _bounded(self) -> "BatchQuestion":
        values = sum(len(one.values) for one in self.questions)
        if values > BATCH_VALUES:
            raise refused("questions", f"{values} values in all; at most {BATCH_VALUES} in one batch")
        numbers = sum(one.horizon * len(one.quantiles) for one in self.questions)
        if numbers > 2 * ANSWER:
            raise refused("questions", f"ask for {numbers} numbers in all; at most {2 * ANSWER} in one batch")
        return self
