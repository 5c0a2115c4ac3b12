"""Tokens of an issuer or of a file: kept while they are good, asked for anew in time, and every failure a sentence."""

import contextlib
import http.server
import json
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from paceline.kafka import tokens
from paceline.kafka.settings import BrokerSettings
from paceline.kafka.tokens import TokenError, TokenSettings, TokenSource
from paceline.settings import SettingError
from tests.token_issuer import TokenIssuer

CLIENT, SECRET = "page: one", "s3cret/%:é"
BY_FILE = {
    "PACELINE_SECURITY_PROTOCOL": "SASL_SSL",
    "PACELINE_SASL_MECHANISM": "OAUTHBEARER",
    "PACELINE_SASL_OAUTH_TOKEN_FILE": "/token",
}
BY_ISSUER = {
    "PACELINE_SECURITY_PROTOCOL": "SASL_SSL",
    "PACELINE_SASL_MECHANISM": "OAUTHBEARER",
    "PACELINE_SASL_OAUTH_TOKEN_URL": "https://issuer.example/token",
    "PACELINE_SASL_OAUTH_CLIENT_ID": CLIENT,
    "PACELINE_SASL_OAUTH_CLIENT_SECRET": SECRET,
}


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def issuer() -> Iterator[TokenIssuer]:
    with TokenIssuer({CLIENT: SECRET}) as running:
        yield running


@pytest.fixture
def settings(issuer: TokenIssuer) -> TokenSettings:
    return TokenSettings(url=f"{issuer.url}/token", client_id=CLIENT, client_secret=SECRET)


