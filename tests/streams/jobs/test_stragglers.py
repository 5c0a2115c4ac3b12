"""One trouble is one finding: of the largest unit most of whose ranks are late, on made-up jobs of known truth."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest

from paceline.events import Finding
from simulator.fault import parse
from simulator.job import Job
from simulator.spec import Spec
from streams.processor import Processor
from streams.routes import ROUTES
from tests.streams.job_lines import JobDiagnosis
from tests.timings import listed

SLOW = {"forward": 0.03, "backward": 0.06}


def judge(batches: Iterable[Any], diagnosis: JobDiagnosis | None = None) -> list[Any]:
    diagnosis = diagnosis or JobDiagnosis()
    return [finding for batch in batches for finding in diagnosis.update(batch)]


def late(ranks: Iterable[int], **more: float) -> dict[int, dict[str, float]]:
    return dict.fromkeys(ranks, more or SLOW)


def open_at_the_end(findings: Iterable[Any]) -> list[Any]:
    """The last word on each episode that is not over."""
    last = {finding.id: finding for finding in findings}
    return [finding for finding in last.values() if finding.state != "recovered"]


@pytest.mark.long
@pytest.mark.parametrize(("ranks", "nodes"), [(4, 2), (16, 2), (24, 3), (32, 4)])
def test_a_slow_node_is_one_finding_with_its_ranks(job: Callable[..., Any], ranks: int, nodes: int) -> None:
    """Also where it holds half of the job, so that every second rank is late."""
    each = ranks // nodes
    mine = list(range(each, 2 * each))
    findings = judge(job(ranks=ranks, nodes=nodes, fault=late(mine)).batches())
    assert "confirmed" in [finding.state for finding in findings[:2]]
    assert findings[0].last_step <= 90
    assert len({finding.id for finding in findings}) == 1
    for finding in findings:
        assert (finding.kind, finding.nodes, finding.ranks) == ("straggler", ["node-1"], mine)
        assert finding.cause == "worker_compute"
        assert 57 <= finding.first_step <= 62
    assert findings[-1].summary.startswith(f"Node node-1 (ranks {each}-{2 * each - 1}) works ")


@pytest.mark.long
@pytest.mark.parametrize(
    ("more", "cause"),
    [
        ({"data": 0.05}, "input_pipeline"),
        ({"gc": 0.05}, "garbage_collection"),
        ({"cpu_wait": 0.08}, "cpu_contention"),
    ],
)
def test_its_cause_is_what_its_ranks_have_in_common(
    job: Callable[..., Any], more: dict[str, float], cause: str
) -> None:
    """As of a rank: what the excess consists of."""
    findings = judge(job(ranks=16, nodes=2, fault=late(range(8), **more)).batches())
    assert {(finding.cause, *finding.nodes) for finding in findings} == {(cause, "node-0")}


@pytest.mark.slow
def test_what_it_costs_is_counted_once(job: Callable[..., Any]) -> None:
    """As much as one rank that is as slow would cost."""
    node = judge(job(ranks=32, nodes=4, fault=late(range(8, 16))).batches())[-1]
    rank = judge(job(ranks=32, nodes=4, fault=late([8])).batches())[-1]
    assert node.cost.lost_s == pytest.approx(rank.cost.lost_s, rel=0.1)


@pytest.mark.long
def test_a_job_on_one_node_never_accuses_the_node(job: Callable[..., Any]) -> None:
    """Its slow ranks are findings of their own, and where all are slow there is nobody to be late behind."""
    findings = judge(job(ranks=8, nodes=1, fault=late([1, 2, 3])).batches())
    assert {tuple(finding.ranks) for finding in findings} == {(1,), (2,), (3,)}
    alike = judge(job(ranks=8, nodes=1, fault=late(range(8))).batches())
    assert not [finding for finding in alike if finding.ranks]


@pytest.mark.long
def test_half_of_the_nodes_are_told_one_by_one_and_more_are_nobody(job: Callable[..., Any]) -> None:
    """As of ranks: most of a job is not late behind the rest of it."""
    half = judge(job(ranks=16, nodes=4, fault=late(range(8))).batches())
    assert {tuple(finding.nodes) for finding in half} == {("node-0",), ("node-1",)}
    most = judge(job(ranks=16, nodes=4, fault=late(range(12))).batches())
    assert not [finding for finding in most if finding.ranks]


@pytest.mark.long
def test_nodes_of_one_rank_are_told_by_their_rank(job: Callable[..., Any]) -> None:
    """The finding of the rank names the node already."""
    findings = judge(job(ranks=4, nodes=4, fault=late([2])).batches())
    assert {(tuple(finding.ranks), *finding.nodes) for finding in findings} == {((2,), "node-2")}
    assert findings[0].summary.startswith("Rank 2 on node-2 works ")


@pytest.mark.long
def test_a_minority_of_a_node_is_ranks(job: Callable[..., Any]) -> None:
    """Three of eight are three findings: half of a node and less is not the node."""
    findings = judge(job(ranks=32, nodes=4, fault=late([8, 9, 10])).batches())
    assert {tuple(finding.ranks) for finding in findings} == {(8,), (9,), (10,)}


@pytest.mark.slow
def test_the_ranks_of_a_node_that_are_well_are_not_named(job: Callable[..., Any]) -> None:
    """Six of eight late are the node's finding, with these six."""
    findings = judge(job(ranks=32, nodes=4, fault=late(range(8, 14))).batches())
    assert {tuple(finding.ranks) for finding in findings} == {tuple(range(8, 14))}
    assert findings[-1].nodes == ["node-1"]


