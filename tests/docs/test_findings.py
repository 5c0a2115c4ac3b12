"""docs/findings.md says of causes, kinds and thresholds what the code has: none more, none less, the same numbers."""

import re
from pathlib import Path
from typing import get_args

import pytest

from paceline.events import PHASES, Finding, FindingKind, FindingState
from paceline.rated_names import BUSY
from postmortem.deciding.verdict import Kind as KindOfFiles
from streams.cluster_ratings import MOST_SPEEDS
from streams.episodes.causes import CAUSES
from streams.jobs.config import JobConfig
from streams.ratings.below import BARS, LEAST_NODES
from streams.ratings.rated_speeds import TURNS

PAGE = (Path(__file__).parent.parent.parent / "docs" / "findings.md").read_text(encoding="utf-8")
CONFIG = JobConfig()
STRUCTURE = CONFIG.structure


def section(title: str) -> str:
    """What stands under a heading of the page."""
    return re.split(r"^## ", PAGE.partition(f"\n## {title}\n")[2], maxsplit=1, flags=re.M)[0]


def table(title: str) -> list[tuple[list[str], str]]:
    """The rows of the one table under a heading: the words in code of the first cell, and the second cell."""
    rows = re.findall(r"^\| (`.*?) \| (.*) \|$", section(title), re.M)
    return [(re.findall(r"`(\w+)`", first), second) for first, second in rows]


def percent(ratio: float) -> str:
    return f"{100 * ratio:g} %"


CAUSE_CELLS = {name: cell for names, cell in table("Cause") for name in names}
KIND_CELLS = {name: cell for names, cell in table("The job as a whole") for name in names}
FILE_CELLS = {name: cell for names, cell in table("From the files of a job") for name in names}


def test_every_cause_is_in_the_table_and_no_other():
    """Once, and in the order in which causes are tried."""
    assert [name for names, _ in table("Cause") for name in names] == list(CAUSES)


@pytest.mark.parametrize("cause", [cause for cause, row in CAUSES.items() if not row.overlay and row.parts])
def test_a_cause_is_told_by_its_phases(cause):
    """A phase that its cell names speaks for it, but for the one that only says when; the loader is ``data``."""
    named = {phase for phase in PHASES if re.search(rf"\b{phase}\b", CAUSE_CELLS[cause])}
    before = {"forward"} if "right before the forward" in CAUSE_CELLS[cause] else set()
    without_words = {"data", "prepare", "other"}
    assert named - before == set(CAUSES[cause].parts) - without_words


def test_only_the_input_is_told_by_whether_there_is_a_loader():
    """Which time is input differs without one; the cell says so."""
    with_loader = {cause for cause, row in CAUSES.items() if set(row.parts) - set(row.speaking(has_loader=True))}
    assert {cause for cause, cell in CAUSE_CELLS.items() if "DataLoader" in cell} == with_loader


def test_a_cause_that_no_phase_tells_is_told_by_something_else():
    """By another cause that the phases do tell, by round trips, or by the kind of the finding."""
    for cause, cell in CAUSE_CELLS.items():
        for other in re.findall(r"as `(\w+)`", cell):
            assert CAUSES[other].parts, f"{cause} is told as {other}"
            assert not CAUSES[cause].parts
    kinds = {word for cell in CAUSE_CELLS.values() for word in re.findall(r"`(\w+)`", cell)} - set(CAUSES)
    assert kinds == {"stage_imbalance", "data_imbalance", "configuration_mismatch"}


def test_the_share_that_a_cause_must_explain_is_the_threshold():
    """Half of the excess."""
    assert "to at least half" in section("Cause")
    assert CONFIG.straggler.cause_share == 0.5


def test_every_kind_of_finding_is_on_the_page():
    """Of the job as a whole in the table, of a node in its section, of a rank where the verdict is reached."""
    coded = {
        title: set(re.findall(r"`(\w+)`", section(title))) & set(get_args(FindingKind))
        for title in ("From rows to a verdict", "Ranks of a balanced job", "Findings of a node")
    }
    assert coded["From rows to a verdict"] == {"straggler"}
    assert coded["Ranks of a balanced job"] == {"out_of_memory", "balanced_straggler", "straggler"}
    assert coded["Findings of a node"] == {
        "device_fault",
        "idle_device",
        "out_of_memory_risk",
        "load_imbalance",
        "below_rating",
    }
    assert set().union(KIND_CELLS, FILE_CELLS, *coded.values()) == set(get_args(FindingKind))
    assert len(KIND_CELLS) == len(table("The job as a whole"))


