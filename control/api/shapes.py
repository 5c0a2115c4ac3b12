"""What requests hold: strict types, limits, and no unknown field."""

from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import Depends, Header
from pydantic import BaseModel, ConfigDict, Field, model_validator

from paceline.events import MOST_NAMED, SESSION_NAME
from paceline.visible import visible
from paceline.web.failures import REFUSALS, Refusal

Name = Annotated[str, Field(min_length=1, max_length=200)]
#: What OpenAPI says of routes that may come at a bad time.
CONFLICT: dict[int | str, dict[str, Any]] = {
    409: {"model": Refusal, "description": "It cannot be done as things stand; the text says why."}
}
AWAY: dict[int | str, dict[str, Any]] = {503: {"model": Refusal, "description": "The brokers are away."}}
BUSY: dict[int | str, dict[str, Any]] = {
    503: {"model": Refusal, "description": "Too much is asked for at a time, or the service ends."}
}
NO_ROOM: dict[int | str, dict[str, Any]] = {507: {"model": Refusal, "description": "There is no room on the disk."}}
BODY = REFUSALS


class Strict(BaseModel):
    """A request that is refused where it holds anything unknown."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Because(Strict):
    """Why; it goes into the audit log."""

    because: str = Field("", max_length=256, examples=["the node is drained tonight"])


class SessionAsked(Strict):
    """A session to be recorded: of a job with its nodes, of nodes with their jobs, or of everything."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"name": "resnet-tuesday", "job": "resnet-7", "interval_s": 0.2}]},
    )

    name: str = Field(pattern=SESSION_NAME, examples=["resnet-tuesday"])
    job: Name | None = None
    nodes: list[Name] | None = Field(None, min_length=1, max_length=MOST_NAMED)
    all: bool = False
    cluster: Annotated[str, Field(min_length=1, max_length=1024)] | None = Field(
        None, description="Only of this cluster; needed where several clusters run a job of this name."
    )
    devices: list[Name] = Field(
        [], max_length=MOST_NAMED, description="`node:index` or UUID; exports show these alone."
    )
    interval_s: float | None = Field(None, ge=0.05, le=60.0, description="Collectors sample so often for it.")
    adaptive: bool = Field(False, description="Only while something changes.")
    keep: bool = Field(False, description="Of a job: go on after it has ended, until it is stopped.")

    @model_validator(mode="after")
    def _one_of(self) -> "SessionAsked":
        if sum((self.job is not None, self.nodes is not None, self.all)) != 1:
            raise ValueError("say one of job, nodes and all")
        if self.adaptive and self.interval_s is None:
            raise ValueError("adaptive needs interval_s: how often while something changes")
        if self.keep and self.job is None:
            raise ValueError("keep needs job: a session of nodes, or of everything, goes on until it is stopped")
        return self


def issuer(
    x_paceline_issuer: Annotated[str | None, Header(max_length=600, description="Who asks, for the audit log.")] = None,
) -> str:
    """Who asks, as they say."""
    return visible(unquote(x_paceline_issuer or "")).strip()[:200] or "somebody with the token"


#: A parameter of a route that audits who asks.
Asker = Annotated[str, Depends(issuer)]
