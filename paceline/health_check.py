"""Asks a service of this machine whether it is well, as the images' health checks do:

    python -m paceline.health_check https-if-set http://127.0.0.1:8000/healthz

Rule of this file: one question and its answer, in the standard library; no proxy, no redirect, and no more than a
line's worth is read. On loopback a certificate is checked, and the name in it is not: that is the one others use.
"""

import http.client
import os
import ssl
import sys
from collections.abc import Mapping
from urllib.parse import urlsplit

from paceline import tls
from paceline.settings import TLS_CAFILE, TLS_CERTFILE, SettingError

ANSWER_S = 4.0


def get(url: str, trust: ssl.SSLContext | None = None, timeout_s: float = ANSWER_S) -> tuple[int, str]:
    """Status and first line of what is at ``url``.

    Raises:
        OSError, HTTPException, ValueError: nothing answers there, or it is no such address.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("not a URL that begins with http:// or https://")
    connection = (
        http.client.HTTPSConnection(parts.hostname, parts.port, timeout=timeout_s, context=trust)
        if parts.scheme == "https"
        else http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout_s)
    )
    try:
        connection.request("GET", parts.path or "/readyz")
        answered = connection.getresponse()
        said = answered.read(300).decode(errors="replace").strip()
    finally:
        connection.close()
    return answered.status, said.partition("\n")[0]


def on_loopback(environ: Mapping[str, str]) -> ssl.SSLContext | None:
    """How a service of ours on this machine is asked, where it shows a certificate; None where it serves HTTP.

    Raises:
        SettingError: the setting's file is missing or no PEM.
    """
    if not TLS_CERTFILE.read(environ):
        return None
    trust = tls.trusting(environ)
    trust.check_hostname = False
    return trust


def main(argv: list[str]) -> int:
    """Ask what is at a URL; 0 where the answer is 200. With ``https-if-set`` before it by HTTPS where a certificate is
    set for our services."""
    *how, url = argv
    try:
        own = on_loopback(os.environ) if how == ["https-if-set"] else None
        if own is not None:
            url = urlsplit(url)._replace(scheme="https").geturl()
            if not TLS_CAFILE.read(os.environ):
                own.verify_mode = ssl.CERT_NONE  # Nobody said who signed it, and nothing is sent but the question.
        status, said = get(url, own)
    except (OSError, http.client.HTTPException, ValueError, SettingError) as error:
        status, said = 0, str(error) or type(error).__name__
    print(said)
    return 0 if status == 200 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