@pytest.mark.slow
def test_a_rank_that_was_slow_before_the_rest_of_its_node_is_told_to_be_part_of_it(job: Callable[..., Any]) -> None:
    """Its episode ends in words that say whose finding goes on, and nothing is left open but the node's."""
    alone = job(ranks=32, nodes=4, fault=late([9]), when=lambda step: step >= 40)
    rest = job(ranks=32, nodes=4, fault=late(range(8, 16)), when=lambda step: step >= 100)
    batches = [
        *[one for one in alone.batches() if listed(one.step)[0] < 100],
        *[one for one in rest.batches() if listed(one.step)[0] >= 100],
    ]
    findings = judge(batches)
    ended = [finding for finding in findings if finding.ranks == [9]][-1]
    assert ended.state == "recovered"
    assert "is late with most of node node-1, whose own finding reports it now" in ended.summary
    (whole,) = open_at_the_end(findings)
    assert (whole.nodes, len(whole.ranks)) == (["node-1"], 8)
    assert ended.replaced_by == whole.id


@pytest.mark.long
def test_a_rank_that_stays_slow_when_its_node_is_well_again_is_a_finding_of_its_own(job: Callable[..., Any]) -> None:
    """The node has recovered; the rank is told from there on."""
    whole = job(ranks=32, nodes=4, fault=late(range(8, 16)), steps=240)
    after = job(ranks=32, nodes=4, fault=late([9]), steps=240)
    batches = [
        *[one for one in whole.batches() if listed(one.step)[0] < 150],
        *[one for one in after.batches() if listed(one.step)[0] >= 150],
    ]
    findings = judge(batches)
    node = [finding for finding in findings if len(finding.ranks) > 1]
    assert (node[-1].state, len({finding.id for finding in node})) == ("recovered", 1)
    assert "Node node-1 (ranks 8-15) is back among its peers" in node[-1].summary
    assert [finding.ranks for finding in open_at_the_end(findings)] == [[9]]


@pytest.mark.slow
def test_a_small_fault_of_a_whole_node_is_found_where_no_rank_stands_out(job: Callable[..., Any]) -> None:
    """The middle of eight noisy ranks is steadier than each of them."""
    made: dict[str, Any] = {"noise": 0.08, "steps": 240, "seed": 3}
    node = judge(job(ranks=32, nodes=4, fault=late(range(8, 16), backward=0.007), **made).batches())
    assert {tuple(finding.nodes) for finding in node if finding.ranks} == {("node-1",)}
    (alone,) = judge(job(ranks=32, nodes=4, fault=late([9], backward=0.007), **made).batches())
    assert alone.last_step > node[0].last_step, "of a rank alone long ticks show it, and later"
    assert alone.summary.startswith("Rank 9 on node-1 works ")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("ranks", "nodes", "noise"), [(4, 2, 0.05), (16, 2, 0.1), (32, 4, 0.2)])
