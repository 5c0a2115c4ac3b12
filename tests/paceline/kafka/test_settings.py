"""Broker settings from the environment and the command line."""

import argparse
import ssl
from pathlib import Path

import pytest

from paceline.kafka.settings import BrokerSettings, add_brokers_option, optional_settings
from paceline.settings import DATABASE, NO_COMMANDS, SASL_PASSWORD, SETTINGS, Setting, SettingError

SASL = {
    "PACELINE_SECURITY_PROTOCOL": "SASL_SSL",
    "PACELINE_SASL_USERNAME": "ada",
    "PACELINE_SASL_PASSWORD": "s3cret",
}


def test_without_settings_the_local_broker_is_used_in_the_clear():
    """Nothing set: 127.0.0.1:9092, no TLS, no login."""
    assert BrokerSettings.from_environ({}).kafka_options() == {
        "bootstrap_servers": ["127.0.0.1:9092"],
        "security_protocol": "PLAINTEXT",
        "reconnect_backoff_max_ms": 2000,
    }


@pytest.mark.long
def test_tls_and_login_become_client_options():
    """SASL_SSL gives a verifying TLS context, the mechanism and the login."""
    options = BrokerSettings.from_environ(SASL).kafka_options()
    assert isinstance(options["ssl_context"], ssl.SSLContext)
    assert options["ssl_context"].verify_mode is ssl.CERT_REQUIRED
    assert options["ssl_context"].check_hostname
    assert [options[name] for name in ("security_protocol", "sasl_mechanism", "sasl_plain_username")] == [
        "SASL_SSL",
        "SCRAM-SHA-512",
        "ada",
    ]


def test_the_password_shows_in_no_representation():
    """Settings that end up in a log do not carry the password."""
    assert "s3cret" not in repr(BrokerSettings.from_environ(SASL))


def test_a_command_that_can_do_without_brokers_may_be_told_so() -> None:
    """``none`` in the environment or as option, and the option is stronger; other commands do not know the word."""
    nowhere = {"PACELINE_BROKERS": "none"}
    assert optional_settings(nowhere) is None
    assert optional_settings({}, "none") is None
    assert optional_settings(nowhere, "k:1") == BrokerSettings(("k:1",)) == BrokerSettings.from_environ(nowhere, "k:1")
    assert optional_settings({}) == BrokerSettings()
    with pytest.raises(SettingError, match="PACELINE_BROKERS"):
        BrokerSettings.from_environ(nowhere)


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({"PACELINE_BROKERS": "kafka"}, "PACELINE_BROKERS"),
        ({"PACELINE_BROKERS": "kafka:0"}, "PACELINE_BROKERS"),
        ({"PACELINE_SECURITY_PROTOCOL": "TLS"}, "PACELINE_SECURITY_PROTOCOL"),
        ({"PACELINE_SSL_CAFILE": "/ca.pem"}, "PACELINE_SSL_CAFILE"),
        ({"PACELINE_SECURITY_PROTOCOL": "SSL", "PACELINE_SSL_KEYFILE": "/key.pem"}, "PACELINE_SSL_CERTFILE"),
        ({"PACELINE_SASL_USERNAME": "ada"}, "PACELINE_SASL_USERNAME"),
        ({"PACELINE_SECURITY_PROTOCOL": "SSL", "PACELINE_SASL_PASSWORD": "x"}, "PACELINE_SASL_PASSWORD"),
        ({**SASL, "PACELINE_SASL_USERNAME": ""}, "PACELINE_SASL_USERNAME"),
        ({**SASL, "PACELINE_SASL_PASSWORD": ""}, "PACELINE_SASL_PASSWORD"),
        ({**SASL, "PACELINE_SASL_MECHANISM": "GSSAPI"}, "PACELINE_SASL_MECHANISM"),
    ],
)
def test_settings_that_contradict_each_other_name_the_variable(environ: dict[str, str], named: str):
    """A wrong value or combination is one line that begins with the variable and never holds the password."""
    with pytest.raises(SettingError) as caught:
        BrokerSettings.from_environ(environ)
    assert str(caught.value).startswith(named)
    assert "\n" not in str(caught.value)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("content", [None, "no PEM"])
def test_a_bad_certificate_file_names_its_variable(content: str | None, tmp_path: Path):
    """A missing or unreadable CA file is a wrong setting, not a traceback from inside the client."""
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    with pytest.raises(SettingError, match="PACELINE_SSL_CAFILE"):
        BrokerSettings(security_protocol="SSL", ssl_cafile=str(path)).kafka_options()


def test_brokers_of_the_command_line_win():
    """--brokers replaces the brokers and keeps everything else."""
    settings = BrokerSettings.from_environ(SASL).with_brokers("a:1, b:2")
    assert (settings.brokers, settings.sasl_username) == (("a:1", "b:2"), "ada")


