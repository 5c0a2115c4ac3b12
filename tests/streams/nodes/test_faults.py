"""Faults of a GPU: XIDs, memory errors, a GPU that is gone."""

import pytest

from streams.nodes.node_config import NodeConfig


def at(second, value, before=0, gpu=0):
    """A column that is ``value`` from ``second`` on, on one GPU."""
    return lambda number, place: value if number >= second and place == gpu else before


def once(second, value, gpu=0):
    """A column that is ``value`` in one second alone."""
    return lambda number, place: value if number == second and place == gpu else 0


@pytest.mark.parametrize("code", [48, 64, 74, 79, 95, 119])
def test_a_fatal_xid_is_told_at_once(make_node, judge, code):
    """A code that proves a fault is confirmed with the row it comes in, with rank, job and what to do."""
    found = judge(make_node(30, xid=once(20, code)))

    assert [(one.kind, one.state, one.severity) for one in found] == [("device_fault", "confirmed", "critical")]
    assert (found[0].ranks, found[0].job, found[0].devices, found[0].nodes) == ([0], "job", ["GPU-0"], ["node-0"])
    assert f"XID {code}" in found[0].summary


@pytest.mark.parametrize("code", [13, 31, 43])
def test_a_programs_own_fault_clears_the_gpu(make_node, judge, code):
    """A code that programs cause is suspected only, says so, and never becomes the GPU's fault."""
    found = judge(make_node(200, xid=lambda second, gpu: code if second % 20 == 10 and gpu == 0 else 0))

    assert {one.state for one in found} == {"suspected"}
    assert found[0].exonerated[0].startswith("the GPU:")


@pytest.mark.parametrize("code", [45, 106, 107, 154, 171, 172])
def test_what_only_accompanies_is_no_fault(make_node, judge, code):
    """XID 45 follows every program that ends badly, 154 says what another asks for: nothing by themselves."""
    assert judge(make_node(30, xid=once(20, code))) == []


def test_an_unknown_code_is_told_and_not_guessed(make_node, judge):
    """A code that the table does not have is suspected, with the place to look it up."""
    found = judge(make_node(30, xid=once(20, 9999)))

    assert [(one.state, one.severity) for one in found] == [("suspected", "warning")]


def test_a_source_that_repeats_the_last_xid_counts_it_once(make_node, judge):
    """dcgm-exporter shows the last XID for ever: one episode, one revision."""
    assert len(judge(make_node(300, xid=at(20, 79)))) == 1


def test_signs_of_one_incident_are_one_episode(make_node, judge):
    """An XID, the count of errors and the remapped row that follow from one incident share an id."""
    found = judge(make_node(60, xid=once(20, 48), ecc_uncorrected=at(21, 1), remapped_rows=at(22, 1)))

    assert len({one.id for one in found}) == 1
    assert [one.revision for one in found] == [1, 2, 3]
    assert {item.name for item in found[-1].evidence} == {"xid_48", "ecc_uncorrected", "remapped_rows", "lasted"}


@pytest.mark.parametrize(
    ("count", "errors"),
    [(1, "1 memory error that could not be corrected,"), (3, "3 memory errors that could not be corrected,")],
)
def test_an_uncorrected_error_is_critical(make_node, judge, count, errors):
    """A count that rises while it is watched is proof."""
    found = judge(make_node(30, ecc_uncorrected=at(20, count)))

    assert [(one.state, one.severity) for one in found] == [("confirmed", "critical")]
    assert errors in found[0].summary


def test_an_uncorrected_error_of_before_is_suspected(make_node, judge):
    """What was counted before anybody watched is told once, as what it is."""
    found = judge(make_node(300, ecc_uncorrected=at(0, 3)))

    assert [(one.state, one.severity) for one in found] == [("suspected", "warning")]
    assert "before it was watched" in found[0].summary


