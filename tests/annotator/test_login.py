"""Where the API is and who we are to it: kubeconfigs, a pod's service account, certificates that are verified."""

import json
import re
import ssl
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes.config import incluster_config

from annotator.api_errors import ApiError
from annotator.kube_api import NODES, KubeApi, configuration
from paceline.settings import SettingError
from tests.annotator.api_server import ApiServer

RULES = [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, and a server's certificate for 127.0.0.1."""
    folder = tmp_path_factory.mktemp("keys")
    (folder / "san").write_text("subjectAltName=IP:127.0.0.1\n")
    for command in (
        "openssl req -newkey rsa:2048 -nodes -days 2 -x509 -keyout ca.key -out ca.pem -subj /CN=tests",
        "openssl req -newkey rsa:2048 -nodes -keyout server.key -out csr -subj /CN=server",
        "openssl x509 -req -days 2 -in csr -CA ca.pem -CAkey ca.key -CAcreateserial -extfile san -out server.pem",
    ):
        subprocess.run(command.split(), cwd=folder, check=True, capture_output=True)
    return folder


@pytest.fixture
def secured(keys: Path, free_port: Callable[[], int]) -> Iterator[ApiServer]:
    """A server that speaks TLS and knows one token."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(keys / "server.pem", keys / "server.key")
    with ApiServer(free_port(), {"right": RULES}, tls) as server:
        yield server


def kubeconfig(folder: Path, server: str, token: str = "right", **cluster: Any) -> str:
    held = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "lab", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "lab",
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(held))
    return str(path)


def nodes(config: str | None, environ: dict[str, str] | None = None) -> bytes:
    api = KubeApi(configuration(config, None, environ or {}))
    try:
        return api.list(NODES, "", {})
    finally:
        api.close()


@pytest.mark.slow
def test_a_kubeconfig_with_the_right_authority_and_token(secured: ApiServer, keys: Path, tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, secured.url, **{"certificate-authority": str(keys / "ca.pem")})
    assert json.loads(nodes(path))["kind"] == "NodeList"


@pytest.mark.slow
def test_a_server_of_another_authority_is_not_talked_to(secured: ApiServer, tmp_path: Path) -> None:
    """Nothing is sent: no token either."""
    with pytest.raises(ApiError, match="certificate"):
        nodes(kubeconfig(tmp_path, secured.url))
    assert secured.asked == []


@pytest.mark.slow
def test_a_wrong_token_is_refused_in_a_sentence(secured: ApiServer, keys: Path, tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, secured.url, "wrong", **{"certificate-authority": str(keys / "ca.pem")})
    with pytest.raises(ApiError, match="401 Unauthorized"):
        nodes(path)


def test_who_would_not_look_at_certificates_is_refused(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, "https://127.0.0.1:1", **{"insecure-skip-tls-verify": True})
    with pytest.raises(SettingError, match="allowed: certificate-authority"):
        configuration(path, None, {})


@pytest.mark.parametrize("server", ["http://10.0.0.1:8001", "http://api.example", "http://127.0.0.1.example"])
def test_a_token_is_not_sent_in_the_clear(tmp_path: Path, server: str) -> None:
    with pytest.raises(SettingError, match="allowed: https"):
        configuration(kubeconfig(tmp_path, server), None, {})


@pytest.mark.parametrize("text", ["", "{}", "[1]", ":", "clusters: 7\nusers: x", "\x00"])
def test_a_damaged_kubeconfig_is_told_in_a_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "kubeconfig").write_text(text)
    with pytest.raises(SettingError, match="--kubeconfig") as refused:
        configuration(str(tmp_path / "kubeconfig"), None, {})
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize("text", ["hello", "[1]", "clusters: 7\nusers: x", "\x00"])
def test_a_file_that_is_no_kubeconfig_is_named_without_the_clients_own_words(tmp_path: Path, text: str) -> None:
    """Python's own ("'str' object does not support item assignment") help nobody."""
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(SettingError) as refused:
        configuration(str(path), None, {})
    assert str(path) in str(refused.value)
    assert not re.search("object|indices|codec", str(refused.value))


def test_a_kubeconfig_or_a_context_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=f"--kubeconfig: {tmp_path}/none: "):
        configuration(str(tmp_path / "none"), None, {})
    with pytest.raises(SettingError, match="other"):
        configuration(kubeconfig(tmp_path, "https://127.0.0.1:1"), "other", {})


@pytest.mark.slow
def test_a_pods_service_account_and_its_new_tokens(
    secured: ApiServer, keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tokens of service accounts end after an hour, and the kubelet puts new ones into the file."""
    token = tmp_path / "token"
    token.write_text("wrong")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(keys / "ca.pem"))
    environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(secured.port)}
    api = KubeApi(configuration(None, None, environ, token_s=0.0))
    with pytest.raises(ApiError, match="401"):
        api.list(NODES, "", {})
    token.write_text("right")
    assert json.loads(api.list(NODES, "", {}))["kind"] == "NodeList"
    api.close()


@pytest.mark.slow
def test_an_answer_without_an_end_is_not_read_for_ever(
    secured: ApiServer, keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("annotator.kube_api.MOST_BYTES", 100)
    secured.put("Node", "n", metadata={"annotations": {"a": "x" * 1000}})
    with pytest.raises(ApiError, match="an answer of more than 100 bytes"):
        nodes(kubeconfig(tmp_path, secured.url, **{"certificate-authority": str(keys / "ca.pem")}))


@pytest.mark.slow
def test_a_redirect_is_not_followed(secured: ApiServer, keys: Path, tmp_path: Path) -> None:
    """It would take the token somewhere else."""
    secured.fail(lambda asked: True, 302, times=1)
    with pytest.raises(ApiError, match="302"):
        nodes(kubeconfig(tmp_path, secured.url, **{"certificate-authority": str(keys / "ca.pem")}))
    assert len(secured.asked) == 1
