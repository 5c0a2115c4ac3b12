"""The cluster that a request about a job means: the one it names, or the only one that has a job of that name."""

from typing import Annotated

from fastapi import Query
from pydantic import Field

from paceline.web.failures import RefusedError

from ..book import Book

#: The longest name of a cluster that an event may have.
LONGEST = 1024
_WHICH = "Only needed where several clusters have a job of this name."
#: The cluster, in a body and in an address.
ClusterAsked = Annotated[str | None, Field(min_length=1, max_length=LONGEST, description=_WHICH, examples=["east"])]
ClusterQuery = Annotated[str | None, Query(min_length=1, max_length=LONGEST, description=_WHICH)]


def cluster_of(book: Book, job: str, asked: str | None, own: str) -> str:
    """The cluster that is meant: ``asked``, else where the job is, else ``own``, of a job that is not known.

    Raises:
        RefusedError: 409 several clusters have a job of that name, and none was named.
    """
    if asked is not None:
        return asked
    clusters = book.clusters(job)
    if reason := clusters.ambiguity(job):
        raise RefusedError(409, "cluster", reason)
    return clusters.meant[0] if clusters.meant else own