def test_one_corrected_error_is_nothing_and_rising_ones_are_watched(make_node, judge):
    """Memory corrects itself; only a count that goes on rising is worth a word, and no more than a word."""
    assert judge(make_node(60, ecc_corrected=at(20, 1))) == []
    found = judge(make_node(100, ecc_corrected=lambda second, gpu: second // 30 if gpu == 0 else 0))

    assert [(one.state, one.severity) for one in found] == [("suspected", "info")]


@pytest.mark.parametrize("column", ["ecc_corrected", "ecc_uncorrected", "retired_pages", "remapped_rows"])
def test_a_counter_that_is_reset_or_not_read_is_no_fault(make_node, judge, column):
    """A driver that is loaded anew counts from 0, and a reading may be missing: neither is an error."""
    values = [5, None, 5, 2, None, 2, 0, 0]

    found = judge(make_node(8, **{column: lambda second, gpu: values[second]}))
    assert [one for one in found if one.state == "confirmed"] == []
    assert column == "ecc_uncorrected" or found == []


def test_a_collector_that_restarts_is_no_fault(make_node, judge):
    """The same counts from another producer, numbered from 0 again, change nothing."""
    import msgspec

    first = make_node(30, ecc_corrected=7, remapped_rows=2, pcie_replays=1000)
    second = [
        msgspec.structs.replace(event, producer="again", t0_s=event.t0_s + 40)
        for event in make_node(30, ecc_corrected=7, remapped_rows=2, pcie_replays=1000)
    ]

    assert judge([*first, *second]) == []


def test_absurd_counts_accuse_nobody(make_node, judge):
    """Blanks and leaps that no counter makes are not counted."""
    values = [1, 2**53, 2**60, -5, 1]

    assert (
        judge(make_node(5, ecc_corrected=lambda s, g: values[s], remapped_rows=lambda s, g: values[s], xid=None)) == []
    )


@pytest.mark.long
def test_a_fault_is_over_when_the_gpu_has_long_been_quiet(make_node, judge, tell):
    """Ten minutes of answers without another sign end the episode, under the same id."""
    found = judge(make_node(int(NodeConfig().fault_calm_s) + 40, xid=once(20, 79), utilization_ratio=0.9))

    assert tell(found) == [("device_fault", "confirmed", ("GPU-0",)), ("device_fault", "recovered", ("GPU-0",))]
    assert len({one.id for one in found}) == 1
    assert found[-1].severity == "info"


@pytest.mark.long
def test_a_lost_gpu_is_told_and_does_not_recover_by_silence(make_node, judge):
    """A GPU that answers nothing, because it is lost, is a fault for as long as that lasts."""
    lost = {"power_w[0]": "GPU is lost", "utilization_ratio[0]": "GPU is lost"}
    busy = lambda second, gpu: None if gpu == 0 and second >= 20 else 0.9  # noqa: E731
    found = judge(
        make_node(900, utilization_ratio=busy, not_measured=lambda second: lost if second >= 20 else {}, xid=None)
    )

    assert found[0].state == "confirmed"
    assert {one.state for one in found} == {"confirmed"}
    assert {tuple(one.devices) for one in found} == {("GPU-0",)}


def test_a_gpu_that_did_not_come_back_is_named_by_the_inventory(make_node, make_description, judge):
    """A collector that starts after a GPU was lost does not list it; its index leads to its name."""
    events = make_node(30, gpus=1, utilization_ratio=0.9, not_measured={"device[1]": "GPU is lost"})
    found = judge([make_description(gpus=2), *events])

    assert {(*one.devices, one.state, one.id) for one in found} == {("GPU-1", "confirmed", found[0].id)}


def test_a_gpu_of_no_job_has_no_job(make_node, judge):
    """A fault of a GPU that nobody uses names no job and no rank."""
    found = judge(make_node(30, job=None, xid=once(20, 79)))

    assert (found[0].job, found[0].attempt, found[0].ranks, found[0].devices) == ("", 0, [], ["GPU-0"])


def test_the_next_job_is_told_of_the_fault(make_node, judge, tell):
    """When another job gets a faulty GPU, the first one's episode ends and the other's begins."""
    found = judge(make_node(60, job=lambda second: "a" if second < 40 else "b", xid=once(20, 79)))

    assert [(one.job, one.state) for one in found] == [("a", "confirmed"), ("a", "recovered"), ("b", "confirmed")]


@pytest.mark.long
def test_rows_one_by_one_say_the_same(make_node, judge, cut):
    """Findings do not depend on how rows were put into messages."""
    events = make_node(200, xid=once(20, 79), throttle_reasons=0x40, utilization_ratio=lambda s, g: 0.3 + 0.5 * g)

    assert judge(cut(events)) == judge(events)


@pytest.mark.parametrize(("count", "errors"), [(1, "1 error of its links"), (2, "2 errors of its links")])
def test_one_recovery_of_a_link_is_a_fault(make_node, judge, count, errors):
    """DCGM's health check takes a single replay or recovery as a failure; a count that was there before is none."""
    found = judge(make_node(30, nvlink_errors=lambda s, g: 7 + count * (g == 1 and s >= 10)))

    assert [(one.kind, one.state, one.devices) for one in found] == [("device_fault", "confirmed", ["GPU-1"])]
    assert (found[0].evidence[0].name, found[0].evidence[0].value) == ("nvlink_errors", float(count))
    assert f": {errors} to other GPUs" in found[0].summary


def test_counters_of_links_that_a_reload_reset_are_no_fault(make_node, judge):
    """Lower than before: counting begins anew."""
    assert judge(make_node(30, nvlink_errors=lambda s, g: 0 if s >= 10 else 9)) == []