@pytest.mark.parametrize(
    "address",
    [
        "ada:secretWord@kafka:9092",
        "ada:secretWord@kafka",
        "kafka://ada:secretWord@kafka:9092",
        "a:1,ada:secretWord@kafka:9092",
        "ada:se//cretWord@kafka:9092",
    ],
)
def test_a_login_in_an_address_is_refused_and_not_shown(address: str):
    """Every message that names the brokers would show it; a login has settings of its own."""
    for read in (
        lambda: BrokerSettings.from_environ({"PACELINE_BROKERS": address}),
        lambda: BrokerSettings().with_brokers(address),
    ):
        with pytest.raises(SettingError, match="host:port") as refused:
            read()
        assert "ada:se" not in str(refused.value)
        assert "9092" in str(refused.value) or address.endswith("kafka")


def test_a_wrong_address_on_the_command_line_is_a_setting_error():
    """--brokers that is no address says so."""
    with pytest.raises(SettingError, match="--brokers"):
        BrokerSettings().with_brokers("nonsense")


@pytest.mark.parametrize(
    ("argv", "brokers"), [([], ("env:1",)), (["--brokers", "a:1,b:2"], ("a:1", "b:2")), (["--brokers", ""], ("env:1",))]
)
def test_the_option_wins_over_the_environment(argv: list[str], brokers: tuple[str, ...]):
    """A command's --brokers where it is given, else PACELINE_BROKERS; login and TLS come from the environment."""
    parser = argparse.ArgumentParser()
    add_brokers_option(parser)
    settings = BrokerSettings.from_environ({**SASL, "PACELINE_BROKERS": "env:1"}, parser.parse_args(argv).brokers)
    assert (settings.brokers, settings.sasl_username) == (brokers, "ada")


SECRETS = [setting for setting in SETTINGS if setting.secret]


@pytest.mark.parametrize("setting", SECRETS, ids=lambda setting: setting.name)
@pytest.mark.parametrize("content", ["s3cret", "s3cret\n", "s3cret\r\n"])
def test_every_secret_may_lie_in_a_file(setting: Setting[str], content: str, tmp_path: Path):
    """NAME_FILE names it; the line's end is no part of it. An address that holds a secret is one still."""
    before = "postgresql://ada:" if setting is DATABASE else ""
    after = "@db.example/paceline" if setting is DATABASE else ""
    (tmp_path / "secret").write_bytes((before + content.replace("s3cret", "s3cret" + after)).encode())
    environ = {f"{setting.name}_FILE": str(tmp_path / "secret")}
    assert setting.read(environ) == f"{before}s3cret{after}"
    assert f"{setting.name}_FILE" in {declared.name for declared in SETTINGS}


@pytest.mark.parametrize("setting", SECRETS, ids=lambda setting: setting.name)
@pytest.mark.parametrize(
    "content", [None, b"", b"\n", b"s3cret\nmore", b"s3cret\x1b", b"s3cret\xff", b"s3cret" * 20_000]
)
def test_a_secret_file_that_holds_none_is_told_without_it(setting: Setting[str], content: bytes | None, tmp_path: Path):
    """Missing, empty, two lines, no text, too long: one line that names the variable and never holds the secret."""
    if content is not None:
        (tmp_path / "secret").write_bytes(content)
    with pytest.raises(SettingError) as caught:
        setting.read({f"{setting.name}_FILE": str(tmp_path / "secret")})
    assert str(caught.value).startswith(f"{setting.name}_FILE=")
    assert "\n" not in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_a_secret_given_twice_is_refused(tmp_path: Path):
    """Nobody has to guess which of the two counts."""
    (tmp_path / "secret").write_text("s3cret")
    with pytest.raises(SettingError, match=r"PACELINE_SASL_PASSWORD_FILE.*PACELINE_SASL_PASSWORD"):
        SASL_PASSWORD.read({"PACELINE_SASL_PASSWORD": "x", "PACELINE_SASL_PASSWORD_FILE": str(tmp_path / "secret")})


@pytest.mark.parametrize(
    ("raw", "refuses"), [("", False), ("0", False), ("no", False), ("1", True), ("TRUE", True), ("on", True)]
)
def test_a_switch_is_on_or_off(raw: str, refuses: bool):
    """In the words that people use; unset it is off."""
    assert NO_COMMANDS.read({"PACELINE_NO_COMMANDS": raw}) is refuses


def test_a_switch_that_is_neither_is_refused():
    """Whoever means to refuse commands must not be misunderstood."""
    with pytest.raises(SettingError, match=r"PACELINE_NO_COMMANDS='nein': neither yes nor no; allowed: 1 or 0"):
        NO_COMMANDS.read({"PACELINE_NO_COMMANDS": "nein"})
