"""Settings come from the environment, and every one is declared here before anything reads it.

Rule of this file: ``environ`` is an argument, and the only file that is read is the one in which a secret lies; a
wrong value raises ``SettingError`` whose one line names the variable, the value (of a secret: never) and what is
allowed. Compose, Helm and docs may use only names from ``SETTINGS``.
"""

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from types import MappingProxyType
from typing import Generic, TypeVar
from urllib.parse import urlsplit

from paceline.bounds import RANK_LIMIT
from paceline.visible import without_login

T = TypeVar("T")
#: No password or token is longer.
LONGEST_SECRET = 64 * 1024
#: Readers of messages refuse longer ones than five times this.
LONGEST_NAME = 200


class SettingError(ValueError):
    """A setting with a value that is not allowed. Commands print it and exit with status 2."""


@dataclass(frozen=True)
class Setting(Generic[T]):
    """One environment variable: its name, default, how to read it and what is allowed, in words."""

    name: str
    default: T
    parse: Callable[[str], T]
    allowed: str
    help: str
    secret: bool = False

    def read(self, environ: Mapping[str, str]) -> T:
        """The setting's value in ``environ``; empty counts as unset.

        Raises:
            SettingError: the value is not allowed.
        """
        raw = environ.get(self.name, "")
        place = in_file(self)
        if self.secret and environ.get(place.name):
            if raw:
                raise SettingError(f"{place.name} and {self.name} are both set; allowed: one of them")
            raw = place.read(environ)
        if raw == "":
            return self.default
        try:
            return self.parse(raw)
        except ValueError as error:
            shown = "(secret)" if self.secret else repr(without_login(raw))
            raise SettingError(f"{self.name}={shown}: {error or 'not allowed'}; allowed: {self.allowed}") from error


def in_file(secret: Setting[T]) -> Setting[str]:
    """The setting that names a file in which ``secret`` lies; it reads as what the file holds."""
    name = f"{secret.name}_FILE"

    def content(path: str) -> str:
        try:
            if not Path(path).is_file():  # A pipe would be empty for the next who reads it.
                raise ValueError("no such file")
            with Path(path).open("rb") as file:
                held = file.read(LONGEST_SECRET + 1)
            line = held.decode().removesuffix("\n").removesuffix("\r")
        except OSError as error:
            raise ValueError(error.strerror) from None
        except UnicodeDecodeError:
            raise ValueError("no text in UTF-8") from None
        if not line or len(held) > LONGEST_SECRET or not line.isprintable():
            raise ValueError("not one line of text")
        return line

    return Setting(name, "", content, "a file that holds one line", f"file that holds {secret.name}")


def name(raw: str) -> str:
    """A parser for a name that every message carries."""
    if len(raw) > LONGEST_NAME:
        raise ValueError(f"{len(raw)} characters")
    return raw


def one_of(*choices: str) -> Callable[[str], str]:
    """A parser for one of ``choices``, case-insensitive."""

    def parse(raw: str) -> str:
        for choice in choices:
            if raw.lower() == choice.lower():
                return choice
        raise ValueError("unknown value")

    return parse


def number(low: float, high: float) -> Callable[[str], float]:
    """A parser for a number in [low, high]."""

    def parse(raw: str) -> float:
        try:
            value = float(raw)
        except ValueError:
            raise ValueError("not a number") from None
        if not low <= value <= high:
            raise ValueError("out of range")
        return value

    return parse


def whole(low: int, high: int) -> Callable[[str], int]:
    """A parser for an integer in [low, high]."""

    def parse(raw: str) -> int:
        try:
            value = int(raw)
        except ValueError:
            raise ValueError("not a whole number") from None
        if not low <= value <= high:
            raise ValueError("out of range")
        return value

    return parse


def brokers(raw: str) -> tuple[str, ...]:
    """A parser for ``host:port[,host:port…]``."""
    if "@" in raw:
        raise ValueError("a login goes into PACELINE_SASL_USERNAME and PACELINE_SASL_PASSWORD_FILE")
    addresses = tuple(part.strip() for part in raw.split(",") if part.strip())
    for part in addresses:
        host, _, port = part.rpartition(":")
        # A login, or an address with one, would be shown wherever the broker is named.
        if not host or not set("@/").isdisjoint(host) or not port.isdigit() or not 0 < int(port) < 65536:
            raise ValueError(f"{without_login(part)!r} is not host:port")
    if not addresses:
        raise ValueError("no broker named")
    return addresses


