"""One node, samples in and findings out: the order they come in, clocks that jump, what is kept and what is bounded."""

import msgspec
import pytest

from streams.nodes.node_config import MOST_DEVICES, NodeConfig
from streams.nodes.node_diagnosis import NodeDiagnosis
from streams.snapshots import pack, unpack

replace = msgspec.structs.replace
HOT = {"throttle_reasons": 0x40}
LOST = "GPU is lost"


def without_rows(event, producer="other"):
    """A message of that kind that measured nothing."""
    lists = {name: [] for name, value in msgspec.structs.asdict(event).items() if isinstance(value, list)}
    return replace(event, producer=producer, **(lists | ({"uuids": event.uuids} if hasattr(event, "uuids") else {})))


def filling(second):
    """A host's memory that rises by 64 MiB a second, from 92 % of 256 GiB on."""
    return int(0.92 * 256 * 2**30) + 64 * 2**20 * second


def rated(diagnosis):
    """The PCIe width that each GPU is known to be rated at."""
    return {uuid: one.pcie_width for uuid, one in diagnosis.rated.items()}


# --- events ----------------------------------------------------------------------------------------------------------


def test_before_anything_lasted_there_is_nothing_to_say(make_node, make_host, make_description, judge):
    """The inventory says nothing by itself, and a first sample is no look."""
    assert judge([make_description(), make_node(1, **HOT)[0], make_host(1, used=filling)[0]]) == []


def test_messages_without_rows_are_no_news(make_node, make_host, judge):
    """Of GPUs and of the host, before all others and among them: nothing is told twice or lost."""
    for events in (make_node(150, **HOT), make_host(200, used=filling)):
        empty = [replace(without_rows(events[0]), sequence=number) for number in range(3)]
        assert judge([empty[0], *events[:50], empty[1], *events[50:], empty[2]]) == judge(events)
        assert judge(events)


@pytest.mark.long
def test_gpus_and_host_may_come_in_any_order(make_node, make_host, judge):
    """Two topics, whose order nobody promises: what is said of the one does not depend on the other."""
    gpus, host = make_node(200, **HOT), make_host(200, used=filling)
    apart = judge(gpus) + judge(host)
    assert {one.kind for one in apart} == {"device_fault", "out_of_memory_risk"}
    mixed = judge([event for pair in zip(gpus, host, strict=True) for event in pair])
    # Whose memory it is, is known from the GPUs alone.
    assert [one for one in mixed if one.kind == "device_fault"] == judge(gpus)
    told = [one for one in mixed if one.kind == "out_of_memory_risk"]
    assert [(one.state, one.evidence) for one in told] == [(one.state, one.evidence) for one in judge(host)]
    assert {one.job for one in told} == {"job"}


@pytest.mark.long
def test_a_message_that_comes_twice_counts_once(make_node, make_host, judge):
    """On each of the two topics; one that was overtaken is dropped, and the finding says that it is missing."""
    for events in (make_node(150, **HOT), make_host(200, used=filling)):
        assert judge([event for event in events for _ in range(2)]) == judge(events)
        swapped = [*events[:5], events[6], events[5], *events[7:]]
        assert {one.coverage.events_missing for one in judge(swapped)} == {1}
        assert {one.coverage.events_missing for one in judge(events)} == {0}


def test_the_same_numbers_on_the_other_topic_are_no_repetition(make_node, make_host, judge):
    """One collector numbers its GPUs and its host apart."""
    diagnosis = NodeDiagnosis()
    judge(make_node(30), diagnosis)
    assert judge(make_host(200, used=filling), diagnosis)
    assert diagnosis.host_roster.missing == diagnosis.roster.missing == 0


def test_two_collectors_may_each_tell_of_a_gpu(make_node, judge):
    """Each of its own GPUs, a message a second: each GPU is told as if it were alone."""
    events = make_node(150, **HOT)
    halves = [
        [
            replace(
                event,
                producer=f"of {gpu}",
                uuids=[event.uuids[gpu]],
                processes=[replace(one, device=0) for one in event.processes if one.device == gpu],
                **{name: getattr(event, name)[gpu : gpu + 1] for name in ("time_s", "throttle_reasons")},
                **{name: [None] for name, value in columns(event) if value == [None, None]},
                device=[0],
            )
            for event in events
        ]
        for gpu in (0, 1)
    ]
    together = judge([event for pair in zip(*halves, strict=True) for event in pair])
    assert [(one.id, one.revision, one.state, one.summary) for one in together] == [
        (one.id, one.revision, one.state, one.summary) for one in judge(events)
    ]


