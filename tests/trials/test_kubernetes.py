"""Trials on Kubernetes: one Job of the cluster a job of the trial, whatever happens, and nothing that outlives it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.annotator.api_http import Asked
from tests.trials.kube_cluster import Cluster
from tests.trials.kube_world import World, document
from trials.executor import ExecutorError


@pytest.fixture
def world(free_port: Callable[[], int], tmp_path: Path) -> Iterator[World]:
    with Cluster(free_port()) as cluster:
        yield World(cluster, tmp_path)


def log(method: str = "GET") -> Callable[[Asked], bool]:
    return lambda asked: asked.method == method and asked.path.endswith("/log")


def test_a_job_runs_and_its_result_comes_by_its_log(world: World) -> None:
    """Job, pod and Secret; waits, runs, ends; the document is found behind its mark; then nothing is left."""
    job = world.job()
    world.executor.start(job)
    assert world.poll(job) is None
    assert "not begun yet" in world.executor.waits(job)
    world.cluster.begin()
    assert world.poll(job) is None
    assert world.executor.waits(job) == ""
    world.cluster.finish(0, b"epoch 1\n" + document() + b"bye\n")

    ended = world.poll(job)
    assert ended is not None
    assert (ended.how, ended.status) == ("ended", 0)
    assert [b'"measured"' in one for one in ended.results] == [True]
    assert ended.said == "epoch 1\nbye"
    world.executor.close()
    assert world.cluster.left() == []


def test_nodes_are_pods_that_meet(world: World) -> None:
    """Two nodes: a Service, a pod each, a document each, in the order of nodes."""
    job = world.job(nodes=2)
    world.executor.start(job)
    service = world.cluster.all("Service")[0]
    pods = world.cluster.pods()
    assert {one["spec"]["subdomain"] for one in pods} == {service["metadata"]["name"]}
    for index in (1, 0):
        world.cluster.begin(index)
        world.cluster.finish(0, document(node=f"node-{index}"), index)
    ended = world.poll(job)
    assert ended is not None
    assert [b"node-0" in one for one in ended.results] == [True, False]
    world.executor.stop(job)
    assert world.cluster.left() == []


def test_what_a_node_told_stays_when_its_pod_is_deleted(world: World) -> None:
    """One fails, and the Job deletes the other: a document that a pod had printed before counts."""
    job = world.job(nodes=2)
    world.executor.start(job)
    world.cluster.begin(0), world.cluster.begin(1)
    world.cluster.finish(0, document(node="node-0"), 0)
    assert world.poll(job) is None
    world.cluster.vanish(world.cluster.pod(0))
    world.cluster.finish(3, b"boom\n", 1)
    ended = world.poll(job, 2.0)
    ended = ended or world.poll(job, 60.0)
    assert ended is not None
    assert (ended.how, ended.status, len(ended.results)) == ("ended", 3, 1)
    assert "boom" in ended.said


def test_a_pod_out_of_memory_is_told(world: World) -> None:
    """The kernel's kill is named, so that the trial counts it as that."""
    job = world.job()
    world.executor.start(job)
    world.cluster.begin()
    world.cluster.finish(137, b"", reason="OOMKilled")
    assert world.poll(job) is None  # Its log may come late.
    ended = world.poll(job, 60.0)
    assert ended is not None
    assert (ended.how, ended.status) == ("ended", 137)
    assert "out of memory" in ended.said


@pytest.mark.parametrize(
    "status",
    [
        {"reason": "Evicted", "message": "The node was low on resource: ephemeral-storage"},
        {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]},
    ],
)
def test_a_pod_that_was_taken_is_lost_not_crashed(world: World, status: dict) -> None:
    """Eviction and preemption say nothing of the placement."""
    job = world.job()
    world.executor.start(job)
    world.cluster.begin()
    world.cluster.take(**status)
    ended = world.poll(job)
    assert ended is not None
    assert ended.how == "gone"
    assert (status.get("reason") or "PreemptionByScheduler") in ended.said