def aimed_at(command: str, address: str, environ: Mapping[str, str] = MappingProxyType({})) -> str:
    """``command`` as one types it for the brokers at ``address``, where ``environ`` is set.

    The default is left out, as commands do without it, unless ``environ`` names others.

    >>> aimed_at("paceline run -- python train.py", "kafka-1:9092")
    'paceline run --brokers kafka-1:9092 -- python train.py'
    >>> aimed_at("paceline doctor", "127.0.0.1:9092")
    'paceline doctor'
    >>> aimed_at("paceline doctor", "127.0.0.1:9092", {"PACELINE_BROKERS": "kafka-1:9092"})
    'paceline doctor --brokers 127.0.0.1:9092'
    """
    if address == ",".join(BROKERS.default) and environ.get(BROKERS.name, "") in ("", address):
        return command
    option = f" --brokers {shlex.quote(address)}"
    return re.sub(r"(^| )paceline [a-z]+", lambda found: found[0] + option, command, count=1)


def hosts(raw: str) -> tuple[str, ...]:
    """A parser for names and addresses without ports: ``name[,name…]``, where ``*.name`` stands for all below it."""
    names = tuple(part.strip().lower().rstrip(".") for part in raw.split(",") if part.strip())
    for name in names:
        if len(name) > 253 or not re.fullmatch(
            r"\*|(\*\.)?[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?|[0-9a-f]*:[0-9a-f]*:[0-9a-f:.]*", name
        ):
            raise ValueError(f"{without_login(name)[:60]!r} is not a host name")
    if len(names) > 256:
        raise ValueError("more than 256 names")
    return names


def switch(raw: str) -> bool:
    """A parser for yes or no."""
    answers = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    if raw.lower() not in answers:
        raise ValueError("neither yes nor no")
    return answers[raw.lower()]


def numbers(raw: str) -> dict[str, float]:
    """A parser for ``name=number[,name=number…]``; which names there are is for others to say."""
    values: dict[str, float] = {}
    for part in filter(None, (part.strip() for part in raw.split(","))):
        name, equals, value = (word.strip() for word in part.partition("="))
        try:
            values[name] = float(value)
        except ValueError:
            raise ValueError(f"{part[:60]!r} is not name=number") from None
        if not name or not equals or len(values) > 100:
            raise ValueError(f"{part[:60]!r} is not name=number")
    return values


def token_url(raw: str) -> str:
    """A parser for an address that a secret may be sent to: by TLS, or no further than this machine."""
    if "@" in raw:
        raise ValueError("a login does not belong in an address")
    try:
        parts = urlsplit(raw)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise ValueError("not an address") from None
    if parts.scheme not in ("http", "https") or not host or port == 0 or parts.fragment or not raw.isprintable():
        raise ValueError("not an address")
    if parts.scheme == "http" and not _is_loopback(host):
        raise ValueError("in the clear")
    return raw


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:  # A name, and names that begin like an address lead anywhere.
        return False


def database_url(raw: str) -> str:
    """A parser for the address of a database: a file of SQLite, or a PostgreSQL as libpq names it."""
    scheme, slashes, rest = raw.partition("://")
    if not slashes or scheme not in ("sqlite", "postgresql", "postgres") or not raw.isprintable():
        raise ValueError("not an address of a database")
    if scheme == "sqlite":
        if len(rest) < 2 or not rest.startswith("/") or "?" in rest:
            raise ValueError("sqlite:/// is followed by a file, and by nothing else")
        return raw
    authority = re.split("[/?#]", rest, maxsplit=1)[0]
    if authority.count("@") > 1 or "@" in rest[len(authority) :]:
        raise ValueError("what has a meaning in an address is written as %40 (@), %2F (/), %3F (?), %23 (#) in a login")
    return raw


def text(raw: str) -> str:
    """A parser for any text."""
    return raw