def test_nobody_is_named_in_a_healthy_job(
    job: Callable[..., Any], ranks: int, nodes: int, noise: float, seed: int
) -> None:
    """Noise alone accuses no node."""
    assert judge(job(ranks=ranks, nodes=nodes, noise=noise, seed=seed, steps=150).batches()) == []


@pytest.mark.long
def test_a_slow_node_survives_a_restart_of_the_worker(job: Callable[..., Any]) -> None:
    """Stored and restored after every message, the findings are the same."""
    batches = list(job(ranks=16, nodes=2, fault=late(range(8)), steps=110).batches())
    diagnosis, findings = JobDiagnosis(), []
    for batch in batches:
        diagnosis = JobDiagnosis.restore(diagnosis.snapshot())
        findings += diagnosis.update(batch)
    assert msgspec.json.encode(findings) == msgspec.json.encode(judge(batches))
    assert findings


@pytest.mark.slow
def test_the_order_in_which_nodes_join_changes_nothing_but_the_order(job: Callable[..., Any]) -> None:
    """Units are numbered as they are heard, and named by their names."""
    batches = list(job(ranks=24, nodes=3, fault=late(range(8, 16))).batches())
    turned = [batch for at in range(0, len(batches), 3) for batch in reversed(batches[at : at + 3])]
    ids = [{(finding.id, finding.state) for finding in judge(each)} for each in (batches, turned)]
    assert ids[0] == ids[1]


def simulated(fault: str, **shape: Any) -> tuple[list[Any], Job]:
    """The findings in a made-up job with that fault from step 40 on, and the job."""
    job = Job(Spec(**{"ranks": 32, "steps": 80, "step_s": 0.25, "faults": (parse(fault),), **shape}))
    return found_in(job), job


def found_in(job: Job) -> list[Finding]:
    processor = Processor()
    return [
        found
        for message in job.messages()
        if message.topic.name in ROUTES
        for _, found in processor.update(message.topic, message.event)
        if isinstance(found, Finding)
    ]


@pytest.mark.slow
def test_a_slow_switch_is_one_finding_with_its_nodes_and_ranks() -> None:
    """Two of four nodes hang from it: no node is told beside it."""
    findings, _ = simulated("compute:switch=1,size=0.3,from=40", nodes_a_switch=2)
    assert {(finding.group, tuple(finding.nodes)) for finding in findings} == {
        ("switch switch-1", ("node-0002", "node-0003"))
    }
    assert findings[-1].ranks == list(range(16, 32))
    assert findings[-1].summary.startswith("Switch switch-1 (ranks 16-31) works ")


@pytest.mark.slow
def test_one_slow_node_of_a_switch_is_the_node() -> None:
    """Half of the switch, and so not most of it."""
    findings, _ = simulated("compute:node=2,size=0.3,from=40", nodes_a_switch=2)
    assert {(finding.group, tuple(finding.nodes)) for finding in findings} == {(None, ("node-0002",))}


@pytest.mark.slow
@pytest.mark.parametrize(
    "shape",
    [
        {"tp": 8, "pp": 4, "microbatches": 8},
        {"tp": 2, "pp": 2, "microbatches": 4},
        {"tp": 2, "pp": 8, "dp": 2, "microbatches": 16},
    ],
)
def test_a_slow_node_of_a_pipeline_is_told(shape: dict[str, Any]) -> None:
    """A whole stage on one node, compared with its own past; a part of a stage; several stages on a node."""
    findings, _ = simulated("compute:node=2,size=0.3,from=40", **shape)
    assert {tuple(finding.nodes) for finding in findings if finding.ranks} == {("node-0002",)}
    assert findings[-1].ranks == list(range(16, 24))


@pytest.mark.slow
def test_a_throttled_node_is_told_as_such() -> None:
    """What most of its devices went through is what it is slow by."""
    findings, _ = simulated("throttle:node=1,size=0.3,from=40", ranks=24, steps=60, step_s=0.5)
    assert {(finding.cause, len(finding.ranks)) for finding in findings} == {("throttling", 8)}