def test_a_job_over_its_limit_is_ended_with_what_it_said(world: World) -> None:
    """The limit counts from when its pods run; the log is read before they go."""
    job = world.job()
    world.executor.start(job)
    assert world.poll(job, 1000.0) is None
    world.cluster.begin()
    world.cluster.logs[world.cluster.pod()["metadata"]["name"]] = b"step 7\n"
    assert world.poll(job) is None
    assert world.poll(job, 99.0) is None
    ended = world.poll(job, 2.0)
    assert ended is not None
    assert (ended.how, ended.said) == ("killed", "step 7\nits limit of 100 s is over")
    assert world.cluster.left() == []


def test_a_job_that_finds_no_node_is_told_and_given_up(world: World) -> None:
    """The scheduler's words while it waits; after ``wait_s`` it is lost, not slow."""
    world.use(wait_s=50)
    job = world.job()
    world.executor.start(job)
    world.cluster.unschedulable("0/3 nodes are available: 3 Insufficient nvidia.com/gpu.")
    assert world.poll(job) is None
    assert "Insufficient nvidia.com/gpu" in world.executor.waits(job)
    ended = world.poll(job, 60.0)
    assert ended is not None
    assert ended.how == "gone"
    assert "Insufficient" in ended.said
    assert world.cluster.left() == []


@pytest.mark.parametrize("reason", ["ImagePullBackOff", "ErrImagePull", "CreateContainerConfigError"])
def test_an_image_that_is_not_there_ends_the_trial(world: World, reason: str) -> None:
    """Told at once, waited for a while, and then an error for all: the next placement has the same image."""
    job = world.job()
    world.executor.start(job)
    world.cluster.waiting(reason, 'Back-off pulling image "training:1"')
    assert world.poll(job) is None
    assert "training:1" in world.executor.waits(job)
    assert world.poll(job, 100.0) is None
    with pytest.raises(ExecutorError, match=f"{reason}.*training:1"):
        world.poll(job, 100.0)
    assert world.cluster.left() == []


def test_a_moment_without_its_secret_is_nothing(world: World) -> None:
    """What mends itself is forgotten: the patience begins again."""
    job = world.job()
    world.executor.start(job)
    world.cluster.waiting("CreateContainerConfigError", 'secret "x" not found')
    assert world.poll(job) is None
    world.cluster.waiting("ContainerCreating")
    assert world.poll(job, 100.0) is None
    world.cluster.waiting("ImagePullBackOff")
    assert world.poll(job, 100.0) is None
    world.cluster.begin()
    assert world.poll(job, 100.0) is None
    world.executor.close()


@pytest.mark.parametrize(("message", "ends"), [('violates PodSecurity "x"', True), ("exceeded quota: gpus", False)])
def test_a_job_without_pods_tells_what_its_events_say(world: World, message: str, ends: bool) -> None:
    """A refused pod stands in the Job's events alone; a quota may become free, other refusals do not."""
    world.cluster.controls = False
    job = world.job()
    world.executor.start(job)
    world.cluster.warn("FailedCreate", f"Error creating: pods are forbidden: {message}")
    assert world.poll(job) is None
    assert message in world.executor.waits(job)
    if ends:
        with pytest.raises(ExecutorError, match="PodSecurity"):
            world.poll(job, 200.0)
    else:
        assert world.poll(job, 200.0) is None
    world.executor.close()
    assert world.cluster.left() == []


def test_a_suspended_job_waits(world: World) -> None:
    """Kueue holds a Job back: that is told."""
    world.cluster.controls = False
    job = world.job()
    world.executor.start(job)
    world.cluster.condition("Suspended", "JobSuspended", "Job suspended")
    assert world.poll(job) is None
    assert "suspended" in world.executor.waits(job)
    world.executor.close()


