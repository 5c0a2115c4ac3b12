"""From a number to its reading, by the table of rules.

Rule of this file: pure. A blank, a NaN or what is not measured has no reading; nothing is guessed from its absence.
"""

from collections.abc import Mapping
from typing import NamedTuple

from paceline.gpu.dcgm import FIELDS, measured
from paceline.gpu.link_rates import PCIE_LANE_BYTES_PER_S

from .bands import INF, Band, Tone
from .relations import PROFILES, RELATIONS, Relation
from .rule_table import BANDS, QUOTIENTS

Sample = Mapping[str, float | None]


class Reading(NamedTuple):
    """What one number means. ``value`` is in ``unit``; ``rule`` says from where to where that holds."""

    name: str
    value: float
    unit: str
    word: str
    tone: Tone
    advice: str
    rule: str


class _Named(NamedTuple):
    """A name by which a number may come: its column, or "" for one without, and the factor to the column's unit."""

    column: str
    factor: float
    unit: str
    bands: tuple[Band, ...]


def _names() -> dict[str, _Named]:
    names: dict[str, _Named] = {}
    for field in FIELDS:
        column = field.column or field.name
        bands = BANDS.get(column, ())
        if field.column and field.column not in names:
            names[field.column] = _Named(column, 1.0, field.unit, bands)
        names[field.name] = _Named(column, field.factor, field.unit, bands)
        for alias in field.aliases:
            names[alias.name] = _Named(column, alias.factor, field.unit, bands)
    for quotient in QUOTIENTS:
        names[quotient.name] = _Named(quotient.name, 1.0, "ratio", BANDS[quotient.name])
    return names


NAMES = _names()


def reading(metric: str, value: float | None) -> Reading | None:
    """How to read ``value`` of ``metric``: a DCGM name or alias, in DCGM's unit, or one of our columns, in ours.

    >>> reading("DCGM_FI_DEV_GPU_UTIL", 22).word, reading("utilization_ratio", 0.22).word
    ('under-used', 'under-used')

    Returns:
        None where the value is blank, or where there is no rule for the metric (a clock by itself says nothing).

    Raises:
        KeyError: nobody calls a metric so.
    """
    named = NAMES[metric]
    number = measured(value)
    if number is None or not named.bands:
        return None
    return _read(named.column, number * named.factor, named.unit, named.bands)


def _read(name: str, value: float, unit: str, bands: tuple[Band, ...]) -> Reading:
    low = 0.0
    for band in bands[:-1]:
        if value < band.below:
            break
        low = band.below
    else:
        band = bands[-1]
    return Reading(name, value, unit, band.word, band.tone, band.advice, span(low, band.below, unit))


def span(low: float, high: float, unit: str) -> str:
    """From where to where, in words."""
    scale, sign = (100.0, "%") if unit == "ratio" else (1.0, unit)
    if high == INF:
        return f"{low * scale:g} {sign} and more"
    if low == 0.0:
        return f"under {high * scale:g} {sign}"
    return f"{low * scale:g} to {high * scale:g} {sign}"


def columns(metrics: Sample) -> dict[str, float]:
    """Our columns from metrics under any of their names; what is blank or unknown is left out.

    ``fb_total_bytes`` becomes used + free where both are there: an exporter does not list a total.
    """
    numbers: dict[str, float] = {}
    for name, value in metrics.items():
        named, number = NAMES.get(name), measured(value)
        if number is not None:
            numbers[named.column if named else name] = number * (named.factor if named else 1.0)
    if "fb_used_bytes" in numbers and "fb_free_bytes" in numbers:
        numbers["fb_total_bytes"] = numbers["fb_used_bytes"] + numbers["fb_free_bytes"]
    return numbers | _quotients(numbers)


def _quotients(numbers: Mapping[str, float]) -> dict[str, float]:
    lanes = PCIE_LANE_BYTES_PER_S.get(int(numbers.get("pcie_generation", 0)), 0.0) * numbers.get("pcie_width", 0.0)
    pcie = _most(numbers, "pcie_rx_bytes_per_s", "pcie_tx_bytes_per_s")
    nvlink = _most(numbers, "nvlink_rx_bytes_per_s", "nvlink_tx_bytes_per_s")
    made = {
        "memory_ratio": _share(numbers.get("fb_used_bytes"), numbers.get("fb_total_bytes")),
        "power_ratio": _share(numbers.get("power_w"), numbers.get("power_limit_w")),
        "pcie_ratio": _share(pcie, lanes),
        "nvlink_ratio": _share(nvlink, numbers.get("nvlink_rated_bytes_per_s")),
    }
    return {name: value for name, value in made.items() if value is not None}


def _most(numbers: Mapping[str, float], *names: str) -> float | None:
    return max((numbers[name] for name in names if name in numbers), default=None)


def _share(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def assess(sample: Sample) -> list[Reading]:
    """Everything that the rules say of one GPU's numbers: each number's reading, then the relations that hold.

    ``sample`` is a row of DeviceSamples or the means of a window (our columns), or an exporter's metrics, by any name.
    What is not measured is not spoken of.
    """
    numbers = columns(sample)
    by_column = {named.column: named for named in NAMES.values()}
    said = [
        _read(name, value, by_column[name].unit, by_column[name].bands)
        for name, value in numbers.items()
        if name in by_column and by_column[name].bands
    ]
    return said + [one for relation in RELATIONS if (one := _relation(relation, numbers)) is not None]


def _relation(relation: Relation, numbers: Mapping[str, float]) -> Reading | None:
    terms = relation.terms
    for name, sign, bound in terms:
        value = numbers.get(name)
        if value is None or (value < bound if sign == ">=" else value >= bound):
            return None
    rule = " and ".join(f"{name} {sign} {bound:g}" for name, sign, bound in terms)
    first = terms[0][0]
    return Reading(
        first,
        numbers[first],
        NAMES[first].unit,
        relation.word,
        relation.tone,
        relation.advice,
        rule,
    )


def against(profile: str, sample: Sample) -> list[Reading]:
    """Where ``sample`` lies outside of what a healthy job of kind ``profile`` (``training``, ``inference``) shows.

    Raises:
        KeyError: there is no such profile.
    """
    ranges = {one.name: one.ranges for one in PROFILES}[profile]
    numbers = columns(sample)
    said = []
    for name, (low, high) in ranges.items():
        value = numbers.get(name)
        if value is None or low <= value <= high:
            continue
        word = f"below {profile}'s usual" if value < low else f"above {profile}'s usual"
        usual = span(low, high, NAMES[name].unit)
        said.append(Reading(name, value, NAMES[name].unit, word, "info", "", usual))
    return said


def bound(name: str, word: str) -> float:
    """Where the band ``word`` of ``name`` begins, in our unit: so that a verdict and the table cannot differ.

    >>> bound("memory_ratio", "risk of out-of-memory")
    0.9

    Raises:
        KeyError: there is no such band.
    """
    low = 0.0
    for band in NAMES[name].bands:
        if band.word == word:
            return low
        low = band.below
    raise KeyError(f"no band {word!r} of {name}")
