"""A question to a Prometheus server, by range queries over HTTP.

Rule of this file: a door. No more of an answer is read than there is room for, what unpacks to more than it was is not
asked for, and a server that drips is left in time. What is asked and what the answer says is ``paceline.prometheus``'
affair.
"""

import http.client
import os
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable, Mapping
from typing import IO

from .http_login import authorization, cause
from .prometheus import MOST_BYTES, Metric, PrometheusError, RefusedQueryError, Row, asked, mean, read
from .settings import PROMETHEUS_LOGIN

#: How long a server may be silent, and how long a whole answer may take.
TIMEOUT_S, WHOLE_S = 30.0, 120.0
_PIECE = 1 << 18


class TooLargeError(PrometheusError):
    """An answer of more bytes than are read: less has to be asked for."""


class RefusedError(PrometheusError):
    """The server refuses a question: it may be too much for it."""


def checked(url: str) -> str:
    """The address of a server, without a slash at its end.

    Raises:
        PrometheusError: it is none, or holds a password, which would come to be seen in logs.

    >>> checked("http://127.0.0.1:9090/")
    'http://127.0.0.1:9090'
    """
    if not url.startswith(("http://", "https://")):
        raise PrometheusError(f"Prometheus at {url.rpartition('@')[2]}: an address begins with http:// or https://")
    try:
        parts = urllib.parse.urlsplit(url)
        named = bool(parts.hostname) and parts.port != 0
    except ValueError:
        named = False
    if not named:
        raise PrometheusError("Prometheus: the address names no host, as http://127.0.0.1:9090 does; check the URL")
    if parts.username is not None or parts.password is not None:
        raise PrometheusError(
            f"Prometheus at {parts.hostname}: an address with a user or password in it is "
            f"not used; {PROMETHEUS_LOGIN.name}, its _FILE or ~/.netrc hold the login"
        )
    return url.rstrip("/")


def series(
    url: str,
    metric: Metric,
    begin_s: float,
    end_s: float,
    question: Callable[[Metric], str] = mean,
    left_out: Counter[str] | None = None,
) -> list[Row]:
    """The series of ``metric`` between two times; what is left out of them is counted in ``left_out``.

    Raises:
        PrometheusError: it does not answer, or not as Prometheus does (``TooLargeError``, ``RefusedError``).
    """
    answer = ranged(url, asked(metric, begin_s, end_s, question))
    try:
        return read(metric, answer, left_out)
    except RefusedQueryError as error:
        raise RefusedError(f"Prometheus at {url}: {error}") from error
    except ValueError as error:
        raise PrometheusError(f"Prometheus at {url}: no answer of a Prometheus; check the URL") from error


def ranged(url: str, parameters: Mapping[str, str]) -> bytes:
    """What is answered to a range query, of an error as well: Prometheus says there why it refuses.

    Raises:
        PrometheusError: it does not answer, or too slowly, or with too much (``TooLargeError``).
    """
    data = urllib.parse.urlencode(parameters).encode()
    headers = {"Accept-Encoding": "identity"}
    try:
        request = urllib.request.Request(f"{checked(url)}/api/v1/query_range", data, headers)  # noqa: S310 - checked
        login = authorization(url, PROMETHEUS_LOGIN, os.environ)
        if login is not None:
            request.add_unredirected_header("Authorization", login)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:  # noqa: S310 - see above
                content = _content(response, url)
        except urllib.error.HTTPError as error:
            with error:
                content = _content(error, url)
            if error.code in (401, 403):
                refused = f"status {error.code}; {PROMETHEUS_LOGIN.name}, its _FILE or ~/.netrc hold the login"
                raise PrometheusError(f"Prometheus at {url}: {refused}") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise PrometheusError(f"Prometheus at {url}: {cause(error)}; check the URL") from error
    return content


def _content(response: "IO[bytes]", url: str) -> bytes:
    content, end_s = bytearray(), time.monotonic() + WHOLE_S
    read = getattr(response, "read1", response.read)
    while piece := read(_PIECE):
        content += piece
        if len(content) > MOST_BYTES:
            raise TooLargeError(f"Prometheus at {url}: an answer of more than {MOST_BYTES:,} bytes; check the URL")
        if time.monotonic() > end_s:
            raise PrometheusError(f"Prometheus at {url}: no whole answer within {WHOLE_S:g} s")
    return bytes(content)
