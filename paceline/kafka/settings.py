"""How to reach Kafka: brokers, TLS and login, from the environment and ``--brokers``.

Rule of this file: the only place that knows how settings become client options, and where a command's ``--brokers``
meets the environment.
"""

import argparse
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from paceline import settings as names
from paceline.kafka import tokens
from paceline.kafka.tokens import TokenSettings, TokenSource
from paceline.settings import Setting, SettingError
from paceline.visible import without_login

#: Said instead of brokers to a command that can do without: not even the default address is looked at.
NO_BROKERS = "none"
#: The way to log in by a token.
OAUTHBEARER = "OAUTHBEARER"


@dataclass(frozen=True)
class BrokerSettings:
    """Where the brokers are and how to talk to them."""

    brokers: tuple[str, ...] = names.BROKERS.default
    security_protocol: str = "PLAINTEXT"
    ssl_cafile: str = ""
    ssl_certfile: str = ""
    ssl_keyfile: str = ""
    sasl_mechanism: str = names.SASL_MECHANISM.default
    sasl_username: str = ""
    sasl_password: str = field(default="", repr=False)
    sasl_oauth: TokenSettings | None = None

    @classmethod
    def from_environ(cls, environ: Mapping[str, str], brokers: str | None = None) -> "BrokerSettings":
        """The settings in ``environ``, with the ``brokers`` of ``--brokers`` where that is given.

        Raises:
            SettingError: a value is wrong, or settings contradict each other; the line names the variable.
        """
        settings = cls(
            brokers=names.BROKERS.default if brokers else names.BROKERS.read(environ),
            security_protocol=names.SECURITY_PROTOCOL.read(environ),
            ssl_cafile=names.SSL_CAFILE.read(environ),
            ssl_certfile=names.SSL_CERTFILE.read(environ),
            ssl_keyfile=names.SSL_KEYFILE.read(environ),
            sasl_mechanism=names.SASL_MECHANISM.read(environ),
            sasl_username=names.SASL_USERNAME.read(environ),
            sasl_password=names.SASL_PASSWORD.read(environ),
            sasl_oauth=tokens.from_environ(environ),
        )
        _check(settings)
        return settings.with_brokers(brokers) if brokers else settings

    @property
    def address(self) -> str:
        """The brokers as people write them: ``host:port,host:port``."""
        return ",".join(self.brokers)

    @property
    def tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.security_protocol in ("SSL", "SASL_SSL")

    @property
    def sasl(self) -> bool:
        """Whether we log in."""
        return self.security_protocol.startswith("SASL_")

    @property
    def user(self) -> str:
        """Who logs in, for a person; empty where nobody does."""
        return self.sasl_oauth.told if self.sasl_oauth else self.sasl_username

    @property
    def by_token(self) -> bool:
        """Whether we log in by tokens, and not by a password."""
        return self.sasl_oauth is not None

    @property
    def token_source(self) -> TokenSource | None:
        """Where the tokens to log in with come from; None without."""
        return tokens.shared(self.sasl_oauth) if self.sasl_oauth else None

    def with_brokers(self, brokers: str) -> "BrokerSettings":
        """The same with other brokers, ``host:port[,host:port…]``: what ``--brokers`` gives.

        Raises:
            SettingError: not addresses.
        """
        try:
            return replace(self, brokers=names.brokers(brokers))
        except ValueError as error:
            raise SettingError(
                f"--brokers={without_login(brokers)!r}: {error}; allowed: {names.BROKERS.allowed}"
            ) from error

    def ssl_context(self) -> ssl.SSLContext | None:
        """The TLS context, or None without TLS. aiokafka and Faust take it as it is.

        Raises:
            SettingError: a file is missing or no PEM.
        """
        if not self.tls:
            return None
        for setting, path in ((names.SSL_CAFILE, self.ssl_cafile), (names.SSL_CERTFILE, self.ssl_certfile)):
            _readable(setting, path)
        _readable(names.SSL_KEYFILE, self.ssl_keyfile)
        try:
            context = ssl.create_default_context(cafile=self.ssl_cafile or None)
        except OSError as error:
            raise SettingError(f"{names.SSL_CAFILE.name}={self.ssl_cafile!r}: {error}; allowed: a PEM file") from error
        if self.ssl_certfile:
            try:
                context.load_cert_chain(self.ssl_certfile, self.ssl_keyfile or None)
            except OSError as error:
                where = (
                    f"{names.SSL_CERTFILE.name}={self.ssl_certfile!r}, {names.SSL_KEYFILE.name}={self.ssl_keyfile!r}"
                )
                raise SettingError(f"{where}: {error}; allowed: PEM files that belong together") from error
        return context

    def kafka_options(self) -> dict[str, Any]:
        """Connection options for every kafka-python client.

        Raises:
            SettingError: see ``ssl_context``.
        """
        options: dict[str, Any] = {
            "bootstrap_servers": list(self.brokers),
            "security_protocol": self.security_protocol,
            "reconnect_backoff_max_ms": 2000,
        }
        if self.tls:
            options["ssl_context"] = self.ssl_context()
        if self.sasl:
            options["sasl_mechanism"] = self.sasl_mechanism
        if self.sasl_oauth:
            options["sasl_oauth_token_provider"] = self.token_source  # ``compat`` makes of it what the client wants.
        elif self.sasl:
            options["sasl_plain_username"] = self.sasl_username
            options["sasl_plain_password"] = self.sasl_password
        return options