def test_what_files_show_is_a_kind_of_the_bus():
    """`paceline why` sends no kind that readers of the topic have no words for; its own kinds have their table."""
    assert set(get_args(KindOfFiles)) <= set(get_args(FindingKind))
    assert set(FILE_CELLS) == set(get_args(KindOfFiles)) - {"hang", "device_fault", "insufficient_data"}


@pytest.mark.parametrize(
    ("kind", "numbers"),
    [
        ("stage_imbalance", [percent(STRUCTURE.stages.least_excess), f"at least {STRUCTURE.window_ticks} ticks"]),
        (
            "data_imbalance",
            [
                percent(STRUCTURE.data.least_spread),
                f"{STRUCTURE.data.least_alike:g} or more",
                f"by {percent(STRUCTURE.data.least_lost)} of the step",
            ],
        ),
        ("data_bound", [percent(STRUCTURE.input.least_share)]),
        ("communication_bound", [percent(CONFIG.traffic.least_share)]),
        (
            "slowdown",
            [
                f"newest {CONFIG.pace.ticks} ticks",
                percent(CONFIG.pace.least_slowdown),
                "the newest {} or {}".format(*CONFIG.pace.longer),
            ],
        ),
        ("hang", [f"{CONFIG.hang.least_s:g} s"]),
        ("node_silent", [f"{CONFIG.node_silence.least_s:g} s"]),
        ("insufficient_data", [f"after {CONFIG.silent_steps} steps"]),
    ],
)
def test_a_kind_has_the_threshold_that_the_code_has(kind, numbers):
    """As its default."""
    assert [number for number in numbers if number not in KIND_CELLS[kind]] == []


@pytest.mark.parametrize(
    "words",
    [
        f"takes {LEAST_NODES} nodes",
        f"by {percent(BARS['gemm'])} more (PCIe {percent(BARS['pcie'])}; disk and all-reduce {percent(BARS['disk'])}:",
        f"more than {percent(BUSY)} of the device",
        {3: "three"}[TURNS] + " times in a row",
        f"At most {MOST_SPEEDS:,} speeds",
    ],
)
def test_a_rating_has_the_thresholds_that_the_code_has(words):
    assert words in " ".join(section("Findings of a node").split())
    assert BARS["memory"] == BARS["gemm"]
    assert BARS["disk"] == BARS["all_reduce"]


@pytest.mark.parametrize(
    "words",
    [
        f"for {CONFIG.steps.patience_s:g} s of",
        f"at least {CONFIG.tick_s:g} s together",
        "first {} steps".format({5: "five"}[CONFIG.warmup_steps]),
        f"up to {percent(CONFIG.straggler.least_cpu_wait)} in jobs",
        f"at least {percent(CONFIG.straggler.least_excess)}, and at least `{CONFIG.straggler.sigmas:g} + sqrt",
        f"never below {percent(CONFIG.straggler.floor)}",
        f"in at least {percent(CONFIG.straggler.late_share)} of",
        f"Late over {CONFIG.straggler.suspect_ticks} ticks ({CONFIG.straggler.suspect_long_ticks}, if",
        "Over {}, or less clearly over {} or {}:".format(
            CONFIG.straggler.confirm_ticks, *CONFIG.straggler.longer_looks
        ),
        f"half of the threshold for {CONFIG.straggler.recover_ticks}:",
        f"no new episode for {CONFIG.straggler.cooldown_ticks}.",
        f"at least {percent(CONFIG.links.wait)} of the time",
        f"{1000 * CONFIG.links.rtt_s:g} ms farther",
    ],
)
def test_the_rules_name_the_thresholds_that_the_code_has(words):
    """As their defaults, in the sentence that says what they are for."""
    assert words in " ".join(section("From rows to a verdict").split())


def test_states_and_fields_are_those_of_a_finding():
    """What the page calls a field is one, or one of its cost or coverage."""
    rules = set(re.findall(r"`(\w+)`", section("From rows to a verdict")))
    assert rules >= set(get_args(FindingState))
    paths = re.findall(r"`([a-z_]+(?:\.[a-z_]+)?)`", section("Fields"))
    nested = {"notes": "coverage", "gpu_hours": "cost"}
    for path in paths:
        top, _, inner = path.rpartition(".") if "." in path else (nested.get(path, ""), "", path)
        owner = Finding.__annotations__[top] if top else Finding
        assert inner in owner.__annotations__, path
    assert {"id", "revision", "ranks", "coverage", "evidence", "cost.lost_s"} <= set(paths)
