"""A trial's jobs on Kubernetes: each an Indexed Job, whose pods tell in their logs what they have measured.

Rule of this file: one job of the trial is one Job of the cluster, however often the trial is killed and goes on; it is
known by the trial's mark, which lies in the trial's folder, and by what it was made of. A pod's log is read as soon as
the pod has ended, for pods go when their Job fails. Nothing of ours outlives ``stop`` and ``close``.
"""

import math
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import yaml

from paceline.backoff import Backoff

from . import job_folder, kube_mark, kube_objects, kube_states
from .executor import Ended, ExecutorError, Job
from .kube_options import read
from .kube_states import Held, Told
from .patience import Patience, Sleep

if TYPE_CHECKING:
    from .kube_client import KubeClient

How = Literal["ended", "killed", "gone"]
T = TypeVar("T")
#: How often one job is asked for at most; how long what was deleted may take to go; how long the first answer may take.
ASK_S, GONE_S, FIRST_S = 1.0, 240.0, 20.0
#: How long an API that is away is asked for what ends jobs: a person waits, and the Jobs have deadlines.
ENDING_S = 60.0


class _Run:
    """What is known of a job that was started: its Job's uid, what its pods told, and since when what is so."""

    def __init__(self, job: Job, now_s: float) -> None:
        self.job, self.uid, self.waits = job, "", ""
        self.asked_s = -ASK_S
        self.waits_since_s = now_s
        self.stuck_since_s: float | None = None
        self.runs_since_s: float | None = None
        self.over_since_s: float | None = None
        self.away_since_s: float | None = None
        self.logs: dict[str, bytes] = {}
        self.ended = False