def _check(settings: BrokerSettings) -> None:
    protocol = f"{names.SECURITY_PROTOCOL.name}={settings.security_protocol}"
    tls = ((names.SSL_CAFILE, settings.ssl_cafile), (names.SSL_CERTFILE, settings.ssl_certfile))
    login = ((names.SASL_USERNAME, settings.sasl_username), (names.SASL_PASSWORD, settings.sasl_password))
    for setting, value in (*tls, (names.SSL_KEYFILE, settings.ssl_keyfile)):
        if value and not settings.tls:
            raise SettingError(f"{setting.name}={value!r} has no effect with {protocol}; allowed there: SSL, SASL_SSL")
    oauth = settings.sasl and settings.sasl_mechanism == OAUTHBEARER
    if oauth and settings.sasl_oauth is None:
        mend = f"allowed: {names.SASL_OAUTH_TOKEN_FILE.name}, or {names.SASL_OAUTH_TOKEN_URL.name} with a client"
        raise SettingError(f"{names.SASL_MECHANISM.name}={OAUTHBEARER}: it needs tokens; {mend}")
    if settings.sasl_oauth is not None and not oauth:
        where = f"{protocol} and {names.SASL_MECHANISM.name}={settings.sasl_mechanism}"
        raise SettingError(f"PACELINE_SASL_OAUTH_* has no effect with {where}; allowed there: {OAUTHBEARER}")
    for setting, value in login:
        if value and oauth:
            raise SettingError(f"{setting.name} is set, but {OAUTHBEARER} logs in with a token; allowed: nothing")
        if value and not settings.sasl:
            raise SettingError(
                f"{setting.name} is set, but {protocol} logs in nowhere; allowed: SASL_SSL or SASL_PLAINTEXT"
            )
        if settings.sasl and not value and not oauth:
            raise SettingError(f"{setting.name}='': {protocol} needs it; allowed: {setting.allowed}")
    if settings.ssl_keyfile and not settings.ssl_certfile:
        raise SettingError(f"{names.SSL_CERTFILE.name}='': {names.SSL_KEYFILE.name} needs it; allowed: a file")


def _readable(setting: Setting[str], path: str) -> None:
    if path and not Path(path).is_file():
        raise SettingError(f"{setting.name}={path!r}: no such file; allowed: {setting.allowed}")


def optional_settings(environ: Mapping[str, str], brokers: str | None = None) -> BrokerSettings | None:
    """The settings for a command that can do without brokers; None where it was told ``none`` in their place.

    Raises:
        SettingError: see ``BrokerSettings.from_environ``.
    """
    if (brokers or environ.get(names.BROKERS.name)) == NO_BROKERS:
        return None
    return BrokerSettings.from_environ(environ, brokers)


def add_brokers_option(
    parser: argparse._ActionsContainer, help_: str = f"Kafka brokers (default: {names.BROKERS.name})"
) -> None:
    """Give a command its ``--brokers``; ``BrokerSettings.from_environ`` takes what it holds."""
    parser.add_argument("--brokers", metavar="HOST:PORT", help=help_)


def add_no_commands_option(parser: argparse._ActionsContainer) -> None:
    """Give what reads commands its ``--no-commands``; the setting says the same."""
    help_ = f"refuse what comes on paceline.command.v1, and say so in the audit log ({names.NO_COMMANDS.name}=1)"
    parser.add_argument("--no-commands", action="store_true", help=help_)


def split(address: str) -> tuple[str, int]:
    """Host and port of ``host:port``; ``[::1]:9092`` is an IPv6 address."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)
