"""What is said of a rank that is slow no longer: the numbers are those of the time when it was."""

import msgspec
import pytest

from paceline.events import OVERLAYS, RankCondition
from paceline.gpu.throttle import HARDWARE_THERMAL
from paceline.sidecar.condition_columns import condition_columns
from tests.streams.job_lines import JobDiagnosis
from tests.timings import listed

replace = msgspec.structs.replace


def found(events):
    """Every revision of what was found."""
    diagnosis = JobDiagnosis()
    return [finding for event in events for finding in diagnosis.update(event) if finding.kind == "straggler"]


def heated(event, until):
    """The GPU of rank 2 is too hot from step 60 until ``until``."""
    hot = 60 <= min(listed(event.step)) < until
    ends_s = event.t0_s + max(listed(event.start_s))
    mask = HARDWARE_THERMAL.bit if hot else 0
    clock = 900.0 if hot else 1980.0
    told = [
        RankCondition(
            rank=rank,
            time_s=ends_s,
            span_s=1.0,
            throttle_reasons=mask if rank == 2 else 0,
            sm_clock_mhz=clock if rank == 2 else 1980.0,
            major_faults=0,
        )
        for rank in listed(event.speakers.ranks)
    ]
    return replace(event, conditions=condition_columns(told, event.t0_s))


def excess(finding):
    """The difference to the peers, and the sum of the parts that are shown of it, both in seconds."""
    by_name = {one.name: one for one in finding.evidence}
    own = by_name["own_time"]
    parts = {name.removeprefix("excess_"): one.value for name, one in by_name.items() if name.startswith("excess_")}
    return own.value - own.peers, sum(value for name, value in parts.items() if name not in OVERLAYS)


@pytest.mark.long
@pytest.mark.parametrize("until", range(90, 150, 10))
def test_parts_and_what_was_cleared_are_those_of_the_slow_time(job, until):
    """However long it was slow: no revision explains the difference by what is left of it, or clears its own cause."""
    events = job(fault={2: {"forward": 0.01, "backward": 0.06}}, when=lambda step: 60 <= step < until, steps=400)
    told = found(heated(event, until) for event in events.batches())
    assert (told[-1].state, told[-1].cause) == ("recovered", "throttling")
    for finding in told:
        difference, parts = excess(finding)
        assert parts == pytest.approx(difference, rel=0.1)
        assert not [one for one in finding.exonerated if one.startswith(finding.cause.replace("_", " "))]