BROKERS: Setting[tuple[str, ...]] = Setting(
    "PACELINE_BROKERS",
    ("127.0.0.1:9092",),
    brokers,
    "host:port[,host:port…]",
    "Kafka brokers to connect to first; `none`: `paceline run` needs none",
)
CLUSTER = Setting(
    "PACELINE_CLUSTER",
    "default",
    name,
    "any name of 200 characters at most",
    "name of the cluster, part of a job's identity",
)
NODE = Setting("PACELINE_NODE", "", text, "any name", "name of this node; default: the host name")
JOB = Setting(
    "PACELINE_JOB", "", text, "any name", "the job's id; default: Slurm's, Kubernetes', torchrun's, else made up"
)
SECURITY_PROTOCOL = Setting(
    "PACELINE_SECURITY_PROTOCOL",
    "PLAINTEXT",
    one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL",
    "how to talk to Kafka",
)
SSL_CAFILE = Setting("PACELINE_SSL_CAFILE", "", text, "a file", "PEM file of the authority that signed the brokers")
SSL_CERTFILE = Setting("PACELINE_SSL_CERTFILE", "", text, "a file", "PEM file of our certificate (mutual TLS)")
SSL_KEYFILE = Setting("PACELINE_SSL_KEYFILE", "", text, "a file", "PEM file of our key (mutual TLS)")
SASL_MECHANISM = Setting(
    "PACELINE_SASL_MECHANISM",
    "SCRAM-SHA-512",
    one_of("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"),
    "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER",
    "how to log in to Kafka",
)
SASL_USERNAME = Setting("PACELINE_SASL_USERNAME", "", text, "any name", "user to log in as")
SASL_PASSWORD = Setting("PACELINE_SASL_PASSWORD", "", text, "any text", "password to log in with", secret=True)
SASL_OAUTH_TOKEN_URL = Setting(
    "PACELINE_SASL_OAUTH_TOKEN_URL",
    "",
    token_url,
    "https://host[:port]/path; http:// on loopback alone",
    "where an issuer gives tokens to log in with (OAUTHBEARER)",
)
SASL_OAUTH_CLIENT_ID = Setting("PACELINE_SASL_OAUTH_CLIENT_ID", "", text, "any name", "client that asks for tokens")
SASL_OAUTH_CLIENT_SECRET = Setting(
    "PACELINE_SASL_OAUTH_CLIENT_SECRET", "", text, "any text", "secret of the client that asks for tokens", secret=True
)
SASL_OAUTH_SCOPE = Setting("PACELINE_SASL_OAUTH_SCOPE", "", text, "words, one blank between two", "scope to ask for")
SASL_OAUTH_CAFILE = Setting(
    "PACELINE_SASL_OAUTH_CAFILE", "", text, "a file", "PEM file of the authority that signed the issuer"
)
SASL_OAUTH_TOKEN_FILE = Setting(
    "PACELINE_SASL_OAUTH_TOKEN_FILE",
    "",
    text,
    "a file that holds one token",
    "file of a token that others renew, instead of an issuer to ask",
)
COLLECT_INTERVAL_S = Setting(
    "PACELINE_COLLECT_INTERVAL_S", 1.0, number(0.05, 60.0), "0.05 to 60", "seconds between two samples of a node"
)

SPOOL_DIR = Setting(
    "PACELINE_SPOOL_DIR",
    "",
    text,
    "a folder on a local disk, or none",
    "where a sidecar's messages wait while Kafka is away; default: /var/tmp/paceline-UID; `none`: in memory alone",
)
SPOOL_BYTES = Setting(
    "PACELINE_SPOOL_BYTES",
    256 * 1024 * 1024,
    whole(1024 * 1024, 2**40),
    "1048576 to 1099511627776",
    "disk that waiting messages of one sidecar or collector may take; beyond it the oldest are shed and counted",
)

LAYERS = Setting(
    "PACELINE_LAYERS",
    "",
    text,
    "counts with commas between them",
    "layers of each pipeline stage, as 8,8,8,8: a label of the job, by which a better cut is suggested in whole layers",
)

TOTAL_STEPS = Setting(
    "PACELINE_TOTAL_STEPS",
    0,
    whole(1, 2**53),
    "1 to 2^53",
    "steps that the job means to take: a label of the job, by which its end is forecast",
)