@pytest.mark.slow
def test_the_node_of_a_job_without_phases_is_told_by_lateness() -> None:
    """In the group in which it comes late."""
    findings, _ = simulated("compute:node=1,size=0.3,from=40", phases=False)
    assert {(finding.kind, finding.group, tuple(finding.nodes)) for finding in findings} == {
        ("straggler", "world", ("node-0001",))
    }
    assert findings[-1].ranks == list(range(8, 16))


@pytest.mark.slow
def test_a_dead_node_is_silent_and_missing_from_the_hang() -> None:
    """Two findings that name the same ranks."""
    silent, hang = parse("silent:node=1,from=60"), parse("hang:node=1,from=60,seconds=70")
    findings = found_in(Job(Spec(ranks=32, steps=110, faults=(silent, hang))))
    confirmed = {finding.kind: finding for finding in findings if finding.state == "confirmed"}
    assert set(confirmed) == {"node_silent", "hang"}
    assert confirmed["node_silent"].ranks == confirmed["hang"].ranks == list(range(8, 16))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "slow", "nodes"),
    [
        ({"tp": 4}, "8-11", {"node-0001"}),
        ({"tp": 2, "pp": 2, "microbatches": 4}, "8-9", {"node-0001"}),
        ({"tp": 16}, "16-31", {"node-0002", "node-0003"}),
    ],
    ids=["half of a node", "of one stage", "across nodes"],
)
def test_a_slow_tensor_group_is_one_finding(shape: dict[str, Any], slow: str, nodes: set[str]) -> None:
    """Ranks that compute the same layers together are slow together; they may be less than a node, or more."""
    findings, _ = simulated(f"compute:rank={slow},size=0.3,from=40", **shape)
    accused = [finding for finding in findings if finding.ranks]
    first, last = (int(number) for number in slow.split("-"))
    assert {(tuple(finding.ranks), *finding.nodes) for finding in accused} == {
        (tuple(range(first, last + 1)), *sorted(nodes))
    }
    assert len({finding.id for finding in accused}) == 1
    assert {(finding.group or "").partition(" dp ")[0] for finding in accused} == {"tensor group"}
    assert "They compute in step: one of them may be slow for all." in accused[-1].summary


@pytest.mark.slow
def test_a_node_of_two_slow_tensor_groups_is_the_node() -> None:
    """The larger unit speaks."""
    findings, _ = simulated("compute:node=1,size=0.3,from=40", tp=4)
    assert {(finding.group, tuple(finding.nodes)) for finding in findings} == {(None, ("node-0001",))}


@pytest.mark.slow
def test_one_slow_rank_of_a_tensor_group_is_the_rank() -> None:
    """A quarter of the group is not the group."""
    findings, _ = simulated("compute:rank=9,size=0.3,from=40", tp=4)
    assert {tuple(finding.ranks) for finding in findings} == {(9,)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "seed"),
    [
        ({"tp": 4}, 0),
        ({"tp": 2, "pp": 4, "microbatches": 8}, 1),
        ({"tp": 8, "pp": 4, "microbatches": 8}, 2),
    ],
)
def test_healthy_tensor_groups_are_not_named(shape: dict[str, Any], seed: int) -> None:
    """Nor are nodes, in a pipeline of them."""
    told = found_in(Job(Spec(ranks=32, steps=120, step_s=0.25, seed=seed, **shape)))
    assert not [finding for finding in told if finding.ranks]


@pytest.mark.slow
def test_a_unit_that_its_ranks_leave_while_it_is_slow_comes_to_an_end(job: Callable[..., Any]) -> None:
    """A node that takes another name: what is said of the old one is closed, and the new one is judged."""
    batches = list(job(ranks=32, nodes=4, fault=late(range(8, 16)), steps=200).batches())
    renamed = [
        msgspec.structs.replace(one, node="moved") if listed(one.step)[0] >= 110 and one.node == "node-1" else one
        for one in batches
    ]
    last = {tuple(finding.nodes): finding for finding in judge(renamed)}
    assert last["node-1",].state == "recovered"
    assert last["moved",].state == "confirmed"
