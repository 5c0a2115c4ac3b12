"""A worker of Ray's has the job's name from Ray as it is now, not from when the process was started."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from paceline.identity import job_of
from paceline.training.ray_job import current_environment
from paceline.training.watching import _socket_path
from tests.paceline.training.test_hello import Rank

#: What a worker that was started in advance has in its environment, and what Ray calls its job later.
WAITING, NUMBER = "ffffffff", "02000000"


class Ray(SimpleNamespace):
    """``ray`` as a worker has imported it; it works for ``job``."""

    def __init__(self, job: str, *, initialized: bool = True) -> None:
        super().__init__(job=job, initialized=initialized)

    def is_initialized(self) -> bool:
        return self.initialized

    def get_runtime_context(self) -> Any:
        return SimpleNamespace(get_job_id=lambda: self.job)


class Broken:
    """A version that has none of it."""


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The environment of a worker that was started in advance, below `paceline run -- ray start`."""
    for name in ("PACELINE_JOB", "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", "MASTER_ADDR", "PMIX_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RAY_JOB_ID", WAITING)
    monkeypatch.setenv("PACELINE_JOB_FALLBACK", "ray-71204-9f3c")
    return monkeypatch


def test_a_worker_that_was_started_in_advance_has_the_name_of_its_job(worker: pytest.MonkeyPatch) -> None:
    """The same as one that was started for it."""
    worker.setitem(sys.modules, "ray", Ray(NUMBER))
    early = job_of(current_environment())
    worker.setenv("RAY_JOB_ID", NUMBER)
    assert early == job_of(current_environment()) == "ray-02000000"


@pytest.mark.long
def test_a_rank_says_it_in_its_hello(worker: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """... which is written when training has begun, not when the worker was started."""
    worker.setenv("PACELINE_SOCKET", str(tmp_path / "s"))
    ray = Ray(WAITING)
    worker.setitem(sys.modules, "ray", ray)
    rank = Rank(tmp_path / "s")
    ray.job = NUMBER
    rank.probe.device = SimpleNamespace(type="cpu")
    assert rank.hello().job == "ray-02000000"
    rank.session.end()


def test_ranks_that_start_timing_themselves_meet_at_one_sidecar(worker: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its path is made of the job's name."""
    worker.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    worker.setitem(sys.modules, "ray", Ray(NUMBER))
    early = _socket_path()
    worker.setenv("RAY_JOB_ID", NUMBER)
    assert _socket_path() == early


@pytest.mark.parametrize("ray", [None, Broken(), Ray(NUMBER, initialized=False), Ray(WAITING)])
def test_where_ray_cannot_tell_no_name_is_made_of_a_job_that_is_none(worker: pytest.MonkeyPatch, ray: Any) -> None:
    """Not imported, another version, not connected, or not at work: the sidecar's own name holds."""
    if ray is None:
        worker.delitem(sys.modules, "ray", raising=False)
    else:
        worker.setitem(sys.modules, "ray", ray)
    assert job_of(current_environment()) == ""
    assert ray is not None or "ray" not in sys.modules, "nothing of Ray's is imported"


def test_elsewhere_ray_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A script under torchrun may use Ray, too."""
    monkeypatch.delenv("RAY_JOB_ID", raising=False)
    monkeypatch.setitem(sys.modules, "ray", Ray(NUMBER))
    assert "RAY_JOB_ID" not in current_environment()


def in_trial(worker: pytest.MonkeyPatch, trial: Any) -> None:
    session = None if trial is None else SimpleNamespace(trial_id=trial)
    worker.setitem(sys.modules, "ray.train._internal.session", SimpleNamespace(get_session=lambda: session))


@pytest.mark.parametrize("known", [WAITING, NUMBER])
def test_trials_of_one_driver_are_jobs_of_their_own(worker: pytest.MonkeyPatch, known: str) -> None:
    """They train at the same time, each with a rank 0; a trial keeps its name when it restarts."""
    worker.setenv("RAY_JOB_ID", known)
    worker.setitem(sys.modules, "ray", Ray(NUMBER))
    names = []
    for trial in ("11dbd_00000", "11dbd_00001", "11dbd_00001"):
        in_trial(worker, trial)
        names.append(job_of(current_environment()))
    assert names == ["ray-02000000-11dbd_00000", "ray-02000000-11dbd_00001", "ray-02000000-11dbd_00001"]


def test_trials_that_start_timing_themselves_have_a_sidecar_each(worker: pytest.MonkeyPatch, tmp_path: Path) -> None:
    worker.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    worker.setitem(sys.modules, "ray", Ray(NUMBER))
    paths = set()
    for trial in ("11dbd_00000", "11dbd_00001"):
        in_trial(worker, trial)
        paths.add(_socket_path())
    assert len(paths) == 2


@pytest.mark.parametrize("trial", [None, "", 7, "../../etc", "a b", "x" * 65, ["11dbd_00000"], Broken()])
def test_what_is_no_trial_changes_no_name(worker: pytest.MonkeyPatch, trial: Any) -> None:
    worker.setitem(sys.modules, "ray", Ray(NUMBER))
    in_trial(worker, trial)
    assert job_of(current_environment()) == "ray-02000000"


def test_a_ray_without_sessions_changes_no_name(worker: pytest.MonkeyPatch) -> None:
    worker.setitem(sys.modules, "ray", Ray(NUMBER))
    worker.setitem(sys.modules, "ray.train._internal.session", Broken())
    assert job_of(current_environment()) == "ray-02000000"


def test_a_trial_of_a_job_that_is_none_has_no_name(worker: pytest.MonkeyPatch) -> None:
    worker.setitem(sys.modules, "ray", Ray(WAITING))
    in_trial(worker, "11dbd_00000")
    assert job_of(current_environment()) == ""


def test_a_name_that_is_given_stands_before_the_trials(worker: pytest.MonkeyPatch) -> None:
    worker.setenv("PACELINE_JOB", "resnet-7")
    worker.setitem(sys.modules, "ray", Ray(NUMBER))
    in_trial(worker, "11dbd_00001")
    assert job_of(current_environment()) == "resnet-7"
