"""The rules as a page to read: docs/gpu-rules.md is made from the table.

Rule of this file: pure text. What the page says of a rule is what the code does with it. Who fills which column is
told to it, because streams know no collector.
"""

from collections.abc import Iterable, Mapping

from paceline.gpu.dcgm import FIELDS, WRONG_IDS, Field
from paceline.gpu.limits import FP64_BLANK
from paceline.gpu.xids import SILENT, XIDS

from .bands import Band
from .node_config import NodeConfig
from .relations import MULTI_GPU_APART, PROFILES, RELATIONS
from .rule_table import QUOTIENTS
from .rules import NAMES, span

_HEAD = f"""\
# GPU rules: how the numbers of a GPU are read

Made from `dcgm.py` and `xids.py` in `paceline/gpu/`, and `table.py`, `bands.py` and `relations.py` in `streams/nodes/`,
by `make docs`. Names, ids and units are those of NVIDIA's field headers (DCGM 4.6) and dcgm-exporter's
default-counters.csv (May 2026). Many guides repeat wrong ones: `reading(name, value)` and `assess(sample)` in
`streams/nodes/rules.py` accept them and put them right.

- Paceline measures GPUs by NVML or AMD SMI, or reads them from a dcgm-exporter (`paceline collect --dcgm URL`,
  `paceline import dcgm`): the same facts, the same samples. *Fed by* names the source of each rule, if the
  exporter exports it. AMD's GPUs are measured by AMD SMI into the same columns, where it reports them
  ([collectors.md](collectors.md)); XGMI takes NVLink's place.
- A metric that is not exported is *not measured*: it has no reading, and it is never taken for 0.
- Blanks are dropped: DCGM's begin at {FP64_BLANK:.0f} for fractions and at 0x7ffffffffffffff0 for whole numbers.
- The table reads a number. Findings need more: its duration, the job on the GPU, and earlier values
  ([findings.md](findings.md)).
"""


def page(sources: Mapping[str, str]) -> str:
    """The page; ``sources`` says what fills a column of the samples, by column."""
    parts = [_HEAD, "## Metrics\n", _table(("id", "metric", "unit", "exported", "our column", "notes"), _metrics())]
    parts += ["## Other names\n", _table(("name", "real name", "factor to our unit", ""), _aliases())]
    parts += [
        "Ids that guides give to the wrong thing: "
        + ", ".join(f"{wrong} for {what} (it is {right})" for wrong, what, right in WRONG_IDS)
        + ".\n"
    ]
    parts += ["## Readings\n", _table(("number", "range", "reading", "advice", "fed by"), _bands(sources))]
    parts += ["Made of several metrics:\n", _table(("number", "is", "notes"), _quotients())]
    parts += ["## Relations\n", _table(("reading", "holds where", "advice", "fed by"), _relations(sources))]
    parts += ["## Ranges of healthy jobs\n", _table(("job", "number", "from", "to", "fed by"), _profiles(sources))]
    parts += ["For who asks `against(job, sample)` in `streams/nodes/rules.py`; no finding rests on these ranges.\n"]
    parts += [f"The GPUs of one job should be busy within {MULTI_GPU_APART:.0%} of each other.\n"]
    parts += ["## XIDs\n", _table(("XID", "part", "by itself", "meaning", "what to do"), _xids())]
    silent = ", ".join(str(code) for code in sorted(SILENT) if code)
    parts += [f"Silent, because they only accompany others or are tests: {silent}.\n"]
    parts += [
        "## From rules to findings\n",
        _table(("finding", "when", "suspected, confirmed, over after"), _findings()),
    ]
    return "\n".join(parts).rstrip() + "\n"


