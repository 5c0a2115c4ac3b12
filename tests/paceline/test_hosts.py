"""Own names are answered, foreign ones are not, whatever they look like."""

import socket

import pytest

from paceline import hosts
from paceline.settings import ALLOWED_HOSTS, SettingError

NAMES = hosts.answered("0.0.0.0", ("page.example.com", "*.cluster.local"))


def asked(host: str | None, origin: str | None = None, **fetch: str) -> dict[str, str]:
    """The headers of a request; ``fetch`` are those of a browser."""
    given = {"host": host, "origin": origin, **{f"sec-fetch-{name}": value for name, value in fetch.items()}}
    return {name: value for name, value in given.items() if value is not None}


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
    assert hosts.refusal(asked(host, origin), NAMES) is None


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
    problem = hosts.refusal(asked(host, origin), NAMES)
    assert problem is not None
    assert problem[0] == header
    assert "PACELINE_ALLOWED_HOSTS" in problem[1]


def test_on_one_address_only_that_is_answered_beside_loopback() -> None:
    """The machine's other names belong to other listeners."""
    assert set(hosts.answered("192.0.2.7")) == {*hosts.LOOPBACK, "192.0.2.7"}


def test_any_name_can_be_allowed() -> None:
    """Where a proxy before the service looks after names."""
    assert hosts.refusal(asked("anything", "https://else.where"), hosts.answered("0.0.0.0", ("*",))) is None


@pytest.mark.parametrize("value", ["http://a", "a:80", "a b", "*a", "-a", "a," + "b" * 300, ",".join(["a"] * 257)])
def test_a_wrong_name_in_the_setting_is_told(value: str) -> None:
    """Ports, schemes and loose wildcards are no names."""
    with pytest.raises(SettingError, match="PACELINE_ALLOWED_HOSTS"):
        ALLOWED_HOSTS.read({"PACELINE_ALLOWED_HOSTS": value})


def test_the_setting_is_a_list_of_names() -> None:
    """Names, wildcards and addresses."""
    read = ALLOWED_HOSTS.read({"PACELINE_ALLOWED_HOSTS": "A.example, *.b.example,192.0.2.7,2001:db8::1,*"})
    assert read == ("a.example", "*.b.example", "192.0.2.7", "2001:db8::1", "*")


@pytest.mark.parametrize(
    ("fetch", "refused"),
    [
        ({"site": "cross-site", "mode": "no-cors", "dest": "image"}, True),
        ({"site": "cross-site", "mode": "navigate", "dest": "iframe"}, True),
        ({"site": "cross-site"}, True),
        ({"site": "cross-site", "mode": "navigate", "dest": "document"}, False),
        ({"site": "same-origin", "mode": "cors", "dest": "empty"}, False),
        ({"site": "none", "mode": "navigate", "dest": "document"}, False),
        ({}, False),
    ],
)
def test_a_foreign_page_gets_no_picture_and_no_frame(fetch: dict[str, str], refused: bool) -> None:
    """A browser sends no Origin with those; a person who follows a link is answered."""
    problem = hosts.refusal(asked("localhost", None, **fetch), NAMES)
    assert (problem is not None and problem[0] == "sec-fetch-site") is refused


def test_a_page_whose_origin_is_known_may_ask_from_elsewhere() -> None:
    """Its name was added."""
    assert hosts.refusal(asked("localhost", "https://page.example.com", site="cross-site", mode="cors"), NAMES) is None
