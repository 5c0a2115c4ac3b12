"""What should be done about what was found: the suggestion, its gain, its risk, and what came of it."""

from typing import Annotated, Literal

import msgspec

from paceline.events.base import Event, LongWord, Number, Time, Whole, Word
from paceline.events.commands import ACCEPT, DISMISS
from paceline.events.findings import Evidence, Severity

#: What is asked for. A newer version may have more: readers take words that they do not know.
Action = Literal[
    "cordon_node",
    "replace_device",
    "move_job",
    "rebalance",
    "feed_input",
    "give_cpus",
    "overlap_communication",
    "larger_batch",
    "smaller_batch",
    "mixed_precision",
    "consolidate",
    "scale_out",
    "free_devices",
    "start_later",
    "fix_cooling",
    "raise_power_cap",
    "align_configuration",
    "tune_host",
    "inspect_node",
    "measure_node",
    "inspect_job",
    "restart_job",
]
SuggestionState = Literal["new", "accepted", "dismissed", "applied", "verified", "did_not_help", "expired", "withdrawn"]
#: States in which something is still to do or to see, in the order of its life.
OPEN_SUGGESTIONS: tuple[SuggestionState, ...] = ("new", "accepted", "applied")
#: States in which it is over: its effect was measured, or nothing was.
MEASURED_SUGGESTIONS: tuple[SuggestionState, ...] = ("verified", "did_not_help")
UNMEASURED_SUGGESTIONS: tuple[SuggestionState, ...] = ("dismissed", "expired", "withdrawn")
CLOSED_SUGGESTIONS = (*MEASURED_SUGGESTIONS, *UNMEASURED_SUGGESTIONS)
#: Answer -> states in which somebody may give it.
ANSWERABLE: dict[str, tuple[SuggestionState, ...]] = {ACCEPT: ("new",), DISMISS: ("new", "accepted")}
Risk = Literal["low", "medium", "high"]
Id = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]


class Gain(msgspec.Struct, frozen=True, kw_only=True):
    """What it should bring, with an interval: device-hours a day, and the share of a job's throughput.

    None is *not known*. ``money_per_day`` is in ``currency``, where a price is set. ``basis`` says in one sentence how
    the numbers come about.
    """

    gpu_hours_per_day: Number | None = None
    gpu_hours_low: Number | None = None
    gpu_hours_high: Number | None = None
    throughput_ratio: Number | None = None
    throughput_low: Number | None = None
    throughput_high: Number | None = None
    money_per_day: Number | None = None
    currency: str = ""
    basis: str = ""


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured before it was applied, and since: ``name`` in ``unit``, over ``before_s`` and ``after_s``."""

    name: LongWord
    unit: LongWord
    before: Number
    after: Number
    before_s: Number
    after_s: Number


class Suggestion(Event, frozen=True, kw_only=True):
    """Something to do, with what it rests on and what it should bring. Key: id; compacted.

    ``id`` is a function of cluster, action and target, and of when that episode of it began, so that it has the same
    id in every replay; ``revision`` counts 1, 2, … within it. ``target`` is ``node:NAME``, ``device:UUID``,
    ``device:NODE/NAME`` of a GPU without one, ``job:NAME`` or ``cluster:NAME``. ``findings`` are the ids of those
    that it rests on. ``steps`` says what to do, ``apply`` are commands to copy, one a line, ``manifest`` is a text to
    put into a file; each may be empty. ``by`` and ``because`` are of who accepted or dismissed it. ``effect`` is set
    once it was applied and measured.
    """

    id: Id
    revision: Whole
    cluster: LongWord
    action: Action | Word
    target: str
    state: SuggestionState | Word
    severity: Severity | Word
    job: LongWord = ""
    attempt: Whole = 0
    nodes: list[LongWord] = []
    devices: list[LongWord] = []
    ranks: list[Whole] = []
    title: str
    reason: str
    findings: list[str] = []
    evidence: list[Evidence] = []
    gain: Gain = Gain()
    risk: Risk | Word = "low"
    risk_reason: str = ""
    steps: list[str] = []
    apply: list[str] = []
    manifest: str = ""
    created_s: Time
    updated_s: Time
    expires_s: Time
    by: str = ""
    because: str = ""
    effect: Effect | None = None
