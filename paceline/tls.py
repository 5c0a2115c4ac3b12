"""TLS of our own HTTP services: the certificate that they show, and whom their clients trust.

Rule of this file: files and settings; no connection is made here. What is wrong with a file is said at the start, in a
line, and not to each visitor.
"""

import argparse
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from paceline.settings import TLS_CAFILE, TLS_CERTFILE, TLS_KEYFILE, Setting, SettingError


class Certificate(NamedTuple):
    """The PEM files of a service's certificate, with those between it and its authority, and of its key."""

    certfile: str
    keyfile: str


def add_options(parser: argparse._ActionsContainer) -> None:
    """Give a service its ``--tls-cert`` and ``--tls-key``; ``certificate`` takes what they hold."""
    parser.add_argument("--tls-cert", metavar="FILE", help=f"serve HTTPS with this certificate ({TLS_CERTFILE.name})")
    parser.add_argument("--tls-key", metavar="FILE", help=f"and this key ({TLS_KEYFILE.name})")


def certificate(
    environ: Mapping[str, str], certfile: str | None = None, keyfile: str | None = None
) -> Certificate | None:
    """What a service is to show, by its options, else by its settings; None where it serves HTTP.

    Raises:
        SettingError: one file without the other, none there, or not a pair.
    """
    held = Certificate(certfile or TLS_CERTFILE.read(environ), keyfile or TLS_KEYFILE.read(environ))
    if held == Certificate("", ""):
        return None
    for setting, path in zip((TLS_CERTFILE, TLS_KEYFILE), held, strict=True):
        _there(setting, path)
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(*held, password=_no_password)
    except (OSError, ValueError) as error:
        where = f"{TLS_CERTFILE.name}={held.certfile!r}, {TLS_KEYFILE.name}={held.keyfile!r}"
        raise SettingError(f"{where}: {error}; allowed: a PEM pair, the key in the clear") from error
    return held


def trusting(environ: Mapping[str, str]) -> ssl.SSLContext:
    """How a client tells that a service of ours is who it says.

    Raises:
        SettingError: the setting's file is missing or no PEM.
    """
    cafile = TLS_CAFILE.read(environ)
    _there(TLS_CAFILE, cafile or None)
    try:
        return ssl.create_default_context(cafile=cafile or None)
    except OSError as error:
        raise SettingError(f"{TLS_CAFILE.name}={cafile!r}: {error}; allowed: a PEM file") from error


def _there(setting: Setting[str], path: str | None) -> None:
    if path == "":
        raise SettingError(f"{setting.name}='': certificate and key go together; allowed: {setting.allowed}")
    if path is not None and not Path(path).is_file():
        raise SettingError(f"{setting.name}={path!r}: no such file; allowed: {setting.allowed}")


def _no_password() -> str:
    raise ValueError("the key wants a password")
