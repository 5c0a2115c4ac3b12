import pytest

from ui.__main__ import main
from ui.login_secrets import missing, problem, providers

WHOLE = """
[auth]
redirect_uri = "http://127.0.0.1:8501/oauth2callback"
cookie_secret = "0123456789abcdef0123456789abcdef"
client_id = "paceline"
client_secret = "secret"
server_metadata_url = "http://127.0.0.1:9/.well-known/openid-configuration"
"""
LACKING = {
    "nothing": ("", "it has no section [auth]"),
    "no callback": (WHOLE.replace("/oauth2callback", "/"), "redirect_uri does not end with /oauth2callback"),
    "a short secret": (WHOLE.replace("0123456789abcdef", ""), "[auth] lacks cookie_secret"),
    "a guessable secret": (WHOLE.replace("0123456789abcdef", "x"), "cookie_secret has fewer than 32 characters"),
    "no provider": (WHOLE[: WHOLE.index("client_id")], "names no provider"),
    "half a provider": (WHOLE.replace("client_secret", "x"), "[auth] lacks client_secret"),
    "half a named provider": (
        WHOLE + '[auth.okta]\nclient_id = "a"\n',
        "[auth.okta] lacks client_secret, server_metad",
    ),
    "no TOML": ("[auth", "Expected"),
}


@pytest.mark.parametrize("what", LACKING)
def test_a_page_that_requires_a_login_does_not_start_without(what, tmp_path, monkeypatch, capsys):
    """One line that names the file and what it lacks, and status 2; no secret is shown."""
    (tmp_path / ".streamlit").mkdir()
    text, said = LACKING[what]
    (tmp_path / ".streamlit" / "secrets.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PACELINE_BROKERS", "127.0.0.1:9")
    monkeypatch.setenv("PACELINE_UI_REQUIRE_LOGIN", "0")
    assert main(["--require-login"]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
    assert "0123" not in told


def test_without_a_file_both_places_are_named(tmp_path):
    """Where it was looked for."""
    places = (tmp_path / "a.toml", tmp_path / "b.toml")
    assert missing(places) == f"a login needs Streamlit's secrets file, {places[0]} or {places[1]}"
    places[1].write_text(WHOLE)
    assert missing(places) == ""


def test_several_providers_have_a_button_each():
    """Those with a client id."""
    auth = {"client_id": "a", "okta": {"client_id": "b"}, "note": {"x": "y"}}
    assert providers(auth) == [None, "okta"]
    assert problem({"auth": 7}) == "it has no section [auth]"