def test_a_trial_that_was_killed_finds_its_job(world: World) -> None:
    """The same trial, started again, goes on with the Job that runs, and does not make a second one."""
    job = world.job()
    world.executor.start(job)
    world.cluster.begin()
    world.executor = world.again()
    world.executor.start(job)
    assert len(world.cluster.all("Job")) == len(world.cluster.pods()) == 1
    world.cluster.finish(0, document())
    ended = world.poll(job)
    assert ended is not None
    assert len(ended.results) == 1
    world.executor.close()
    assert world.cluster.left() == []


def test_a_job_of_another_spec_makes_way(world: World) -> None:
    """A leftover of the trial before --fresh is no result of this one."""
    world.executor.start(world.job(command=("old",)))
    old = world.cluster.all("Job")[0]["metadata"]["uid"]
    world.executor = world.again()
    world.executor.start(world.job())
    (made,) = world.cluster.all("Job")
    assert made["metadata"]["uid"] != old
    assert len(world.cluster.pods()) == len(world.cluster.all("Secret")) == 1
    world.executor.close()


def test_somebody_elses_job_is_left_alone(world: World) -> None:
    """One of the same name without our mark: refused, and not deleted by us."""
    job = world.job()
    world.executor.start(job)
    name = world.cluster.all("Job")[0]["metadata"]["name"]
    world.executor.close()
    world.cluster.put("Job", name, "ml", metadata={"labels": {}}, spec={})
    world.executor = world.again()
    with pytest.raises(ExecutorError, match="not this trial's"):
        world.executor.start(job)
    world.executor.close()
    assert world.cluster.left() == [f"Job {name}"]


def test_two_folders_are_two_trials(world: World) -> None:
    """The same spec in another folder shares nothing, and ends nothing of the first."""
    job = world.job()
    world.executor.start(job)
    other = world.again(folder=str(world.folder / "other"))
    other.start(job)
    assert len(world.cluster.all("Job")) == 2
    other.close()
    assert len(world.cluster.all("Job")) == len(world.cluster.pods()) == 1


def test_an_answer_that_was_lost_makes_no_second_job(world: World) -> None:
    """The Job is made, the connection breaks before we hear of it."""
    create = world.cluster._create
    broken: list[bool] = []

    def lose(kind, namespace, body):
        made = create(kind, namespace, body)
        if kind.kind == "Job" and not broken:
            broken.append(True)
            raise ConnectionError
        return made

    world.cluster._create = lose
    world.executor.start(world.job())
    assert len(world.cluster.all("Job")) == len(world.cluster.all("Secret")) == 1
    world.executor.close()
    assert world.cluster.left() == []


@pytest.mark.parametrize("code", [None, 429, 500, 503, 410])
def test_an_api_that_is_away_for_a_while_is_waited_for(world: World, code: int | None) -> None:
    """Asked again when starting, told while a job runs, asked again when ending."""
    world.cluster.fail(lambda _: True, code, 2, retry_after="3" if code == 429 else "")
    job = world.job()
    world.executor.start(job)
    assert len(world.slept) == 2
    assert code != 429 or min(world.slept) >= 3
    world.cluster.begin()
    world.cluster.fail(lambda _: True, code, 1)
    assert world.poll(job) is None
    assert "does not answer as it should" in world.executor.waits(job)
    assert world.poll(job) is None
    assert world.executor.waits(job) == ""
    world.cluster.fail(lambda _: True, code, 2)
    world.executor.close()
    assert world.cluster.left() == []


def test_an_api_that_stays_away_ends_the_trial(world: World) -> None:
    """After ``patience_s`` of silence: an error, and the trial can go on another time."""
    job = world.job()
    world.executor.start(job)
    world.cluster.begin()
    world.cluster.fail(lambda _: True, None, 1000)
    assert world.poll(job) is None
    with pytest.raises(ExecutorError, match="can go on"):
        world.poll(job, 700.0)


