"""The environment of this process, with the number of its job as Ray tells it now.

Rule of this file: Ray is asked where the script has imported it, never imported or started. A worker process that Ray
starts in advance gets the number of no job in its environment, and belongs to a job only once it has work.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from paceline.identity import RAY_JOB


def current_environment() -> Mapping[str, str]:
    """``os.environ``; in a worker of Ray's with the number of the job that it works for."""
    if RAY_JOB not in os.environ:
        return os.environ
    job = _asked()
    return {**os.environ, RAY_JOB: job} if job else os.environ


def _asked() -> str:
    """The job's number by Ray; "" where it cannot tell."""
    try:
        ray = sys.modules["ray"]
        return str(ray.get_runtime_context().get_job_id()) if ray.is_initialized() else ""
    except Exception:  # Of another version, on its way out, or still being imported.
        return ""
