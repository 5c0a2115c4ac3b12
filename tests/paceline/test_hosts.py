"""Own names are answered, foreign ones are not, whatever they look like."""

import socket

import pytest

from paceline import hosts
from paceline.settings import ALLOWED_HOSTS, SettingError

NAMES = hosts.answered("0.0.0.0", ("page.example.com", "*.cluster.local"))


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("127.0.0.1:8000", None),
        ("LocalHost", "http://localhost:8501"),
        ("[::1]:8000", None),
        ("page.example.com.", "https://page.example.com"),
        ("forecaster.training.cluster.local:8000", None),
        (socket.gethostname(), None),
    ],
)
def test_own_names_are_answered(host: str, origin: str | None) -> None:
    """With or without a port, in any case."""
    assert hosts.refusal(host, origin, NAMES) is None


@pytest.mark.parametrize(
    ("host", "origin", "header"),
    [
        (None, None, "host"),
        ("", None, "host"),
        ("evil.example", None, "host"),
        ("127.0.0.1.evil.example", None, "host"),
        ("evil.example@127.0.0.1", None, "host"),
        ("127.0.0.1/evil.example", None, "host"),
        ("[::1", None, "host"),
        ("cluster.local", None, "host"),
        ("evilcluster.local", None, "host"),
        ("localhost", "http://evil.example", "origin"),
        ("localhost", "null", "origin"),
        ("localhost", "", "origin"),
    ],
)
def test_foreign_names_are_refused(host: str | None, origin: str | None, header: str) -> None:
    """The header is named, and the setting that adds a name."""
    problem = hosts.refusal(host, origin, NAMES)
    assert problem is not None
    assert problem[0] == header
    assert "PACELINE_ALLOWED_HOSTS" in problem[1]


def test_on_one_address_only_that_is_answered_beside_loopback() -> None:
    """The machine's other names belong to other listeners."""
    assert set(hosts.answered("192.0.2.7")) == {*hosts.LOOPBACK, "192.0.2.7"}


def test_any_name_can_be_allowed() -> None:
    """Where a proxy before the service looks after names."""
    assert hosts.refusal("anything", "https://else.where", hosts.answered("0.0.0.0", ("*",))) is None


@pytest.mark.parametrize("value", ["http://a", "a:80", "a b", "*a", "-a", "a," + "b" * 300, ",".join(["a"] * 257)])
def test_a_wrong_name_in_the_setting_is_told(value: str) -> None:
    """Ports, schemes and loose wildcards are no names."""
    with pytest.raises(SettingError, match="PACELINE_ALLOWED_HOSTS"):
        ALLOWED_HOSTS.read({"PACELINE_ALLOWED_HOSTS": value})


def test_the_setting_is_a_list_of_names() -> None:
    """Names, wildcards and addresses."""
    read = ALLOWED_HOSTS.read({"PACELINE_ALLOWED_HOSTS": "A.example, *.b.example,192.0.2.7,2001:db8::1,*"})
    assert read == ("a.example", "*.b.example", "192.0.2.7", "2001:db8::1", "*")