def test_an_api_that_never_answered_is_not_waited_for_long(world: World) -> None:
    """A wrong address or login is told within half a minute, and nothing was started."""
    world.cluster.close()
    with pytest.raises(ExecutorError, match="does not answer"):
        world.executor.start(world.job())
    assert sum(world.slept) < 30


@pytest.mark.long
def test_a_right_that_is_missing_is_named(free_port: Callable[[], int], tmp_path: Path) -> None:
    """403 is an error with the rule; what was made until then goes."""
    rules = [
        {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create", "get", "list", "delete"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["secrets", "services"], "verbs": ["delete"]},
    ]
    with Cluster(free_port(), {"token": rules}) as cluster:
        world = World(cluster, tmp_path, "token")
        with pytest.raises(ExecutorError, match=r"POST secrets in ml"):
            world.executor.start(world.job())
        assert cluster.left() == []


@pytest.mark.long
def test_a_login_that_is_refused_is_told_at_once(free_port: Callable[[], int], tmp_path: Path) -> None:
    """401 on the first request."""
    with Cluster(free_port(), {"token": []}) as cluster:
        world = World(cluster, tmp_path, "another")
        with pytest.raises(ExecutorError, match="401"):
            world.executor.start(world.job())
        assert world.slept == []


@pytest.mark.long
def test_stop_waits_until_pods_have_gone(world: World) -> None:
    """The kubelet takes its time; then all is gone. One that has ended is no error."""
    job = world.job(nodes=2)
    world.executor.start(job)
    world.cluster.begin(0), world.cluster.begin(1)
    world.cluster.lingers = True
    seen: list[int] = []

    def kubelet() -> None:
        seen.append(len(world.cluster.pods()))
        if len(seen) > 3:
            world.cluster.vanish(world.cluster.pods()[0])

    world.asleep = kubelet
    world.executor.stop(job)
    assert seen[:4] == [2, 2, 2, 2]
    assert world.cluster.left() == []
    world.executor.stop(job)
    world.executor.close()


def test_pods_that_outlive_their_job_are_waited_for(world: World) -> None:
    """Somebody has deleted the Job alone, or we have before the next one: its pods still end."""
    world.executor.start(world.job())
    world.cluster.begin()
    world.cluster.lingers = True
    name = world.cluster.all("Job")[0]["metadata"]["name"]
    world.cluster._delete(world.cluster._kind("Job"), "ml", name, {"propagationPolicy": "Background"})
    assert [left.split()[0] for left in world.cluster.left()] == ["Pod"]
    world.asleep = lambda: world.cluster.vanish(world.cluster.pod())
    world.executor.close()
    assert world.cluster.left() == []


@pytest.mark.slow
def test_a_pod_on_a_lost_node_is_told(world: World) -> None:
    """Nobody ends it: an error with the command, not a wait for ever."""
    job = world.job()
    world.executor.start(job)
    world.cluster.begin()
    world.cluster.lingers = True
    with pytest.raises(ExecutorError, match=r"kubectl -n ml delete .* -l paceline.dev/trial-mark="):
        world.executor.close()


def test_a_person_who_ends_it_is_not_kept_waiting(world: World) -> None:
    """With the API away, ending gives up after a minute and says what is left; the Job's own deadline ends it."""
    world.executor.start(world.job())
    world.cluster.fail(lambda _: True, None, 1000)
    with pytest.raises(ExecutorError, match=r"not ended: .* for 60 s.*then: kubectl -n ml delete"):
        world.executor.close()
    assert sum(world.slept) <= 60
    (job,) = world.cluster.all("Job")
    assert job["spec"]["activeDeadlineSeconds"] == 3600 + 100 + 120


def test_a_job_that_somebody_deleted_is_lost(world: World) -> None:
    """Also where another one of its name is there by now."""
    job = world.job()
    world.executor.start(job)
    name = world.cluster.all("Job")[0]["metadata"]["name"]
    world.cluster._delete(world.cluster._kind("Job"), "ml", name, {})
    world.cluster.put("Job", name, "ml", spec={})
    ended = world.poll(job)
    assert ended is not None
    assert ended.how == "gone"
    world.executor.close()
    assert world.cluster.left() == [f"Job {name}"]


def test_a_job_by_somebodys_deadline_is_killed(world: World) -> None:
    """The cluster's own deadline, where nobody looked at it in time."""
    job = world.job()
    world.executor.start(job)
    world.cluster.condition("Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
    ended = world.poll(job)
    assert ended is not None
    assert ended.how == "killed"


def test_a_log_that_comes_late_is_waited_for(world: World) -> None:
    """The pod has succeeded, its last lines are not there yet: asked again, not for ever."""
    job = world.job()
    world.executor.start(job)
    world.cluster.begin()
    world.cluster.finish(0, b"epoch 1\n")
    assert world.poll(job) is None
    world.cluster.logs[world.cluster.pod()["metadata"]["name"]] += document()
    ended = world.poll(job)
    assert ended is not None
    assert len(ended.results) == 1


def test_a_log_that_never_comes_is_not_waited_for(world: World) -> None:
    """It ended well, and told nothing: so it is said."""
    job = world.job()
    world.executor.start(job)
    world.cluster.begin()
    world.cluster.finish(0, b"\xff\xfe cut \x1b[2J PACELINE-TRIAL {}\n")
    assert world.poll(job) is None
    ended = world.poll(job, 30.0)
    assert ended is not None
    assert (ended.how, ended.status, ended.results) == ("ended", 0, ())
    assert "\x1b" not in ended.said


def test_jobs_that_are_written_down_go_before_the_next(world: World) -> None:
    """Finished ones do not pile up in the namespace."""
    first, second = world.job(), world.job(id="r0-n1-p1-t0")
    world.executor.start(first)
    world.cluster.begin()
    world.cluster.finish(0, document())
    assert world.poll(first) is not None
    assert len(world.cluster.all("Job")) == 1
    world.executor.start(second)
    (held,) = world.cluster.all("Job")
    assert "r0-n1-p1-t0" in held["metadata"]["name"]
    assert len(world.cluster.all("Secret")) == 1
    world.executor.close()


@pytest.mark.parametrize("held", ["", "not hexadecimal!", "0123456789abcdef" * 2, "\udcff"])
def test_a_damaged_mark_is_none(world: World, held: str) -> None:
    """Another one is made up and kept; what bears it is found again."""
    (world.folder / "trial").mkdir()
    (world.folder / "trial" / "kubernetes-mark").write_text(held, errors="surrogateescape")
    world.executor = world.again()
    world.executor.start(world.job())
    world.executor = world.again()
    world.executor.start(world.job())
    assert len(world.cluster.all("Job")) == 1
    world.executor.close()


def test_a_folder_that_cannot_be_written_starts_nothing(world: World) -> None:
    """What is not written down would not be found again."""
    (world.folder / "trial").write_text("a file")
    with pytest.raises(ExecutorError, match="another --folder"):
        world.executor.start(world.job())
    world.executor.close()
    assert world.cluster.left() == []


def test_a_dry_run_asks_nothing(world: World) -> None:
    """A manifest needs no cluster, writes nothing, and closing does neither."""
    world.executor.manifest(world.job())
    world.executor.close()
    assert world.cluster.asked == []
    assert not (world.folder / "trial").exists()
    assert world.executor.poll(world.job()) is not None


@pytest.mark.long
def test_answers_that_are_none_are_no_answers(world: World) -> None:
    """A proxy's page instead of JSON is as if the API were away."""
    job = world.job()
    world.executor.start(job)
    one = world.cluster._one
    world.cluster._one = lambda *_: ["<html>"]
    assert world.poll(job) is None
    assert "does not answer as it should" in world.executor.waits(job)
    world.cluster._one = one
    assert world.poll(job) is None
    world.executor.close()