RATED_FILE = Setting(
    "PACELINE_RATED_FILE",
    "",
    text,
    "a file",
    "what `paceline benchmark` measured on this node; default: ~/.local/state/paceline/rated/NODE.json",
)

MOST_RANKS = Setting(
    "PACELINE_MOST_RANKS",
    262_144,
    whole(1, RANK_LIMIT),
    f"1 to {RANK_LIMIT}",
    "ranks of one job that are judged; those beyond are left out, and the job's findings say so",
)

PATIENCE = Setting(
    "PACELINE_PATIENCE",
    1.0,
    number(1.0, 100.0),
    "1 to 100",
    "factor on the time that our programs give each other to start, answer and end; more where machines are slow",
)

NO_COMMANDS = Setting(
    "PACELINE_NO_COMMANDS",
    False,
    switch,
    "1 or 0",
    "sidecars, collectors and streams obey no commands, and streams give none; the audit log says so",
)

CAPTURES = Setting(
    "PACELINE_CAPTURES",
    False,
    switch,
    "1 or 0",
    "ranks of a run may be captured by PyTorch's profiler (paceline capture); the same as --captures of paceline run",
)

WATCH = Setting(
    "PACELINE_WATCH",
    False,
    switch,
    "1 or 0",
    "Slurm's task prolog (deploy/slurm) has the tasks of this job timed, without `paceline run`",
)

PROBE_BUDGET = Setting(
    "PACELINE_PROBE_BUDGET",
    0.5,
    number(0.0, 100.0),
    "0 to 100",
    "percent of a step's time that timing may take; above it fewer steps are timed. 0: all steps are",
)

FORECASTER_TOKEN = Setting(
    "PACELINE_FORECASTER_TOKEN",
    "",
    text,
    "any text",
    "what `Authorization: Bearer …` must hold to change the forecaster's history; without it, it cannot be changed",
    secret=True,
)

CONTROL_TOKEN = Setting(
    "PACELINE_CONTROL_TOKEN",
    "",
    text,
    "any text",
    "what `Authorization: Bearer …` must hold to change anything through control; default: one that control makes",
    secret=True,
)
CONTROL_URL = Setting(
    "PACELINE_CONTROL_URL",
    "http://127.0.0.1:8002",
    text,
    "http://host:port",
    "where commands and the page find control",
)
SESSIONS_DIR = Setting(
    "PACELINE_SESSIONS_DIR",
    "",
    text,
    "a folder on a disk with room",
    "where control keeps recorded sessions; default: ~/.local/share/paceline/sessions",
)

ARCHIVE = Setting(
    "PACELINE_ARCHIVE",
    "",
    text,
    "a folder, or s3://BUCKET/PREFIX",
    "where `paceline archive` keeps what the topics say, and `paceline history` and others read it",
)

UI_TOKEN = Setting(
    "PACELINE_UI_TOKEN",
    "",
    text,
    "any text",
    "what a visitor of the page must know to accept or dismiss suggestions; without it the page is read-only",
    secret=True,
)
_LOGIN = "user:password, or `Bearer TOKEN`"
DCGM_LOGIN = Setting(
    "PACELINE_DCGM_LOGIN",
    "",
    text,
    _LOGIN,
    "how `paceline collect --dcgm` logs in to the exporter; default: the host's entry in ~/.netrc",
    secret=True,
)
PROMETHEUS_LOGIN = Setting(
    "PACELINE_PROMETHEUS_LOGIN",
    "",
    text,
    _LOGIN,
    "how `--prometheus` logs in to the server; default: the host's entry in ~/.netrc",
    secret=True,
)
UI_REQUIRE_LOGIN = Setting(
    "PACELINE_UI_REQUIRE_LOGIN",
    False,
    switch,
    "1 or 0",
    "the page shows nothing before a login at the OpenID Connect provider of Streamlit's secrets file",
)

ALERTS_TO = Setting(
    "PACELINE_ALERTS_TO",
    "",
    text,
    "addresses, one blank between two",
    "where `paceline alerts` sends to, beside --to: for addresses that hold a secret",
    secret=True,
)
SMTP_USERNAME = Setting("PACELINE_SMTP_USERNAME", "", text, "any name", "user that `paceline alerts` sends mail as")
SMTP_PASSWORD = Setting(
    "PACELINE_SMTP_PASSWORD", "", text, "any text", "password that `paceline alerts` logs in with", secret=True
)