def columns(event):
    """The lists of a message by name."""
    return [(name, value) for name, value in msgspec.structs.asdict(event).items() if isinstance(value, list)]


# --- looks and clocks ------------------------------------------------------------------------------------------------


def looks(make_node, judge, times_s):
    """Whether each sample at these seconds begins a look of its own."""
    diagnosis, begins = NodeDiagnosis(), []
    (event,) = make_node(1, gpus=1, utilization_ratio=0.5)
    for number, at_s in enumerate(times_s):
        judge([replace(event, sequence=number, t0_s=at_s, time_s=[0.0])], diagnosis)
        begins.append(diagnosis.open["GPU-0"].rows == 1)
    return begins


@pytest.mark.parametrize(
    ("times_s", "begins"),
    [
        ([1000.0, 1004.999], [True, False]),
        ([1000.0, 1005.0], [True, True]),
        ([1007.0, 1003.0, 1008.0], [True, False, False]),
        ([1010.0, 1004.0], [True, True]),
        ([1000.0, 90_000.0, 1000.0], [True, True, True]),
    ],
)
def test_a_look_is_cut_by_the_node_s_clock_alone(make_node, judge, times_s, begins):
    """Every five seconds; a sample that was overtaken still counts, and a clock set back further closes the look."""
    assert looks(make_node, judge, times_s) == begins


@pytest.mark.long
@pytest.mark.parametrize("jump_s", [-86_400.0, -300.0, 300.0, 86_400.0])
def test_a_clock_that_jumps_begins_to_count_again(make_node, judge, jump_s):
    """By minutes or a day, to either side: what was before says nothing of what is now, and nothing raises."""
    events = make_node(100, **HOT)
    jumped = [replace(event, t0_s=event.t0_s + jump_s * (number >= 60)) for number, event in enumerate(events)]
    assert [one.state for one in judge(events)][:2] == ["suspected"] * 2
    assert {one.state for one in judge(jumped)} == {"suspected"}
    longer = [
        replace(event, t0_s=event.t0_s + jump_s * (number >= 60)) for number, event in enumerate(make_node(190, **HOT))
    ]
    late = [one for one in judge(longer) if one.state == "confirmed"]
    assert {one.devices[0] for one in late} == {"GPU-0", "GPU-1"}
    assert len(judge(longer[:170])) < len(judge(longer))


def test_a_host_is_read_once_a_look_and_what_cannot_be_is_not_read(make_host, judge):
    """More used than there is, a total of nothing, and what was not measured."""
    events = make_host(200, used=filling)
    odd = [
        replace(events[0], producer="odd", sequence=number, t0_s=events[0].t0_s + 2 * number, **{name: [value]})
        for number, (name, value) in enumerate(
            [
                *(("memory_used_bytes", value) for value in (None, 2**40, -1)),
                *(("memory_total_bytes", value) for value in (None, 0)),
            ]
        )
    ]
    assert judge([*odd, *events]) == judge(events)
    diagnosis = NodeDiagnosis()
    judge(events[:60], diagnosis)
    assert len(diagnosis.host_trend.points[0]) == 12


def test_swap_is_told_where_the_memory_fills(make_host, judge):
    """As one more number; none of it is no number."""
    for swap, names in ((0, set()), (None, set()), (2**30, {"swap_used"})):
        found = judge(make_host(200, used=filling, swap=swap))
        assert {one.name for one in found[-1].evidence} - {"memory_used", "full_in", "lasted"} == names


# --- GPUs that are gone ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "why", "devices"),
    [
        ("device[1]", LOST, {("GPU-1",)}),
        ("device[1]", "GPU needs a reset, says the driver", {("GPU-1",)}),
        ("device[5]", LOST, {("GPU 5",)}),
        ("device[1]", "no permission", set()),
        ("device", LOST, set()),
        ("device[x]", LOST, set()),
        ("device[-1]", LOST, set()),
    ],
)
def test_a_gpu_that_the_driver_lost_is_told_by_the_inventory_s_name(
    make_node, make_description, judge, key, why, devices
):
    """By its index where the inventory names none; of GPUs that answer, and for other reasons, nothing is told."""
    events = make_node(10, gpus=1, utilization_ratio=0.5, not_measured={key: why})
    assert {tuple(one.devices) for one in judge([make_description(), *events])} == devices


