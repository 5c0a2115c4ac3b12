"""Logins of HTTP sources: from a setting, a file, an address or a netrc file, and never in a message."""

import base64

import pytest

from collectors.options import parse
from collectors.scraper import ExporterError, fetch
from paceline.http_login import authorization, parted
from paceline.prometheus import PrometheusError
from paceline.prometheus_server import checked
from paceline.settings import DCGM_LOGIN, PROMETHEUS_LOGIN, SettingError

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
