"""A door: requests to the API of Kubernetes, by the official client's connection, login and certificates.

Rule of this file: it asks and hands on; what the answers mean is decided elsewhere. TLS is verified, or nothing is
said; an answer and the time for it are bounded. An API that is away for now is an ``AwayError``; whoever asked decides
for how long to ask again.
"""

import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import msgspec
import urllib3
import yaml
from kubernetes import client, config

from paceline.decoders import json_decoder

from .executor import ExecutorError
from .kube_options import KubernetesOptions
from .kube_states import plain

CONNECT_S, ANSWER_S = 5.0, 30.0
#: Bytes of an answer; of the end of a log, of which so many lines are asked for, and of all that comes for them.
MOST_BYTES, MOST_LOG, LOG_LINES, MOST_LOG_READ = 64 * 2**20, 2**20, 1000, 64 * 2**20
GROUPS = {"jobs": "/apis/batch/v1", "events": "/api/v1", "pods": "/api/v1", "secrets": "/api/v1", "services": "/api/v1"}
#: Answers that another time may be others.
AWAY = (408, 410, 425, 429)
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_DAMAGED = (config.ConfigException, yaml.YAMLError, OSError, ValueError, TypeError, LookupError, AttributeError)


class AwayError(ExecutorError):
    """The API cannot be asked for now; it may have said for how long."""

    def __init__(self, message: str, after_s: float = 0.0) -> None:
        super().__init__(message)
        self.after_s = after_s


class RefusedError(ExecutorError):
    """The API answered, and refused."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class _Status(msgspec.Struct):
    reason: str = ""
    message: str = ""


def configuration(options: KubernetesOptions, environ: Mapping[str, str]) -> client.Configuration:
    """Where the API is and how to log in: as the options say, the pod's service account, or the usual file.

    Raises:
        ExecutorError: there is none, it is damaged, or it would not check whom it talks to.
    """
    made = client.Configuration()
    try:
        if options.kubeconfig is None and options.context is None and environ.get("KUBERNETES_SERVICE_HOST"):
            config.load_incluster_config(made)
        else:
            config.load_kube_config(options.kubeconfig, options.context, made, persist_config=False)
    except _DAMAGED as error:
        allowed = "executor.kubernetes.kubeconfig and context, KUBECONFIG, or a pod's service account"
        raise ExecutorError(f"no login to Kubernetes: {plain(str(error))}; allowed: {allowed}") from None
    host = urlsplit(made.host)
    if host.scheme != "https" and host.hostname not in _LOOPBACK:
        raise ExecutorError(f"{made.host}: not encrypted; allowed: https, or http on loopback (kubectl proxy)")
    if not made.verify_ssl:
        raise ExecutorError(f"{made.host}: insecure-skip-tls-verify; allowed: certificate-authority in the kubeconfig")
    made.retries = False
    return made


class KubeClient:
    """Requests within one namespace, one at a time."""

    def __init__(self, options: KubernetesOptions, environ: Mapping[str, str] = os.environ) -> None:
        self._namespace = options.namespace
        #: Whether anything was ever granted.
        self.answered = False
        self._client = client.ApiClient(configuration(options, environ))
        self._client.user_agent = "paceline-trial"

    def close(self) -> None:
        """Let go of all connections."""
        self._client.close()

    def get(self, plural: str, name: str) -> bytes | None:
        """One object; None where there is none."""
        try:
            return self._read(self._send("GET", plural, name))
        except RefusedError as error:
            if error.status == 404:
                return None
            raise

    def list(self, plural: str, **query: str) -> bytes:
        """All that ``query`` selects."""
        return self._read(self._send("GET", plural, query=query))

    def create(self, plural: str, body: Any) -> bytes:
        """A new one.

        Raises:
            RefusedError: it is not allowed, or (409) there is one of this name.
        """
        return self._read(self._send("POST", plural, query={"fieldManager": "paceline-trial"}, body=body))

    def delete(self, plural: str, name: str, uid: str = "", policy: str = "Background") -> bool:
        """Delete one, or that one alone whose ``uid`` this is; False where there is none."""
        body = {"propagationPolicy": policy} | ({"preconditions": {"uid": uid}} if uid else {})
        try:
            self._read(self._send("DELETE", plural, name, body=body))
        except RefusedError as error:
            # 409: another one of its name, by now.
            if error.status == 404 or (error.status == 409 and uid):
                return False
            raise
        return True

    def log(self, pod: str) -> bytes | None:
        """The end of what a pod's container has printed; None where there is nothing to be had."""
        query = {"container": "trial", "tailLines": str(LOG_LINES)}
        try:
            answer = self._send("GET", "pods", pod, "log", query)
        except RefusedError as error:
            if error.status in (400, 404):
                return None
            raise
        kept, read = b"", 0
        try:
            for part in answer.stream(65_536):
                kept, read = (kept + part)[-MOST_LOG:], read + len(part)
                if read > MOST_LOG_READ:
                    break
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise AwayError(f"a log that broke off: {plain(str(error))}") from None
        finally:
            answer.close()
        return kept

    def _send(
        self,
        method: str,
        plural: str,
        name: str = "",
        part: str = "",
        query: Mapping[str, str] | None = None,
        body: Any = None,
    ) -> urllib3.BaseHTTPResponse:
        parts = ["namespaces", self._namespace, plural, *filter(None, (name, part))]
        path = "/".join([GROUPS[plural], *(quote(one, safe="") for one in parts)])
        path += f"?{urlencode(query)}" if query else ""
        headers = {"Accept": "*/*" if part else "application/json"}
        headers |= {} if body is None else {"Content-Type": "application/json"}
        try:
            request = self._client.param_serialize(
                method, path, header_params=headers, body=body, auth_settings=["BearerToken"]
            )
            answer = self._client.call_api(*request, _request_timeout=(CONNECT_S, ANSWER_S)).response
        except client.ApiException as error:
            raise AwayError(f"Kubernetes does not answer: {plain(str(error.reason))}") from None
        except (urllib3.exceptions.HTTPError, OSError, config.ConfigException) as error:
            raise AwayError(f"Kubernetes does not answer: {plain(str(error))}") from None
        if not 200 <= answer.status <= 299:
            raise self._refused(answer, method, f"{plural}/{part}" if part else plural, name)
        self.answered = True
        return answer  # type: ignore[no-any-return]

    def _read(self, answer: urllib3.BaseHTTPResponse) -> bytes:
        try:
            content = answer.read(MOST_BYTES + 1)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            answer.close()
            raise AwayError(f"an answer that broke off: {plain(str(error))}") from None
        if len(content) > MOST_BYTES:
            answer.close()
            raise ExecutorError(f"Kubernetes: an answer of more than {MOST_BYTES} bytes")
        answer.release_conn()
        return content

    def _refused(self, answer: urllib3.BaseHTTPResponse, method: str, what: str, name: str) -> ExecutorError:
        content = self._read(answer)
        try:
            told = json_decoder(_Status).decode(content)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            told = _Status(message=content[:300].decode(errors="replace"))
        said = f"Kubernetes: {answer.status} {plain(told.reason)}: {plain(told.message)}"
        after = (answer.headers.get("Retry-After") or "").strip()
        # A login that was good and is not any more is renewed by the client.
        if answer.status in AWAY or answer.status >= 500 or (answer.status == 401 and self.answered):
            return AwayError(said, float(after) if after.isascii() and after.isdigit() and len(after) < 5 else 0.0)
        if answer.status == 403 and "exceeded quota" not in told.message:
            said += f"; fix: the Role in docs/trials.md ({method} {what} in {self._namespace})"
        return RefusedError(said, answer.status)