class KubernetesExecutor:
    """Runs jobs in a namespace of the cluster that the options, or the usual kubeconfig, name."""

    def __init__(
        self,
        options: Mapping[str, Any],
        asked: threading.Event | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep | None = None,
    ) -> None:
        """Take ``options`` of the spec, with the trial's ``name`` and ``folder``; nothing is asked or started yet.
        ``asked`` is set where all is to end.

        Raises:
            ExecutorError: an option is not allowed.
        """
        self.options = read(options)
        self.parallel = self.options.parallel
        self._clock, self._patience = clock, Patience(asked, clock, sleep)
        self._folder = Path(self.options.folder)
        self._mark = kube_mark.of(self._folder)
        self._client: KubeClient | None = None
        self._runs: dict[str, _Run] = {}

    def manifest(self, job: Job) -> str:
        """What ``start`` creates, as YAML; what goes with the Job is its own, and goes with it."""
        made = kube_objects.job_object(self.options, self._mark, job)
        every = [made, *kube_objects.owned_objects(self.options, self._mark, job)]
        return yaml.safe_dump_all(every, sort_keys=False, explicit_start=True)

    def start(self, job: Job) -> None:
        """Create ``job``, or find it where an earlier run of the trial has.

        Raises:
            ExecutorError: it is refused, it is somebody else's, or the API was away for all of ``patience_s``.
        """
        made = kube_objects.job_object(self.options, self._mark, job)
        try:
            kube_mark.keep(self._folder, self._mark)
        except OSError as error:
            raise ExecutorError(
                f"{error.filename or self._folder}: {error.strerror}; choose another --folder"
            ) from error
        self._tidy()
        run = self._runs[job.id] = _Run(job, self._clock())
        try:
            run.uid, new = self._created(made, job)
            for one in kube_objects.owned_objects(self.options, self._mark, job, run.uid):
                self._with_patience(lambda one=one: self._create_owned(one, new=new))  # type: ignore[misc]
        except ExecutorError:
            if run.uid:
                self.stop(job)
            raise
        run.waits_since_s = self._clock()

    def _created(self, made: kube_objects.Object, job: Job) -> tuple[str, bool]:
        """The uid of the Job, and whether it is new."""
        name, digest = made["metadata"]["name"], made["metadata"]["annotations"][kube_objects.DIGEST]
        for _ in range(3):
            answer = self._with_patience(lambda: self._create("jobs", made))
            if answer is not None:
                return kube_states.one(answer).metadata.uid, True
            held = self._with_patience(lambda: self._job(name))
            if held is None:
                continue
            if held.mark != self._mark:
                say = f"kubectl -n {self.options.namespace} get job {name} -o yaml"
                raise ExecutorError(f"job {job.id}: a Job {name} exists and is not this trial's; see: {say}")
            if held.digest == digest and not held.metadata.deletion_timestamp:
                return held.metadata.uid, False
            self._sweep(job.id, [name])
        raise ExecutorError(f"job {job.id}: the Job {name} comes and goes; does somebody else run this trial?")

    def _create(self, plural: str, made: kube_objects.Object) -> bytes | None:
        """The new one; None where there is one of its name."""
        from .kube_client import RefusedError

        try:
            return self._api.create(plural, made)
        except RefusedError as error:
            if error.status != 409:
                raise
            return None

    def _create_owned(self, made: kube_objects.Object, *, new: bool) -> None:
        """What goes with a Job. One that is there is this Job's, or goes with an earlier one of its name."""
        plural, name = made["kind"].lower() + "s", made["metadata"]["name"]
        if self._create(plural, made) is None and new:
            self._api.delete(plural, name)
            self._create(plural, made)

    def poll(self, job: Job) -> Ended | None:
        """How ``job`` ended; None while it runs, waits, or cannot be asked for.

        Raises:
            ExecutorError: it stands at what does not mend itself, or the API has been away for all of ``patience_s``.
        """
        from .kube_client import AwayError

        run, now_s = self._runs.get(job.id), self._clock()
        if run is None:
            return Ended("gone", None, (), "it was not started")
        if now_s < run.asked_s + ASK_S:
            return None
        run.asked_s = now_s
        try:
            ended = self._looked(run, now_s)
        except (AwayError, kube_states.UnreadableError) as error:
            run.away_since_s = now_s if run.away_since_s is None else run.away_since_s
            away_s = now_s - run.away_since_s
            run.waits = f"Kubernetes does not answer as it should, for {away_s:.0f} s now ({error})"
            if away_s > self.options.patience_s:
                raise ExecutorError(f"job {job.id}: {run.waits}; the trial can go on") from error
            return None
        run.away_since_s = None
        run.ended = ended is not None
        return ended

    def _looked(self, run: _Run, now_s: float) -> Ended | None:
        held = self._job(self._name(run.job))
        if held is None or held.metadata.uid != run.uid:
            return self._ended(run, "gone", None, "somebody has deleted its Job")
        pods = self._pods(run)
        for pod in pods:
            if pod.over and pod.name not in run.logs:
                self._read_log(run, pod)
        return self._acted(run, kube_states.judged(held, pods, run.job.nodes), pods, now_s)

    def _acted(self, run: _Run, told: Told, pods: list[Held], now_s: float) -> Ended | None:
        """What follows from what it does."""
        if told.meaning == "waits":
            return self._waiting(run, told, now_s)
        run.waits, run.stuck_since_s = "", None
        if told.meaning == "runs":
            run.runs_since_s = now_s if run.runs_since_s is None else run.runs_since_s
            if now_s - run.runs_since_s <= run.job.limit_s:
                return None
            for pod in pods:
                self._read_log(run, pod)
            self.stop(run.job)
            return self._ended(run, "killed", None, f"its limit of {run.job.limit_s:g} s is over")
        run.over_since_s = now_s if run.over_since_s is None else run.over_since_s
        missing = told.meaning == "ended" and len(self._results(run)) < run.job.nodes
        if missing and now_s - run.over_since_s <= self.options.late_s:
            for pod in pods:  # A log may come late, and whole only then.
                self._read_log(run, pod)
            if len(self._results(run)) < run.job.nodes:
                return None
        return self._ended(run, told.meaning, told.status, told.why)

    def _waiting(self, run: _Run, told: Told, now_s: float) -> Ended | None:
        why = told.why if told.stuck or "no pod" not in told.why else self._refusal(run) or told.why
        stuck = told.stuck or (why != told.why and "quota" not in why)
        run.waits = why
        run.stuck_since_s = (now_s if run.stuck_since_s is None else run.stuck_since_s) if stuck else None
        if run.stuck_since_s is not None and now_s - run.stuck_since_s > self.options.stuck_s:
            self.stop(run.job)
            raise ExecutorError(f"job {run.job.id} does not start: {why}; fix it, then the trial can continue")
        if now_s - run.waits_since_s > self.options.wait_s:
            self.stop(run.job)
            return self._ended(run, "gone", None, f"it has not begun in {self.options.wait_s:g} s: {why}")
        return None

    def _refusal(self, run: _Run) -> str:
        """Why the Job gets no pods, as its events say, where we may read them."""
        from .kube_client import RefusedError

        picked = f"involvedObject.kind=Job,involvedObject.uid={run.uid}"
        try:
            return kube_states.refusals(self._api.list("events", fieldSelector=picked, limit="50"))
        except RefusedError:
            return ""

    def _read_log(self, run: _Run, pod: Held) -> None:
        log = self._api.log(pod.name)
        if log is not None and (log or pod.name not in run.logs):
            run.logs[pod.name] = log

    def _results(self, run: _Run) -> tuple[bytes, ...]:
        found = (kube_states.result_in(log, run.job.id) for _, log in sorted(run.logs.items()))
        return tuple(one for one in found if one is not None)

    def _ended(self, run: _Run, how: How, status: int | None, why: str) -> Ended:
        run.ended = True
        said = [job_folder.shown(kube_states.output_in(log)) for _, log in sorted(run.logs.items())]
        return Ended(how, status, self._results(run), "\n".join(filter(None, (*said, why))))

    def waits(self, job: Job) -> str:
        """Why ``job`` has not begun, in Kubernetes' words, as of the last ``poll``; "" where it runs."""
        run = self._runs.get(job.id)
        return run.waits if run else ""

    def stop(self, job: Job) -> None:
        """End ``job``, and return when its Job, pods, Secret and Service are gone.

        Raises:
            ExecutorError: something of it is left, and the command that a person ends it by.
        """
        self._sweep(job.id, [self._name(job)])
        if job.id in self._runs:
            self._runs[job.id].ended = True

    def close(self) -> None:
        """Delete all that this trial has in the cluster, also what it has finished with, and an earlier run of it left.

        Raises:
            ExecutorError: something is left.
        """
        if self._client is None:
            return
        try:
            self._sweep("", [self._name(run.job) for run in self._runs.values()])
            self._runs.clear()
        finally:
            self._client.close()
            self._client = None

    def _sweep(self, job_id: str, names: list[str]) -> None:
        """Delete what has the mark of the trial, or of a job of it, and those ``names``; return when it is gone."""
        picked, end_s = kube_objects.selector(self._mark, job_id), self._clock() + GONE_S
        mend = f"kubectl -n {self.options.namespace} delete jobs,pods,secrets,services -l {picked}"
        backoff = Backoff(0.2, 2.0, Random())
        while True:
            try:
                left = self._with_patience(lambda: self._deleted(picked, names), ending=True)
            except ExecutorError as error:
                raise ExecutorError(f"what runs is not ended: {error}; then: {mend}") from error
            if not left:
                return
            if self._clock() > end_s:
                raise ExecutorError(f"{', '.join(left[:8])} does not go: is a node lost? fix: {mend}")
            self._patience.sleep(backoff.next_s())

    def _deleted(self, picked: str, names: list[str]) -> list[str]:
        """Ask once more for all of it to go: what is still there."""
        jobs = kube_states.several(self._api.list("jobs", labelSelector=picked))
        for held in jobs:
            if not held.metadata.deletion_timestamp:
                self._api.delete("jobs", held.name, held.metadata.uid, "Foreground")
        every = sorted({*names, *(held.name for held in jobs)})
        pods = kube_states.several(self._api.list("pods", labelSelector=picked))
        left = [f"job {held.name}" for held in jobs] + [f"pod {held.name}" for held in pods]
        for plural in ("secrets", "services"):
            left += [f"{plural[:-1]} {name}" for name in every if self._api.delete(plural, name)]
        names[:] = every
        return left

    def _tidy(self) -> None:
        """Delete Jobs of which all is known and written down; the cluster takes what is theirs."""
        for job_id, run in list(self._runs.items()):
            if run.ended:
                self._with_patience(lambda run=run: self._api.delete("jobs", self._name(run.job), run.uid))  # type: ignore[misc]
                del self._runs[job_id]

    def _job(self, name: str) -> Held | None:
        answer = self._api.get("jobs", name)
        return None if answer is None else kube_states.one(answer)

    def _pods(self, run: _Run) -> list[Held]:
        picked = kube_objects.selector(self._mark, run.job.id)
        return kube_states.own(kube_states.several(self._api.list("pods", labelSelector=picked)), run.uid)

    def _name(self, job: Job) -> str:
        return kube_objects.name_of(self.options, self._mark, job)

    @property
    def _api(self) -> "KubeClient":
        if self._client is None:
            try:
                from .kube_client import KubeClient
            except ModuleNotFoundError as error:
                raise ExecutorError(f"{error.name} is not installed; fix: pip install kubernetes") from error
            self._client = KubeClient(self.options, os.environ)
        return self._client

    def _with_patience(self, ask: Callable[[], T], ending: bool = False) -> T:
        """The answer, asked for again while the API is away: for ``patience_s``, but less before its first answer, and
        where something is to end, for which somebody waits."""
        api = self._api
        from .kube_client import AwayError

        most_s = min(self.options.patience_s, ENDING_S if ending else math.inf if api.answered else FIRST_S)
        away, backoff = (AwayError, kube_states.UnreadableError), Backoff(0.5, 15.0, Random())
        return self._patience.answer(ask, away, backoff, most_s, "kubectl get --raw /readyz", ending=ending)