def says(issuer: TokenIssuer, status: int, content: bytes, **headers: str) -> None:
    """Have the issuer answer this from now on."""

    def answer(request: http.server.BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(content)

    issuer.answer = answer


def test_a_token_is_kept_until_most_of_its_life_is_over(issuer: TokenIssuer, settings: TokenSettings) -> None:
    """All clients of a process share it; brokers ask for the next one at 85 % of what is left of it."""
    clock = Clock()
    source = TokenSource(settings, clock)
    first = source.token()
    clock.now = 239.0
    assert source.token() == first
    clock.now = 241.0
    assert source.token() != first
    assert len(issuer.given) == 2
    assert issuer.asked[0] == {"grant_type": ["client_credentials"]}


def test_the_scope_is_asked_for(issuer: TokenIssuer, settings: TokenSettings) -> None:
    TokenSource(replace(settings, scope="kafka write")).token()
    assert issuer.asked[0]["scope"] == ["kafka write"]


def test_while_the_issuer_is_away_the_old_token_is_used_to_its_end(
    issuer: TokenIssuer, settings: TokenSettings
) -> None:
    """And the issuer is asked once a second, not for every connection."""
    clock = Clock()
    source = TokenSource(settings, clock)
    first = source.token()
    says(issuer, 503, b"")
    clock.now = 299.0
    assert source.token() == source.token() == first
    assert len(issuer.asked) == 2
    clock.now = 301.0
    with pytest.raises(TokenError, match=r"the issuer at 127\.0\.0\.1 answered 503; check PACELINE_SASL_OAUTH"):
        source.token()
    issuer.answer, clock.now = None, 302.5
    assert source.token() != first


def test_settings_share_their_source() -> None:
    settings = TokenSettings(file="/token")
    assert tokens.shared(settings) is tokens.shared(TokenSettings(file="/token"))
    assert tokens.shared(settings) is not tokens.shared(TokenSettings(file="/other"))


def test_a_wrong_secret_is_said_without_it(issuer: TokenIssuer, settings: TokenSettings) -> None:
    """This issuer repeats what it was sent: nothing of that is shown."""
    with pytest.raises(TokenError) as caught:
        TokenSource(replace(settings, client_secret="wr0ng")).token()
    assert str(caught.value).startswith("the issuer at 127.0.0.1 refused a token to the client 'page: one'")
    assert "(invalid_client); check PACELINE_SASL_OAUTH_CLIENT_ID" in str(caught.value)
    assert "wr0ng" not in str(caught.value)
    assert caught.value.permanent


@pytest.mark.long
@pytest.mark.parametrize(
    ("status", "content", "cause", "permanent"),
    [
        (200, b"<html>", "no JSON", True),
        (200, b"[" * 60_000, "no JSON", True),
        (200, b"[]", "no access_token", True),
        (200, b'{"access_token": 7}', "no access_token", True),
        (200, b'{"access_token": ""}', "characters", True),
        (200, b'{"access_token": "a\\u0001auth=Bearer b"}', "characters", True),
        (200, b'{"access_token": "a", "token_type": "mac"}', "another type", True),
        (200, b'{"access_token": "a", "expires_in": "soon"}', "no number", True),
        (200, b'{"access_token": "a", "expires_in": true}', "no number", True),
        (200, b'{"access_token": "a", "expires_in": [1]}', "no number", True),
        (200, b'{"access_token": "a", "expires_in": 0}', "over already", True),
        (200, b'{"access_token": "a", "expires_in": -1e999}', "over already", True),
        (200, b'{"access_token": "a", "expires_in": NaN}', "over already", True),
        (200, b'{"access_token": "' + b"a" * 70_000 + b'"}', "too long", False),
        (400, b'{"error": "invalid_scope"}', r"refused a token.*\(invalid_scope\)", True),
        (400, b'{"error": "\\u001b[31m"}', "answered 400;", False),
        (500, b"\xff", "answered 500;", False),
        (404, b"", "answered 404;", True),
        (302, b"", "redirect, which is not followed", True),
    ],
)
def test_an_answer_that_is_no_token_is_a_sentence(
    issuer: TokenIssuer, settings: TokenSettings, status: int, content: bytes, cause: str, permanent: bool
) -> None:
    """Whatever an issuer answers, nobody waits, and nothing of it reaches the brokers or a terminal."""
    says(issuer, status, content, Location="/elsewhere")
    with pytest.raises(TokenError, match=cause) as caught:
        TokenSource(settings).token()
    assert str(caught.value).isprintable()
    assert caught.value.permanent == permanent
    assert len(issuer.asked) == 1


@pytest.mark.parametrize(
    ("answer", "lasts_s"),
    [
        ({"access_token": "a", "expires_in": "300"}, 300.0),
        ({"access_token": "a", "expires_in": 10**30}, tokens.LONGEST_S),
        ({"access_token": "a"}, tokens.UNTOLD_S),
        ({"access_token": "a.b.c"}, tokens.UNTOLD_S),
        ({"access_token": "e30.eyJleHAiOiA0NzAsICJpYXQiOiAzNTB9.x", "token_type": "BEARER"}, 120.0),
    ],
)
def test_how_long_a_token_lasts(answer: dict[str, object], lasts_s: float) -> None:
    """As the issuer says, else as the token itself says, by no clock but its own; for ever is a week."""
    assert tokens.understood(json.dumps(answer).encode())[1] == lasts_s


@pytest.mark.long
def test_an_issuer_that_answers_byte_by_byte_is_given_up(
    issuer: TokenIssuer, settings: TokenSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No single wait is too long, and all together are: the client's thread must not stay there."""
    monkeypatch.setattr(tokens, "ANSWER_S", 0.3)

    def drip(request: http.server.BaseHTTPRequestHandler) -> None:
        with contextlib.suppress(OSError):
            while True:
                request.wfile.write(b"H")
                request.wfile.flush()
                time.sleep(0.02)  # Not to wait for anything: this is what such an issuer does.

    def silent(request: http.server.BaseHTTPRequestHandler) -> None:
        request.rfile.read(1)

    for issuer.answer in (silent, drip):
        with pytest.raises(TokenError, match="cannot be asked"):
            TokenSource(settings).token()


def test_an_issuer_that_is_not_there(settings: TokenSettings, nobody: str) -> None:
    with pytest.raises(TokenError, match=r"cannot be asked: Connection refused; check PACELINE_SASL_OAUTH_TOKEN_URL"):
        TokenSource(replace(settings, url=f"http://{nobody}/token")).token()


@pytest.mark.slow
def test_an_issuer_of_an_unknown_authority_gets_no_secret(tmp_path: Path) -> None:
    new = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=issuer -addext subjectAltName=IP:127.0.0.1"
    subprocess.run(f"{new} -keyout key -out cert".split(), cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "both").write_text((tmp_path / "key").read_text() + (tmp_path / "cert").read_text())
    with TokenIssuer({CLIENT: SECRET}, tmp_path / "both") as issuer:
        settings = TokenSettings(f"{issuer.url}/token", CLIENT, SECRET)
        with pytest.raises(TokenError, match=r"is not trusted \(self-signed.*PACELINE_SASL_OAUTH_CAFILE"):
            TokenSource(settings).token()
        assert not issuer.asked
        assert TokenSource(replace(settings, cafile=str(tmp_path / "cert"))).token()


def test_a_file_is_read_each_time(tmp_path: Path) -> None:
    """Whoever put it there replaces it."""
    path = tmp_path / "token"
    source = TokenSource(TokenSettings(file=str(path)))
    with pytest.raises(TokenError, match=r"no token in .*: No such file"):
        source.token()
    path.write_text("one\n")
    assert source.token() == "one"
    path.write_text("two")
    assert source.token() == "two"
    for held in (b"", b"a b", b"a\nb", b"\xff", b"a" * 70_000):
        path.write_bytes(held)
        with pytest.raises(TokenError, match="its content is not a token"):
            source.token()


@pytest.mark.long
def test_tokens_are_a_way_to_log_in() -> None:
    for environ in (BY_FILE, BY_ISSUER):
        settings = BrokerSettings.from_environ(environ)
        options = settings.kafka_options()
        assert options["sasl_mechanism"] == "OAUTHBEARER"
        assert isinstance(options["sasl_oauth_token_provider"], TokenSource)
        assert SECRET not in repr(settings)
    assert settings.user == "page: one of issuer.example"


@pytest.mark.parametrize(
    ("environ", "named"),
    [
        ({**BY_FILE, "PACELINE_SASL_OAUTH_TOKEN_FILE": ""}, "PACELINE_SASL_MECHANISM=OAUTHBEARER: it needs tokens"),
        ({**BY_FILE, "PACELINE_SASL_OAUTH_CLIENT_ID": "x"}, "PACELINE_SASL_OAUTH_CLIENT_ID and"),
        ({**BY_FILE, "PACELINE_SASL_MECHANISM": "PLAIN"}, "PACELINE_SASL_OAUTH_"),
        ({**BY_FILE, "PACELINE_SECURITY_PROTOCOL": "SSL"}, "PACELINE_SASL_OAUTH_"),
        ({**BY_FILE, "PACELINE_SASL_USERNAME": "ada"}, "PACELINE_SASL_USERNAME"),
        ({**BY_FILE, "PACELINE_SASL_PASSWORD": SECRET}, "PACELINE_SASL_PASSWORD"),
        ({**BY_ISSUER, "PACELINE_SASL_OAUTH_CLIENT_SECRET": ""}, "PACELINE_SASL_OAUTH_CLIENT_SECRET=''"),
        ({**BY_ISSUER, "PACELINE_SASL_OAUTH_CAFILE": "/none"}, "PACELINE_SASL_OAUTH_CAFILE='/none'"),
        *(
            ({**BY_ISSUER, "PACELINE_SASL_OAUTH_TOKEN_URL": url}, "PACELINE_SASL_OAUTH_TOKEN_URL=")
            for url in (
                "http://issuer.example/token",
                "https://page:s3cret/%:é@issuer.example/token",
                "https://page:pw-of-page@issuer.example/token",
                "file:///token",
                "https:///token",
                "https://h:x/",
                "https://h/#a",
                "http://127.0.0.1.example/t",
                "https://h/\na",
            )
        ),
    ],
)
def test_settings_that_contradict_each_other_name_the_variable(environ: dict[str, str], named: str) -> None:
    """A secret goes over TLS or no further than this machine, and is shown in no line."""
    with pytest.raises(SettingError) as caught:
        BrokerSettings.from_environ(environ)
    assert str(caught.value).startswith(named)
    assert "\n" not in str(caught.value)
    assert SECRET not in str(caught.value)
    assert "pw-of-page" not in str(caught.value)


@pytest.mark.parametrize("url", ["http://localhost:1/t", "http://127.0.0.9/t", "http://[::1]:1/t", "https://h/t?x=1"])
def test_an_issuer_on_this_machine_may_do_without_tls(url: str) -> None:
    assert BrokerSettings.from_environ({**BY_ISSUER, "PACELINE_SASL_OAUTH_TOKEN_URL": url}).sasl_oauth is not None


def test_a_source_is_asked_by_many_threads_and_asks_once(issuer: TokenIssuer, settings: TokenSettings) -> None:
    source = TokenSource(settings)
    with ThreadPoolExecutor(8) as pool:
        given = set(pool.map(lambda _: source.token(), range(40)))
    assert (len(given), len(issuer.asked)) == (1, 1)