def _table(head: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _metrics() -> Iterable[tuple[object, ...]]:
    for field in FIELDS:
        yield field.field_id, f"`{field.name}`", _units(field), field.listed, _code(field.column), field.note


def _units(field: Field) -> str:
    if field.dcgm_unit and field.factor != 1.0:
        return f"{field.dcgm_unit}, here {field.unit}"
    return field.dcgm_unit or field.unit


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _aliases() -> Iterable[tuple[object, ...]]:
    for field in FIELDS:
        for alias in field.aliases:
            origin = "in guides; DCGM has no such name" if alias.wrong else "DCGM's own"
            yield f"`{alias.name}`", f"`{field.name}`", f"{alias.factor:g}", origin


def _bands(sources: Mapping[str, str]) -> Iterable[tuple[object, ...]]:
    told: set[str] = set()
    for named in NAMES.values():
        if named.column not in told and named.bands:
            told.add(named.column)
            yield from _rows(named.column, named.unit, named.bands, fed_by((named.column,), sources))


def _rows(name: str, unit: str, bands: tuple[Band, ...], fed: str) -> Iterable[tuple[object, ...]]:
    low = 0.0
    for band in bands:
        word = f"**{band.word}**" if band.tone == "critical" else band.word
        yield f"`{name}`", span(low, band.below, unit), word, band.advice, fed
        low = band.below


def fed_by(names: Iterable[str], sources: Mapping[str, str]) -> str:
    """What feeds a rule over the numbers ``names``: every column that they are made of must be filled.

    >>> fed_by(["power_ratio"], {"power_w": "a", "power_limit_w": "a"}), fed_by(["sm_occupancy_ratio"], {})
    ('a', 'nothing: no source reports `sm_occupancy_ratio`')
    """
    made_of = {quotient.name: quotient.columns for quotient in QUOTIENTS}
    columns = [column for name in names for column in made_of.get(name, (name,))]
    missing = [column for column in columns if column not in sources]
    if not missing:
        return " and ".join(dict.fromkeys(sources[column] for column in columns))
    return f"nothing: no source reports {', '.join(f'`{column}`' for column in missing)}"


def _quotients() -> Iterable[tuple[object, ...]]:
    return ((f"`{one.name}`", one.formula, one.note) for one in QUOTIENTS)


def _relations(sources: Mapping[str, str]) -> Iterable[tuple[object, ...]]:
    for one in RELATIONS:
        terms = " and ".join(f"`{name}` {sign} {bound:g}" for name, sign, bound in one.terms)
        yield one.word, terms, one.advice, fed_by((name for name, _, _ in one.terms), sources)


def _profiles(sources: Mapping[str, str]) -> Iterable[tuple[object, ...]]:
    for profile in PROFILES:
        for name, (low, high) in profile.ranges.items():
            yield profile.name, f"`{name}`", f"{low:g}", f"{high:g}", fed_by((name,), sources)


def _xids() -> Iterable[tuple[object, ...]]:
    for code, entry in XIDS.items():
        alone = "proof" if entry.proof else "the program's own fault as a rule" if entry.part == "program" else "a sign"
        yield code, entry.part, f"{alone}, {entry.severity}", entry.meaning, entry.advice


def _findings() -> Iterable[tuple[object, ...]]:
    config = NodeConfig()
    rows = (
        ("device_fault, cause throttling", f"slowdown by heat or power supply in {config.throttled_share:.0%} of the "
         "samples; the power cap is no fault", config.throttled),
        ("device_fault", "PCIe generation or width below the card's own while at least "
         f"{config.loaded_ratio:.0%} busy", config.link),
        ("device_fault", f"more than {config.replays_per_min:g} PCIe replays a minute", config.replays),
        ("device_fault", f"{config.nvlink_crc_per_s:g} and more damaged transfers a second on NVLinks", config.replays),
        ("idle_device", f"at most {config.idle_ratio:.0%} busy while a job holds the GPU", config.idle),
        ("out_of_memory_risk", f"more than {config.memory_ratio:.0%} used and rising: full within half an hour at the "
         "pace of two minutes, or within six at the pace of half an hour; of a GPU or of the host", config.memory),
        ("load_imbalance", f"GPUs of one job here more than {config.apart_ratio:.0%} apart, means of "
         f"{config.apart_window_s:g} s, beyond their noise", config.apart),
    )  # fmt: skip
    yield (
        "device_fault",
        "an XID; memory errors that rise, pages retired, rows remapped; a replay or recovery of an NVLink; a GPU "
        "that is lost",
        (f"immediately; over after {config.fault_calm_s / 60:g} min of answers without another sign"),
    )
    for kind, when, lasting in rows:
        yield kind, when, f"{lasting.suspect_s:g} s, {lasting.confirm_s:g} s, {lasting.recover_s:g} s"
