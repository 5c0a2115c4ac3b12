"""The login in a real Chromium, with an OpenID Connect provider on this machine."""

import time

import pytest
from playwright.sync_api import expect

from experiments.chromium import current
from paceline import topics
from tests.ui.browsing import publish, shows
from tests.ui.conftest import pages
from tests.ui.forecasts import suggestion
from tests.ui.oidc_provider import OidcProvider

pytestmark = [pytest.mark.browser, pytest.mark.bus]
TOKEN = "correct horse battery staple"
CARD = ".st-key-suggestion-cordon-gpu-02-1"


@pytest.fixture(scope="module")
def provider():
    """Who is asked for the login; a test says what it tells of who logs in: ``claims``."""
    with OidcProvider("paceline", "hush") as provider:
        yield provider


@pytest.fixture(scope="module")
def guarded(provider, module_broker, tmp_path_factory, until, free_port):
    """The address of a page that requires a login there. Each tab is a browser that nobody has logged in with yet."""
    folder, port = tmp_path_factory.mktemp("guarded"), free_port()
    secrets = {
        "redirect_uri": f"http://127.0.0.1:{port}/oauth2callback",
        "cookie_secret": "0123456789abcdef0123456789abcdef",
        "client_id": "paceline",
        "client_secret": "hush",
        "server_metadata_url": f"{provider.url}/.well-known/openid-configuration",
    }
    (folder / ".streamlit").mkdir()
    lines = [f'{name} = "{value}"' for name, value in secrets.items()]
    (folder / ".streamlit" / "secrets.toml").write_text("\n".join(["[auth]", *lines, ""]))
    login = {"PACELINE_UI_REQUIRE_LOGIN": "1", "PACELINE_UI_TOKEN": TOKEN, "HOME": str(folder)}
    publish(module_broker.address, [(topics.SUGGESTION, suggestion(1, time.time()))])
    with pages(folder, until, free_port) as serve:
        yield serve(module_broker.address, port, **login)[1]


def test_who_has_not_logged_in_sees_nothing_and_who_has_is_named(tab, guarded, provider):
    """Nothing of the cluster before the login; after it the e-mail is who accepts, and no other name can be typed."""
    provider.claims = {"sub": "1", "email": "ada@example.com", "email_verified": True}
    tab.goto(f"{guarded}/suggestions")
    shows(tab, "This page needs a login.")
    expect(tab.get_by_text("Cordon node")).to_have_count(0)
    tab.get_by_role("button", name="Log in", exact=True).click()
    expect(tab.get_by_role("link", name="Suggestions")).to_be_visible()  # The provider has led back here.
    tab.goto(f"{guarded}/suggestions")
    shows(tab, "Cordon node gpu-02: its GPU 5 held back three jobs", CARD)
    tab.locator(".st-key-token summary").filter(visible=True).click()
    shows(tab, "You are logged in as ada@example.com.")
    expect(tab.get_by_label("Your name, for the audit log")).to_have_count(0)
    tab.get_by_label("Token", exact=True).fill(TOKEN)
    tab.get_by_role("button", name="Unlock").click()
    shows(tab, "You accept or dismiss as ada@example.com.")


def test_a_login_without_a_verified_e_mail_may_read_only(tab, guarded, provider):
    """Nobody would know who it was."""
    provider.claims = {"sub": "2", "email": "bob@example.com", "email_verified": False}
    tab.goto(guarded)
    tab.get_by_role("button", name="Log in", exact=True).click()
    expect(tab.get_by_role("link", name="Suggestions")).to_be_visible()  # The provider has led back here.
    tab.goto(f"{guarded}/suggestions")
    shows(tab, "Cordon node gpu-02: its GPU 5 held back three jobs", CARD)
    tab.locator(".st-key-token summary").filter(visible=True).click()
    words = "Your login has no verified e-mail address, so changes cannot be recorded under your name."
    expect(current(tab).get_by_text(words, exact=True)).to_have_count(1)
    expect(tab.get_by_label("Token", exact=True)).to_have_count(0)