def test_gpus_that_are_gone_are_told_in_one_order(make_node, make_description, judge):
    """By name, whichever order the process happens to keep them in: a replay gives the same."""
    gone = {f"device[{number}]": LOST for number in range(1, 9)}
    events = make_node(1, gpus=1, utilization_ratio=0.5, not_measured=gone)
    told = [one.devices[0] for one in judge([make_description(gpus=9), *events])]
    assert told == [f"GPU-{number}" for number in range(1, 9)]


@pytest.mark.parametrize("known", [True, False])
def test_gpus_of_which_none_sends_rows_are_told(make_node, make_description, judge, known):
    """A collector that starts when all are lost says that alone: told at the first message, one finding each."""
    gone = {f"device[{number}]": LOST for number in range(2)}
    silent = [replace(event, uuids=[]) for event in map(without_rows, make_node(30, not_measured=gone))]
    found = judge([*([make_description()] if known else []), *silent])
    name = "GPU-{}" if known else "GPU {}"
    assert {(*one.devices, one.state) for one in found} == {(name.format(gpu), "confirmed") for gpu in range(2)}
    assert len({one.id for one in found}) == 2
    assert len(judge(silent[:1])) == 2


def test_gpus_that_are_gone_are_not_told_at_an_impossible_time(make_node, make_description, judge):
    """As rows are not."""
    (event,) = make_node(1, not_measured={"device[0]": LOST})
    assert judge([make_description(), replace(without_rows(event), uuids=[], t0_s=2e11)]) == []


def test_a_gpu_keeps_its_name_in_an_inventory_that_lacks_it(make_node, make_description, judge):
    """A collector that starts when a GPU is lost lists the others alone; one in its place has its own name."""
    diagnosis = NodeDiagnosis()
    first, second = make_description().devices
    judge([make_description(), replace(make_description(), devices=[first])], diagnosis)
    assert diagnosis.indices == {0: "GPU-0", 1: "GPU-1"}
    judge([replace(make_description(), devices=[replace(second, index=0)])], diagnosis)
    assert diagnosis.indices == {0: "GPU-1"}
    other = [replace(first, index=number, uuid=f"other {number}") for number in range(100, 100 + MOST_DEVICES)]
    judge([replace(make_description(), devices=other)], diagnosis)
    assert len(diagnosis.indices) == MOST_DEVICES


def test_all_that_do_not_answer_are_lost_where_the_reason_is_of_all(make_node, judge):
    """One reason for a whole column holds for every GPU; of those that answer nothing is told."""
    silent = make_node(5, not_measured={"power_w": LOST})
    assert {tuple(one.devices) for one in judge(silent)} == {("GPU-0",), ("GPU-1",)}
    assert judge(make_node(5, power_w=100.0, not_measured={"utilization_ratio": LOST})) == []


# --- inventory, bounds and jobs --------------------------------------------------------------------------------------


def test_the_newest_inventory_counts(make_description, judge):
    """A card that was replaced is rated anew; more GPUs than a node can have are not believed."""
    diagnosis = NodeDiagnosis()
    judge([make_description(pcie_width_max=8), make_description(gpus=1, pcie_width_max=16)], diagnosis)
    assert rated(diagnosis) == {"GPU-0": 16, "GPU-1": 8}
    assert diagnosis.indices == {0: "GPU-0", 1: "GPU-1"}
    judge([make_description(gpus=MOST_DEVICES + 9)], diagnosis)
    assert len(diagnosis.indices) == len(diagnosis.rated) == MOST_DEVICES


def test_a_link_is_judged_by_what_the_inventory_says(make_node, make_description, judge):
    """Half of the lanes while it works; without an inventory nobody knows."""
    events = make_node(150, utilization_ratio=0.9, pcie_width=8)
    assert judge(events) == []
    found = judge([make_description(pcie_width_max=16), *events])
    assert {one.kind for one in found} == {"device_fault"}
    assert {one.peers for one in found[-1].evidence if one.name == "pcie_width"} == {16.0}


def test_gpus_beyond_the_bound_are_noted(make_node, judge):
    """What is found of the others says so, and how many are seen."""
    found = judge(make_node(2, gpus=MOST_DEVICES + 1, job=None, xid=lambda second, gpu: 79 if gpu == 0 else 0))
    beyond, seen = found[0].coverage.notes
    assert beyond == "GPUs beyond the limit: 1"
    assert seen == f"of this node alone: {MOST_DEVICES} GPUs seen"


