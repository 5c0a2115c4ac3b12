"""The environment of this process, with the number of its job, and its trial, as Ray tells them now.

Rule of this file: Ray is asked where the script has imported it, never imported or started. A worker process that Ray
starts in advance gets the number of no job in its environment, and belongs to a job only once it has work. Trials of
Ray Tune share their driver's job, and each is a job of its own here: they train at the same time, with the same ranks.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping

from paceline.identity import NO_RAY_JOB, RAY_JOB

#: Where Ray keeps what a worker works at. Its public functions write a warning where there is no trial.
_SESSION = "ray.train._internal.session"
_TRIAL = re.compile(r"[A-Za-z0-9_-]{1,64}")


def current_environment() -> Mapping[str, str]:
    """``os.environ``; in a worker of Ray's with the job that it works for, and behind that its trial, if it has one."""
    if RAY_JOB not in os.environ:
        return os.environ
    job, trial = _asked() or os.environ[RAY_JOB], _trial()
    if trial and job.strip() not in ("", NO_RAY_JOB):
        job = f"{job.strip()}-{trial}"
    return {**os.environ, RAY_JOB: job}


def _asked() -> str:
    """The job's number by Ray; "" where it cannot tell."""
    try:
        ray = sys.modules["ray"]
        return str(ray.get_runtime_context().get_job_id()) if ray.is_initialized() else ""
    except Exception:  # Of another version, on its way out, or still being imported.
        return ""


def _trial() -> str:
    """The trial of Ray Tune that this worker is part of; "" for none."""
    try:
        session = sys.modules[_SESSION].get_session()
        trial = session.trial_id if session is not None else None
    except Exception:  # As above.
        return ""
    return trial if isinstance(trial, str) and _TRIAL.fullmatch(trial) else ""