ALLOWED_HOSTS: Setting[tuple[str, ...]] = Setting(
    "PACELINE_ALLOWED_HOSTS",
    (),
    hosts,
    "name[,name…], without ports; *.name for all below it, * for any",
    "further names by which page, forecaster and the health of other services may be asked",
)

TLS_CERTFILE = Setting(
    "PACELINE_TLS_CERTFILE",
    "",
    text,
    "a file",
    "PEM file of the certificate that page, forecaster and control show",
)
TLS_KEYFILE = Setting("PACELINE_TLS_KEYFILE", "", text, "a file", "PEM file of the key of that certificate")
TLS_CAFILE = Setting(
    "PACELINE_TLS_CAFILE",
    "",
    text,
    "a file",
    "PEM file of the authority that signed it, for who asks them",
)

ADVICE: Setting[dict[str, float]] = Setting(
    "PACELINE_ADVICE",
    {},
    numbers,
    "name=number[,name=number…]",
    "thresholds of suggestions that are not to have their defaults (docs/suggestions.md)",
)
DATABASE = Setting(
    "PACELINE_DATABASE",
    "",
    database_url,
    "sqlite:///FILE or postgresql://[user[:password]@]host[:port]/name[?sslmode=…]",
    "database that jobs, findings and suggestions are kept in; default: database.sqlite in the archive's folder",
    secret=True,
)

CURRENCY = Setting(
    "PACELINE_CURRENCY", "", text, "any name, of 16 characters at most", "of the prices of a GPU hour and of a kWh"
)
KWH_PRICE = Setting("PACELINE_KWH_PRICE", 0.0, number(0.0, 1000.0), "0 to 1000", "price of a kWh; 0: no cost is shown")
CO2E_G_PER_KWH = Setting(
    "PACELINE_CO2E_G_PER_KWH",
    0.0,
    number(0.0, 5000.0),
    "0 to 5000",
    "grams of CO2e per kWh; 0: not shown",
)
PUE = Setting(
    "PACELINE_PUE",
    1.0,
    number(1.0, 10.0),
    "1 to 10",
    "what the building takes for each kWh of its machines (power usage effectiveness)",
)

_NAMED: tuple[Setting[object], ...] = (
    BROKERS,
    CLUSTER,
    NODE,
    JOB,
    SECURITY_PROTOCOL,
    SSL_CAFILE,
    SSL_CERTFILE,
    SSL_KEYFILE,
    SASL_MECHANISM,
    SASL_USERNAME,
    SASL_PASSWORD,
    SASL_OAUTH_TOKEN_URL,
    SASL_OAUTH_CLIENT_ID,
    SASL_OAUTH_CLIENT_SECRET,
    SASL_OAUTH_SCOPE,
    SASL_OAUTH_CAFILE,
    SASL_OAUTH_TOKEN_FILE,
    COLLECT_INTERVAL_S,
    SPOOL_DIR,
    SPOOL_BYTES,
    LAYERS,
    TOTAL_STEPS,
    RATED_FILE,
    MOST_RANKS,
    PATIENCE,
    NO_COMMANDS,
    CAPTURES,
    WATCH,
    PROBE_BUDGET,
    FORECASTER_TOKEN,
    CONTROL_TOKEN,
    CONTROL_URL,
    SESSIONS_DIR,
    ARCHIVE,
    UI_TOKEN,
    DCGM_LOGIN,
    PROMETHEUS_LOGIN,
    UI_REQUIRE_LOGIN,
    ALERTS_TO,
    SMTP_USERNAME,
    SMTP_PASSWORD,
    ALLOWED_HOSTS,
    TLS_CERTFILE,
    TLS_KEYFILE,
    TLS_CAFILE,
    ADVICE,
    DATABASE,
    CURRENCY,
    KWH_PRICE,
    CO2E_G_PER_KWH,
    PUE,
)  # type: ignore[assignment]
#: Every setting there is; for each secret also the one that names a file.
SETTINGS: tuple[Setting[object], ...] = (*_NAMED, *(in_file(named) for named in _NAMED if named.secret))  # type: ignore[arg-type]