def renamed(event, after, **changes):
    """That message from ``after`` seconds later, of GPUs with other names."""
    uuids = [f"later-{after}-{uuid}" for uuid in event.uuids]
    return replace(event, sequence=event.sequence + after, t0_s=event.t0_s + after, uuids=uuids, **changes)


def test_gpus_that_are_gone_for_hours_make_room_for_others(make_node, judge):
    """MIG instances have new names each time they are made; what was found of the old ones ends, and says why."""
    event = make_node(1, gpus=MOST_DEVICES, xid=lambda second, gpu: 79 if gpu == 3 else 0)[0]
    diagnosis = NodeDiagnosis()
    judge([event], diagnosis)
    held = set(diagnosis.gpus)
    soon, late = int(diagnosis.config.gone_s), int(diagnosis.config.gone_s) + 10
    judge([renamed(event, soon)], diagnosis)
    assert set(diagnosis.gpus) == held
    fresh = renamed(event, late)
    found = judge([fresh], diagnosis)
    assert set(diagnosis.gpus) == set(fresh.uuids)
    ended = [one for one in found if one.state == "recovered"]
    assert [tuple(one.devices) for one in ended] == [("GPU-3",)]
    assert "over, it is sampled no more" in ended[0].summary
    assert [tuple(one.devices) for one in found if one.state == "confirmed"] == [(fresh.uuids[3],)]


