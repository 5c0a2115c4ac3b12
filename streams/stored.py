"""State that is stored: a class declares it as typed attributes, and has both ways of it, to plain data and back.

Rule of this file: what is read back is checked against its type, so a damaged state is refused and not half taken.
Arrays are taken as they are: a snapshot holds them in their own types (``snapshots.py``).
"""

from collections import Counter, OrderedDict, deque
from typing import Annotated, Any, ClassVar, Self, TypeVar, get_args, get_origin, get_type_hints

import msgspec
import numpy as np

from paceline.decoders import convert
from paceline.sequences import Sequences

from .snapshots import described, pack, unpack

T = TypeVar("T")
_MARK = "kept"
#: The type of an attribute that is stored; others are worked out again, or come from whoever makes the object.
Kept = Annotated[T, _MARK]


class Stored:
    """Has ``state`` and ``load`` of the attributes that its class declares as ``Kept``.

    An attribute that is itself ``Stored``, or a list of such, is loaded in place: it knows what is no state of it.

    >>> class Seen(Stored):
    ...     steps: Kept[dict[int, int]]
    ...     last_s: Kept[float | None]
    ...
    ...     def __init__(self):
    ...         self.steps, self.last_s = {}, None
    >>> seen, again = Seen(), Seen()
    >>> seen.steps[3] = 2
    >>> again.load(seen.state())
    >>> again.steps
    {3: 2}
    >>> again.load({"steps": {3: "two"}, "last_s": None})
    Traceback (most recent call last):
    ValueError: not a snapshot: steps: Expected `int`, got `str` - at `$[...]`
    """

    _kept: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        hints = get_type_hints(cls, include_extras=True)
        kept = {name: kind for name, kind in hints.items() if _MARK in getattr(kind, "__metadata__", ())}
        cls._kept = {name: get_args(kind)[0] for name, kind in kept.items()}

    def state(self) -> dict[str, Any]:
        """The state as plain data and arrays, as it is: who changes it later packs it first."""
        return {name: _plain(getattr(self, name)) for name in self._kept}

    def load(self, data: dict[str, Any]) -> None:
        """Take the state that ``state`` described.

        Raises:
            ValueError: a part of ``data`` is of another type.
            KeyError: a part is missing.
        """
        for name, kind in self._kept.items():
            held = getattr(self, name)
            if isinstance(held, Stored | Sequences):
                held.load(data[name])
            elif isinstance(held, list) and held and isinstance(held[0], Stored):
                if len(data[name]) != len(held):
                    raise ValueError(f"not a snapshot: {name}: {len(data[name])} in place of {len(held)}")
                for one, told in zip(held, data[name], strict=True):
                    one.load(told)
            else:
                setattr(self, name, self._typed(name, data[name], kind))
        self.loaded()

    def loaded(self) -> None:
        """The state was loaded: work out again what follows from it."""

    def element(self, kind: type["Stored"], data: dict[str, Any]) -> "Stored":
        """One of a dict of ``kind``, made for its state ``data``, which is loaded next."""
        return kind()

    def _typed(self, name: str, told: Any, kind: Any) -> Any:
        try:
            return convert(told, kind, dec_hook=self._other)
        except msgspec.ValidationError as error:
            raise ValueError(f"not a snapshot: {name}: {error}") from error

    def _other(self, kind: Any, told: Any) -> Any:
        """What msgspec has no types of."""
        made, inner = get_origin(kind) or kind, get_args(kind)
        if made is np.ndarray:
            if not isinstance(told, np.ndarray):
                raise ValueError(f"Expected `array`, got `{type(told).__name__}`")
            return told
        if made is OrderedDict:
            return OrderedDict(convert(told, dict[inner[0], inner[1]], dec_hook=self._other))  # type: ignore[valid-type]
        if made is Counter:
            return Counter(convert(told, dict[inner[0], int]))  # type: ignore[valid-type]
        if made is deque:
            return deque(convert(told, list[inner], dec_hook=self._other))  # type: ignore[valid-type]
        if isinstance(made, type) and issubclass(made, Stored):
            state = self.element(made, told)
            state.load(told)
            return state
        raise TypeError(f"{kind} is no type of a state")


class StoredDecision(Stored):
    """A decision whose whole state is declared: has ``snapshot`` and ``restore`` of it."""

    #: Version of the state; another one is not read.
    layout: ClassVar[int] = 1

    def snapshot(self) -> bytes:
        """The whole state, compressed."""
        return pack(self.layout, self.state())

    @classmethod
    def restore(cls, data: bytes, *options: Any) -> Self:
        """The decision that ``snapshot`` described.

        Args:
            data: what ``snapshot`` gave.
            options: what it is made with, where it takes something.

        Raises:
            ValueError: ``data`` is no snapshot of this version.
        """
        state, made = unpack(cls.layout, data), cls(*options)
        with described():
            made.load(state)
        return made


def _plain(value: Any) -> Any:
    if isinstance(value, Stored | Sequences):
        return value.state()
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, deque):
        return list(value)
    # All values of one are of one type: to look at each of a hundred thousand ranks takes milliseconds.
    if isinstance(value, dict) and isinstance(next(iter(value.values()), None), Stored | set):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], Stored):
        return [_plain(one) for one in value]
    return value
