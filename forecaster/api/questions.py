"""What may be asked of the stateless routes: strict types, limits, and a reason for whatever is refused."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Self

import msgspec
from fastapi import HTTPException
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, model_validator
from pydantic.types import JsonValue
from pydantic_core import InitErrorDetails, PydanticCustomError

from ..forecast import MODELS
from ..question import ENSEMBLE

#: Values in one question, steps ahead (a day of seconds), quantiles, and questions in one batch.
VALUES, HORIZON, QUANTILES, BATCH = 100_000, 86_400, 99, 1000
#: Bytes of one question, all digits of as many values and timestamps written out: it is parsed in one go.
QUESTION_BYTES = 8 * 1024 * 1024
#: Numbers in the answer to one question: horizon x quantiles.
ANSWER = 1_000_000
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
            name = "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
            where = f"{field}[{place}]" if len(values) > 1 else field
            mend = "; send null for a gap" if field == "values" else ""
            raise refused(where, f"{name} is not a measured number{mend}")


def seconds(times: Sequence[float | str]) -> list[float]:
    """Unix seconds of times given as such or as ISO 8601; without a zone they are UTC.

    Raises:
        PydanticCustomError: one is no time.
    """
    moments_s = []
    for place, value in enumerate(times):
        if isinstance(value, str):
            try:
                moment = datetime.fromisoformat(value)
                value = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
            except (ValueError, OverflowError):
                reason = f"{value!r} is neither Unix seconds nor an ISO 8601 time"
                raise refused(f"timestamps[{place}]", reason) from None
        moments_s.append(float(value))
    return moments_s


class Strict(BaseModel):
    """No value is turned into another type, and no field is ignored."""

    model_config = ConfigDict(strict=True, extra="forbid")

    @classmethod
    def from_json(cls, body: bytes) -> Self:
        """The question in ``body``.

        Raises:
            HTTPException: it is too large.
            ValidationError: it is none.
        """
        if len(body) > QUESTION_BYTES:
            raise HTTPException(413, f"more than {QUESTION_BYTES >> 20} MiB for one question")
        return cls.model_validate_json(body)


class Sampled(Strict):
    """Values at a regular interval, or at times."""

    values: Annotated[list[Number | None], Field(min_length=1, max_length=VALUES)] = Field(
        description="One a sample, oldest first; null for a gap."
    )
    interval_s: Interval | None = Field(None, description="Seconds between two samples; or give `timestamps`.")
    timestamps: Annotated[list[Time], Field(max_length=VALUES)] | None = Field(
        None, description="One a value, ascending: Unix seconds or ISO 8601. Missing ones are gaps."
    )
    _times_s: list[float] = PrivateAttr(default_factory=list)

    @model_validator(mode="after")
    def _sampled(self) -> "Sampled":
        finite("values", self.values)
        if all(value is None for value in self.values):
            raise refused("values", "every one is null: nothing was measured")
        if self.interval_s is None and self.timestamps is None:
            raise refused("interval_s", "give interval_s or timestamps")
        if self.interval_s is not None:
            finite("interval_s", [self.interval_s])
        if self.timestamps is not None:
            if len(self.timestamps) != len(self.values):
                raise refused("timestamps", f"{len(self.timestamps)} for {len(self.values)} values; give one a value")
            finite("timestamps", self.timestamps)
            self._times_s = seconds(self.timestamps)
        return self

    def times_s(self) -> list[float]:
        """The timestamps as Unix seconds."""
        return self._times_s


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
        finite("quantiles", self.quantiles)
        if len(set(self.quantiles)) < len(self.quantiles):
            raise refused("quantiles", "one is given twice")
        if self.horizon * len(self.quantiles) > ANSWER:
            raise refused("horizon", f"times the number of quantiles is more than {ANSWER} numbers")
        if self.model not in MODELS:
            raise refused("model", f"there is none called {self.model!r}; there are {', '.join(MODELS)}")
        return self


class _Parts(msgspec.Struct, forbid_unknown_fields=True):
    """A batch whose questions are not parsed yet."""

    questions: list[msgspec.Raw]


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
            parts = msgspec.json.decode(body, type=_Parts).questions
        except msgspec.MsgspecError:
            return super().from_json(body)  # It knows what is wrong, and where.
        questions: list[ForecastQuestion] = []
        for place, part in enumerate(parts[: BATCH + 1]):
            try:
                questions.append(ForecastQuestion.from_json(bytes(part)))
            except ValidationError as error:
                raise _within(place, error) from error
        return cls(questions=questions)

    @model_validator(mode="after")
    def _bounded(self) -> "BatchQuestion":
        values = sum(len(one.values) for one in self.questions)
        if values > 50 * VALUES:
            raise refused("questions", f"{values} values in all; at most {50 * VALUES} in one batch")
        numbers = sum(one.horizon * len(one.quantiles) for one in self.questions)
        if numbers > 2 * ANSWER:
            raise refused("questions", f"ask for {numbers} numbers in all; at most {2 * ANSWER} in one batch")
        return self
