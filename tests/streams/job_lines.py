"""The two lines of a job's state, each by itself as tests look at it: what it says, and no more."""

from typing import Any

from paceline.events import Finding
from streams.job_state import JobState
from streams.jobs.config import JobConfig
from streams.jobs.job_diagnosis import JobDiagnosis as Line


class _OneLine(JobState):
    """A job's state, of which one line is heard."""

    def _of_line(self, answer: Any) -> bool:
        raise NotImplementedError

    def update(self, event: Any) -> list[Any]:
        return [one for one in super().update(event) if self._of_line(one)]

    def finish(self) -> list[Any]:
        return [one for one in super().finish() if self._of_line(one)]

    def conclude(self) -> list[Any]:
        return [one for one in super().conclude() if self._of_line(one)]

    def expire(self) -> list[Any]:
        return [one for one in super().expire() if self._of_line(one)]


class JobDiagnosis(_OneLine):
    """The findings."""

    def _of_line(self, answer: Any) -> bool:
        return isinstance(answer, Finding)

    @property
    def line(self) -> Line:
        return self.diagnosis

    @property
    def config(self) -> JobConfig:
        return self.diagnosis.config

    @property
    def phases(self) -> Any:
        return self.diagnosis.phases

    @property
    def collectives(self) -> Any:
        return self.diagnosis.collectives

    @property
    def short(self) -> Any:
        return self.diagnosis.short


class JobWindows(_OneLine):
    """The windows."""

    def _of_line(self, answer: Any) -> bool:
        return not isinstance(answer, Finding)
