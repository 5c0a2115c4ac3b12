"""Logins of HTTP sources: from a setting, a file, an address or a netrc file, and never in a message."""

import base64
from pathlib import Path

import pytest

from collectors.options import parse
from collectors.scraper import ExporterError, fetch
from forecaster.memory import Memory
from forecaster.prometheus import backfill
from paceline.commands import alerts
from paceline.commands.running_checks import answer
from paceline.control_client import ControlClient, ControlError
from paceline.http_login import authorization, parted
from paceline.kafka.settings import BrokerSettings
from paceline.prometheus import PrometheusError
from paceline.prometheus_server import checked, ranged
from paceline.settings import DCGM_LOGIN, PROMETHEUS_LOGIN, SettingError
from paceline.terminal import say

BASIC = f"Basic {base64.b64encode(b'prom:s3cret').decode()}"


def test_a_login_comes_from_the_setting_its_file_or_netrc(tmp_path):
    """In this order; a token as it is."""
    held = tmp_path / "login"
    held.write_text("prom:s3cret\n")
    url = "http://exporter:9400/metrics"
    assert authorization(url, DCGM_LOGIN, {"PACELINE_DCGM_LOGIN": "prom:s3cret"}, tmp_path) == BASIC
    assert authorization(url, DCGM_LOGIN, {"PACELINE_DCGM_LOGIN_FILE": str(held)}, tmp_path) == BASIC
    assert authorization(url, DCGM_LOGIN, {"PACELINE_DCGM_LOGIN": "Bearer abc.def"}, tmp_path) == "Bearer abc.def"
    (tmp_path / ".netrc").write_text("machine exporter login prom password s3cret\n")
    (tmp_path / ".netrc").chmod(0o600)
    assert authorization(url, DCGM_LOGIN, {}, tmp_path) == BASIC
    assert authorization(url, DCGM_LOGIN, {"NETRC": str(tmp_path / ".netrc")}, tmp_path / "x") == BASIC


@pytest.mark.parametrize("text", ["", "machine other login a password b\n", "machine exporter \x00 broken", "\xff"])
def test_a_netrc_file_without_the_host_is_no_login(text, tmp_path):
    """Whatever is in it."""
    (tmp_path / ".netrc").write_bytes(text.encode("latin-1"))
    assert authorization("http://exporter:9400", PROMETHEUS_LOGIN, {}, tmp_path) is None
    assert authorization("http://exporter:9400", PROMETHEUS_LOGIN, {}, tmp_path / "nowhere") is None


def test_a_file_that_is_not_there_is_said_without_its_content(tmp_path):
    """By the setting's name."""
    with pytest.raises(SettingError, match="PACELINE_PROMETHEUS_LOGIN_FILE"):
        authorization(
            "http://h", PROMETHEUS_LOGIN, {"PACELINE_PROMETHEUS_LOGIN_FILE": str(tmp_path / "none")}, tmp_path
        )


@pytest.mark.parametrize(
    "address",
    [
        "http://user:s3cret@host:9400",
        "http://user:s3 cret@host",
        "http://user:s3cret@p@host/metrics",
        "user:s3cret@host:9400",
        "//user:s3cret@host",
        "http:/user:s3cret@host",
        "http://s3cret@host:port",
    ],
)
def test_no_refusal_holds_a_password(address, capsys):
    """However the address is written; where the login goes is said."""
    with pytest.raises(SystemExit):
        parse(["--dcgm", address], {})
    said = capsys.readouterr().err
    assert "s3" not in said
    assert "PACELINE_DCGM_LOGIN" in said
    with pytest.raises(PrometheusError) as caught:
        checked(address)
    assert "s3" not in str(caught.value)


def test_an_address_is_shown_without_its_login():
    """Also where the password has the sign in it."""
    assert parted("https://a:p@ss@host/x") == ("https://host/x", "a:p@ss")


def test_a_setting_that_cannot_be_read_is_an_exporter_that_cannot_be_read():
    """One line, and the host is measured all the same."""

    def login():
        raise SettingError("PACELINE_DCGM_LOGIN_FILE: no such file")

    with pytest.raises(ExporterError, match="PACELINE_DCGM_LOGIN_FILE"):
        fetch("http://127.0.0.1:9/metrics", 120.0, login)


#: A password with a sign in it that ends an address for libraries: they quote what is before or behind it.
SLASHED = "http://ada:s3cr/et@127.0.0.1:9"
PROXIES = ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy")


def said_of(ask, capsys):
    """What a command says of what ``ask`` raises or returns."""
    try:
        say(str(ask()))
    except (PrometheusError, ControlError, SettingError) as error:
        say(str(error))
    return capsys.readouterr().err


ASKED = {
    "doctor --ask": lambda: answer("service", SLASHED, must=True).says,
    "doctor --ask, no scheme": lambda: answer("service", "ada:s3cr/et@kafka-1:9092", must=True).says,
    "forecaster --prometheus, no scheme": lambda: backfill("ada:s3cr/et@127.0.0.1:9", Memory()),
    "a path that was an address": lambda: Path(SLASHED) / "x",
    "control": lambda: ControlClient(SLASHED).call("GET", "/v1/jobs"),
    "forecaster --prometheus": lambda: backfill(SLASHED, Memory()),
    "--brokers": lambda: BrokerSettings.from_environ({}, "ada:s3cr/et@kafka-1:9092"),
    "PACELINE_BROKERS": lambda: BrokerSettings.from_environ({"PACELINE_BROKERS": "ada:s3cr/et@kafka-1:9092"}),
}


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_no_piece_of_a_password_is_quoted(ask, capsys, monkeypatch):
    """Nor is there a traceback: what cannot be used is one line."""
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
    said = said_of(ask, capsys)
    assert said.count("\n") == 1
    assert "s3cr" not in said
    assert "/et" not in said


PROXIED = {
    "suggestions --prometheus": lambda: ranged("http://prometheus:9090", {}),
    "forecaster --prometheus": lambda: backfill("http://prometheus:9090", Memory()),
}


@pytest.mark.long
@pytest.mark.parametrize("ask", PROXIED.values(), ids=PROXIED)
@pytest.mark.parametrize("proxy", [SLASHED, "socks5h://ada:s3cr/et@127.0.0.1:9", "socks5://ada:s3cret@127.0.0.1:9"])
def test_no_piece_of_a_proxys_password_is_quoted(ask, proxy, capsys, monkeypatch):
    """Whatever a library makes of what the environment says of it."""
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("http_proxy", proxy)
    said = said_of(ask, capsys)
    assert "Prometheus at http://prometheus:9090" in said
    assert said.count("\n") == 1
    assert "s3cr" not in said
    assert "/et" not in said


@pytest.mark.parametrize("page", ["https://ada:s3cret@page", "https://s3cret@page/x", "https://ada:s3/cret@page"])
def test_alerts_carry_no_login_of_the_page(page, capsys):
    """Their links would: it is refused."""
    with pytest.raises(SystemExit):
        alerts.parser().parse_args(["--page", page])
    assert "s3" not in capsys.readouterr().err


def test_why_an_address_fails_is_still_said():
    """Where nothing of it is in that."""
    assert "begins with http" in answer("service", "kafka-1:9092", must=True).says
