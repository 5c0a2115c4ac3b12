"""A door: requests to the API of Kubernetes, by the official client's connection, login and certificates.

Rule of this file: bytes and JSON; what they mean is decided elsewhere. TLS is verified, or nothing is said; every
answer is bounded. Nothing is tried again here: whoever asks decides when.
"""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

import urllib3
import yaml
from kubernetes import client, config
from kubernetes.config import incluster_config
from kubernetes.config.incluster_config import InClusterConfigLoader

from paceline.settings import SettingError

from .api_errors import ApiError, no_right, of_answer

MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
#: Who wrote what, in ``managedFields``.
MANAGER = "paceline-annotator"
ROLE = "the annotator's ClusterRole"
#: For an answer; for a connection; bytes of an answer, and of one line of a watch.
ANSWER_S, CONNECT_S = 20.0, 5.0
MOST_BYTES, MOST_LINE_BYTES = 64 * 1024 * 1024, 4 * 1024 * 1024
#: What the client raises for a kubeconfig that it cannot use: with words for a person, and for another form with none.
_EXPLAINED = (config.ConfigException, yaml.YAMLError, OSError)
_OF_ANOTHER_FORM = (ValueError, TypeError, LookupError, AttributeError)
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Resource(NamedTuple):
    """Where objects of a kind are: ``plural`` in the path, and whether they lie in namespaces."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool

    @property
    def group(self) -> str:
        """The API group; "" is the core one."""
        return self.api_version.rpartition("/")[0]

    def path(self, namespace: str = "", name: str = "", part: str = "") -> str:
        """The path of all of them, of those in ``namespace``, of one, or of a ``part`` of one."""
        parts = ["apis" if self.group else "api", *self.api_version.split("/")]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts += [self.plural, *filter(None, (name, part))]
        return "/" + "/".join(quote(one, safe="") for one in parts)


PODS = Resource("v1", "Pod", "pods", True)
NODES = Resource("v1", "Node", "nodes", False)
EVENTS = Resource("events.k8s.io/v1", "Event", "events", True)


def configuration(
    kubeconfig: str | None, context: str | None, environ: Mapping[str, str], token_s: float = 60.0
) -> client.Configuration:
    """Where the API is and how to log in: from ``kubeconfig``, the pod's service account, or the usual file.

    The service account's token is read anew every ``token_s`` seconds: it ends after an hour.

    Raises:
        SettingError: there is none, it is damaged, or it would not check whom it talks to.
    """
    made = client.Configuration()
    try:
        if kubeconfig is None and context is None and environ.get("KUBERNETES_SERVICE_HOST"):
            _of_the_pod(environ, token_s).load_and_set(made)
        else:
            config.load_kube_config(kubeconfig, context, made, persist_config=False)
    except (*_EXPLAINED, *_OF_ANOTHER_FORM) as error:
        says = _why_unusable(kubeconfig, error)
        raise SettingError(f"--kubeconfig: {says}; allowed: a kubeconfig, or a pod's service account") from error
    _trusted(made)
    made.retries = False
    made.keep_alive = True
    return made


def _why_unusable(kubeconfig: str | None, error: Exception) -> str:
    why = _line(error) if isinstance(error, _EXPLAINED) else "it has not the form of a kubeconfig"
    return why if kubeconfig is None or kubeconfig in why else f"{kubeconfig}: {why}"


def _trusted(configured: client.Configuration) -> None:
    host = urlsplit(configured.host)
    if host.scheme != "https" and host.hostname not in LOOPBACK:
        raise SettingError(f"{configured.host}: not encrypted; allowed: https, or http on loopback (kubectl proxy)")
    if not configured.verify_ssl:
        said = f"{configured.host}: insecure-skip-tls-verify"
        raise SettingError(f"{said}; allowed: certificate-authority in the kubeconfig")


def _of_the_pod(environ: Mapping[str, str], token_s: float) -> InClusterConfigLoader:
    loader = InClusterConfigLoader(
        incluster_config.SERVICE_TOKEN_FILENAME, incluster_config.SERVICE_CERT_FILENAME, environ=environ
    )
    loader._token_refresh_period = timedelta(seconds=token_s)
    return loader


class KubeApi:
    """Requests, one at a time or several threads' at once."""

    def __init__(self, configured: client.Configuration) -> None:
        self._client = client.ApiClient(configured)
        self._client.user_agent = MANAGER
        self.host: str = configured.host
        #: Requests that were made, by verb.
        self.requests: dict[str, int] = {}

    def close(self) -> None:
        """Let go of all connections."""
        self._client.close()

    def get(self, resource: Resource, namespace: str, name: str) -> bytes:
        """One object."""
        return self._checked("get", resource, "GET", resource.path(namespace, name))

    def list(self, resource: Resource, namespace: str, query: Mapping[str, Any], accept: str = "") -> bytes:
        """A page of them."""
        return self._checked("list", resource, "GET", resource.path(namespace), query, accept=accept)

    def create(self, resource: Resource, namespace: str, body: Any) -> bytes:
        """A new one."""
        query = {"fieldManager": MANAGER}
        return self._checked("create", resource, "POST", resource.path(namespace), query, body, "application/json")

    def patch(
        self, resource: Resource, namespace: str, name: str, body: Any, part: str = "", form: str = MERGE
    ) -> bytes:
        """Change one, or a part of it."""
        path = resource.path(namespace, name, part)
        return self._checked("patch", resource, "PATCH", path, {"fieldManager": MANAGER}, body, form, part=part)

    def discover(self, path: str) -> bytes:
        """What the API offers at ``path``."""
        return self._read(self._send("GET", path, {}, None, "", "", ANSWER_S))

    def watch(self, resource: Resource, namespace: str, query: Mapping[str, Any], accept: str = "") -> Iterator[bytes]:
        """Lines of a watch that the server has begun, until it ends it.

        Raises:
            ApiError: it is refused, or, while lines are read, breaks off.
        """
        self._count("watch")
        patience_s = float(query["timeoutSeconds"]) + ANSWER_S
        try:
            answer = self._send(
                "GET", resource.path(namespace), {**query, "watch": "true"}, None, "", accept, patience_s
            )
        except ApiError as error:
            raise _named(error, "watch", resource, "") from None
        return _told(answer)

    def _checked(
        self,
        verb: str,
        resource: Resource,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        form: str = "",
        accept: str = "",
        part: str = "",
    ) -> bytes:
        self._count(verb)
        try:
            return self._read(self._send(method, path, query or {}, body, form, accept, ANSWER_S))
        except ApiError as error:
            raise _named(error, verb, resource, part) from None

    def _send(
        self, method: str, path: str, query: Mapping[str, Any], body: Any, form: str, accept: str, patience_s: float
    ) -> urllib3.BaseHTTPResponse:
        headers = {"Accept": accept or "application/json", **({"Content-Type": form} if form else {})}
        told = f"{path}?{urlencode(query)}" if query else path
        try:
            request = self._client.param_serialize(
                method, told, header_params=headers, body=body, auth_settings=["BearerToken"]
            )
            answer = self._client.call_api(*request, _request_timeout=(CONNECT_S, patience_s)).response
        except client.ApiException as error:
            raise ApiError(0, "", _line(error.reason)) from error
        except (urllib3.exceptions.HTTPError, OSError, config.ConfigException) as error:
            raise ApiError(0, "", _line(error)) from error
        if not 200 <= answer.status <= 299:
            body = self._read(answer)
            raise of_answer(answer.status, body, answer.headers.get("Retry-After"))
        return answer  # type: ignore[no-any-return]

    def _read(self, answer: urllib3.BaseHTTPResponse) -> bytes:
        try:
            content = answer.read(MOST_BYTES + 1)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            answer.close()
            raise ApiError(0, "", _line(error)) from error
        if len(content) > MOST_BYTES:
            answer.close()
            raise ApiError(0, "", f"an answer of more than {MOST_BYTES} bytes")
        answer.release_conn()
        return content

    def _count(self, verb: str) -> None:
        self.requests[verb] = self.requests.get(verb, 0) + 1


def _line(error: object) -> str:
    return " ".join(str(error).split())[:300]


def _named(error: ApiError, verb: str, resource: Resource, part: str) -> ApiError:
    # A namespace that is being deleted takes nothing new: no right would help.
    if error.status != 403 or "being terminated" in error.message:
        return error
    return no_right(error, verb, resource.group, f"{resource.plural}/{part}" if part else resource.plural, ROLE)


def _told(answer: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    """Lines until the server ends them, and then no connection is left."""
    try:
        yield from _lines(answer)
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise ApiError(0, "", _line(error)) from error
    finally:
        answer.close()


def _lines(answer: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    """Whole lines; one that is too long ends it."""
    held = b""
    for chunk in answer.stream(65_536, decode_content=True):
        *whole, held = (held + chunk).split(b"\n")
        yield from filter(None, whole)
        if len(held) > MOST_LINE_BYTES:
            raise ApiError(0, "", f"a line of more than {MOST_LINE_BYTES} bytes")
