"""The table of ports in SECURITY.md is what the services do unless told otherwise."""

import argparse
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import annotator.__main__
import archive.__main__
import control.__main__
import forecaster.__main__
import streams.__main__
import ui.__main__
from collectors import options
from paceline import settings
from paceline.commands import alerts, up
from paceline.kafka import embedded
from paceline.settings import Setting

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
PARSED: dict[str, Callable[[], argparse.Namespace]] = {
    "streams": lambda: streams.__main__._parse([]),
    "collect": lambda: options.parse([], {}),
    "annotate": lambda: annotator.__main__.parser().parse_args([]),
    "archive": lambda: archive.__main__.parser().parse_args([]),
    "alerts": lambda: alerts.parser().parse_args([]),
    "forecaster": lambda: forecaster.__main__._parse([]),
    "control": lambda: control.__main__._parse([]),
    "up": lambda: up.parser().parse_args([]),
    "ui": lambda: ui.__main__.parser().parse_args([]),
}
ROWS = {
    cells[0]: cells
    for line in re.findall(r"^\| `(.*) \|$", PAGE, re.M)
    if len(cells := [cell.strip(" `") for cell in line.split(" | ")]) == 6
}


#: Services that are called otherwise than their folders.
COMMANDS = {"annotator": "annotate", "collectors": "collect"}


def test_every_service_with_a_port_has_a_row() -> None:
    """A service is whatever offers a port: a new one must say what it trusts."""
    offering = {
        path.parent.name if path.parent.name != "commands" else path.stem
        for path in (*ROOT.glob("*/__main__.py"), *ROOT.glob("*/options.py"), *ROOT.glob("paceline/commands/*.py"))
        if re.search(r'add_argument\(\s*"--port"|add_web_options\(\w+\)', path.read_text(encoding="utf-8"))
    }
    assert {COMMANDS.get(name, name) for name in offering} == {*ROWS} == {*PARSED}


@pytest.mark.parametrize("name", PARSED)
def test_port_address_and_tls_are_the_defaults(name: str) -> None:
    """Loopback alone; a port of its own only where the table says so; a certificate where it can be given one."""
    _, port, address, tls, *_ = ROWS[name]
    held = PARSED[name]()
    web = "--web-port" in port
    assert address == (held.web_address if web else getattr(held, "address", embedded.HOST)) == "127.0.0.1"
    assert port == ("--web-port`, none" if web else f"--port`, {held.port}")
    assert not web or not held.web_port
    assert hasattr(held, "tls_cert") == (tls == settings.TLS_CERTFILE.name)


def test_tokens_of_the_table_are_secrets_that_are_empty_at_first() -> None:
    """Without a token nobody may change anything; control makes its own."""
    named = {word for cells in ROWS.values() for word in re.findall(r"PACELINE_[A-Z_]+_TOKEN", cells[4])}
    declared = {one.name: one for one in vars(settings).values() if isinstance(one, Setting)}
    assert named == {"PACELINE_FORECASTER_TOKEN", "PACELINE_CONTROL_TOKEN", "PACELINE_UI_TOKEN"}
    assert all(declared[name].secret and declared[name].default == "" for name in named)