def test_of_gpus_that_were_made_anew_over_and_over_a_bounded_number_is_kept(make_node, make_description, judge):
    """Their names, their rated links and who used them; the job that is there is still known."""
    diagnosis = NodeDiagnosis()
    event, described = make_node(1, gpus=MOST_DEVICES // 2, utilization_ratio=0.9)[0], make_description()
    for times in range(1, 7):
        fresh = renamed(event, times * (int(diagnosis.config.gone_s) + 10))
        devices = [replace(described.devices[0], uuid=uuid, index=index) for index, uuid in enumerate(fresh.uuids)]
        judge([replace(described, devices=devices), fresh], diagnosis)
        assert set(fresh.uuids) <= set(diagnosis.gpus) & set(diagnosis.rated) & set(diagnosis.owners.tenants)
        assert set(diagnosis.owners.jobs()["job"]) >= set(fresh.uuids)
    assert len(diagnosis.gpus) == len(diagnosis.rated) == MOST_DEVICES
    assert len(diagnosis.owners.tenants) <= 2 * MOST_DEVICES
    kept = diagnosis.snapshot()
    assert NodeDiagnosis.restore(kept).snapshot() == kept


def test_the_ranks_that_count_are_those_of_the_job_on_this_node(make_node, judge):
    """All of them are seen through their GPUs; of nobody's GPU no rank is expected."""
    found = judge(make_node(5, gpus=3, xid=lambda second, gpu: 79 if gpu == 0 else 0))
    assert {(one.coverage.ranks_expected, one.coverage.ranks_heard) for one in found} == {(3, 3)}
    alone = judge(make_node(5, gpus=3, job=None, xid=lambda second, gpu: 79 if gpu == 0 else 0))
    assert {(one.coverage.ranks_expected, one.coverage.ranks_heard) for one in alone} == {(0, 0)}


def test_uneven_gpus_are_told_until_the_job_has_left(make_node, judge):
    """Then its episode ends and says why, and nothing of it is kept."""
    events = make_node(300, utilization_ratio=lambda s, gpu: 0.9 - 0.3 * gpu, job=lambda s: "a" if s < 200 else "b")
    diagnosis = NodeDiagnosis()
    found = [one for one in judge(events, diagnosis) if one.kind == "load_imbalance"]
    ended = [one for one in found if one.state == "recovered"]
    assert [(one.job, one.ranks, one.devices) for one in ended] == [("a", [], ["GPU-1", "GPU-0"])]
    assert "over, a has left" in ended[0].summary
    assert ended[0].cost.gpu_hours > 0
    assert list(diagnosis.balances) == ["b"]


def test_a_single_gpu_is_not_uneven(make_node, judge):
    """Nor are two of which one is not measured."""
    assert judge(make_node(300, gpus=1, utilization_ratio=0.9)) == []
    assert judge(make_node(300, utilization_ratio=lambda second, gpu: 0.9 if gpu == 0 else None)) == []


# --- state -----------------------------------------------------------------------------------------------------------


def eventful(make_node, make_host, make_description):
    """A node on which everything happens: heat, uneven GPUs, a host that fills up, a job that goes for a while."""
    gpus = make_node(
        220,
        throttle_reasons=lambda second, gpu: 0x40 if gpu == 0 else 0,
        utilization_ratio=lambda second, gpu: 0.9 - 0.3 * gpu,
        xid=lambda second, gpu: 79 if (second, gpu) == (100, 1) else 0,
        job=lambda second: None if second >= 195 else "job",
    )
    host = make_host(220, used=filling)
    return [make_description(pcie_width_max=16), *(event for pair in zip(gpus, host, strict=True) for event in pair)]


@pytest.mark.slow
@pytest.mark.parametrize("every", [1, 37])
def test_restored_it_goes_on_as_if_nothing_had_happened(make_node, make_host, make_description, judge, every):
    """Through bytes, within a look as between two."""
    events, diagnosis, found = eventful(make_node, make_host, make_description), NodeDiagnosis(), []
    for number, event in enumerate(events):
        found += diagnosis.update(event)
        if number % every == 0:
            diagnosis = NodeDiagnosis.restore(diagnosis.snapshot())
    assert found == judge(events)
    assert {one.kind for one in found} == {"device_fault", "load_imbalance", "out_of_memory_risk"}


def test_every_part_of_the_state_is_read_back(make_node, make_host, make_description, judge):
    """Stored again it is the same, to a byte; none of its parts is empty but what would be odd."""
    diagnosis, empty = NodeDiagnosis(), unpack(NodeDiagnosis.layout, NodeDiagnosis().snapshot())
    judge(eventful(make_node, make_host, make_description), diagnosis)
    data = diagnosis.snapshot()
    parts = unpack(NodeDiagnosis.layout, data)
    assert [name for name, part in parts.items() if part == empty[name]] == ["layout", "coverage", "host_coverage"]
    assert NodeDiagnosis.restore(data).snapshot() == data


def test_the_config_is_whose_it_is_that_restores(make_node, judge):
    """Thresholds are no part of the state."""
    diagnosis = NodeDiagnosis()
    judge(make_node(20, **HOT), diagnosis)
    lax = NodeConfig(throttled_share=2.0)
    again = NodeDiagnosis.restore(diagnosis.snapshot(), lax)
    assert again.config == lax
    assert judge(make_node(200, **HOT)[20:], again) == []
    assert judge(make_node(200, **HOT)[20:], NodeDiagnosis.restore(diagnosis.snapshot()))


@pytest.mark.parametrize("layout", [0, 1, NodeDiagnosis.layout - 1, None, str(NodeDiagnosis.layout)])
def test_the_state_of_another_version_is_refused(layout):
    """Older, newer, none, or a word."""
    state = unpack(NodeDiagnosis.layout, NodeDiagnosis().snapshot())
    del state["layout"]
    with pytest.raises(ValueError, match=f"layout {layout!r}, this version reads {NodeDiagnosis.layout}"):
        NodeDiagnosis.restore(pack(layout, state))


@pytest.mark.parametrize(("key", "devices"), [("power_w[1]", {("GPU-1",)}), ("power_w[2]", {("GPU 2",)})])
def test_without_an_inventory_a_lost_gpu_is_named_as_the_samples_name_it(make_node, judge, key, devices):
    """By its place among them; beyond those, by its number."""
    events = make_node(5, utilization_ratio=lambda s, gpu: None if gpu else 0.5, not_measured={key: LOST})
    assert {tuple(one.devices) for one in judge(events)} == devices


def test_without_an_inventory_gpus_are_counted_past_those_that_did_not_open(make_node, judge):
    """The driver's number of a GPU is no place among those that answer."""
    gone = {"device[0]": "no permission", "device[2]": "no permission", "power_w[3]": LOST}
    answers = lambda second, gpu: None if gpu else 0.5  # noqa: E731
    found = judge(make_node(5, utilization_ratio=answers, not_measured=gone))
    assert {tuple(one.devices) for one in found} == {("GPU-1",)}
    assert judge(make_node(5, utilization_ratio=answers, not_measured=gone | {"power_w[3]": "no permission"})) == []


def test_swap_is_told_in_gib(make_host, judge):
    """With the rule that used it."""
    found = judge(make_host(200, used=filling, swap=3 * 2**30))
    assert {(one.value, one.unit, one.rule) for one in found[-1].evidence if one.name == "swap_used"} == {
        (3.0, "GiB", "swapped out meanwhile")
    }
