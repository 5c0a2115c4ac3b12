"""Addresses: what they mean, what is refused, and that no secret in one is shown."""

import pytest

from paceline.alerts.target import TargetError, of_command, of_url

SECRET = "s3cr3t"


@pytest.mark.parametrize(
    ("address", "kind", "url"),
    [
        ("https://a.example/hook", "webhook", "https://a.example/hook"),
        ("http://a.example", "webhook", "http://a.example/"),
        ("slack+https://chat.example:8443/hooks/x?y=1", "slack", "https://chat.example:8443/hooks/x?y=1"),
        ("https://hooks.slack.com/services/T/B/x", "slack", "https://hooks.slack.com/services/T/B/x"),
        ("alertmanager+http://am:9093", "alertmanager", "http://am:9093/api/v2/alerts"),
        ("alertmanager+https://am.example/prefix/", "alertmanager", "https://am.example/prefix/api/v2/alerts"),
        ("webhook+http://[::1]:80/x", "webhook", "http://[::1]:80/x"),
    ],
)
def test_addresses_over_http(address: str, kind: str, url: str) -> None:
    target = of_url(address)
    assert (target.kind, target.url) == (kind, url)


def test_addresses_of_mail() -> None:
    target = of_url("smtp://mail.example?to=a@b.example,c@d.example&from=p@b.example")
    assert (target.host, target.port, target.tls) == ("mail.example", 587, "start")
    assert (target.sender, target.recipients) == ("p@b.example", ("a@b.example", "c@d.example"))
    assert of_url("smtps://mail.example?to=a@b").tls == "whole"
    assert of_url("smtps://mail.example?to=a@b").port == 465
    assert of_url("smtp://127.0.0.1:25?to=a@b").tls == "none"
    assert of_url("smtp://mail.example:25?to=a@b&starttls=never").tls == "none"
    assert of_url("smtp://127.0.0.1:25?to=a@b&starttls=always").tls == "start"


@pytest.mark.parametrize(
    "address",
    [
        "", "a", "a.example/hook", "ftp://a.example/x", "file:///etc/passwd", "slack+ftp://a", "alertmanager+smtp://a?to=a@b",
        "http://", "http:///x", "http://a b/", "http://a\r\nHost: b/", "http://a:99999/", "http://a:x/", "http://[::1/x",
        "smtp://mail.example", "smtp://mail.example?to=", "smtp://mail.example?to=a", "smtp://mail.example?to=a@b%0d%0aBcc:c@d",
        "smtp://u:p@mail.example?to=a@b", "smtp://mail.example/x?to=a@b", "smtp://mail.example?to=a@b&cc=c@d",
        "smtp://mail.example?to=a@b&starttls=maybe", "smtp://m?to=" + ",".join(f"a{n}@b" for n in range(51)),
        "http://<script>/",
    ],
)  # fmt: skip
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(TargetError):
        of_url(address)


@pytest.mark.parametrize(
    "address", [f"https://hooks.slack.com/services/{SECRET}", f"https://u:{SECRET}@a.example/?token={SECRET}"]
)
def test_a_secret_in_an_address_is_not_shown(address: str) -> None:
    target = of_url(address)
    assert SECRET not in target.shown
    assert SECRET not in target.key
    assert SECRET not in repr(target)
    with pytest.raises(TargetError) as refused:
        of_url(address.replace("https", "gopher"))
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("kind", ["", "slack+", "alertmanager+"])
def test_a_login_is_not_sent_in_the_clear_but_to_this_machine(kind: str) -> None:
    with pytest.raises(TargetError, match="https") as refused:
        of_url(f"{kind}http://u:{SECRET}@a.example/")
    assert SECRET not in str(refused.value)
    assert of_url(f"{kind}https://u:p%40ss@a.example/").password == "p@ss"
    assert of_url(f"{kind}http://u:p%40ss@127.0.0.1/").password == "p@ss"


def test_addresses_that_differ_are_told_apart() -> None:
    keys = {of_url(address).key for address in ("http://a/x", "http://a/y", "http://a:80/x", "slack+http://a/x")}
    assert len({*keys, of_command(("a",)).key, of_command(("a", "b")).key}) == 6


def test_a_command_names_a_program() -> None:
    assert of_command(("logger", "--tag", "x")).command == ("logger", "--tag", "x")
    with pytest.raises(TargetError):
        of_command(())
