"""Ports that are chosen before anything listens on them: no two commands choose one."""

import socket
import sys
from collections.abc import Iterator
from contextlib import closing

import pytest

from paceline.commands.ports import NAME, PortClaims, free_port


@pytest.fixture
def wanted() -> int:
    """A port that nobody has."""
    return free_port(0)


@pytest.fixture
def claims() -> Iterator[PortClaims]:
    """Those of one command."""
    with closing(PortClaims()) as made:
        yield made


@pytest.mark.skipif(sys.platform != "linux", reason="names of ports exist on Linux")
def test_commands_that_start_at_once_choose_different_ports(claims: PortClaims, wanted: int) -> None:
    """Neither listens yet; the second gets another, and after the end of the first the one it wanted."""
    with closing(PortClaims()) as first:
        assert first.claim(wanted) == wanted
        assert claims.claim(wanted) != wanted
        assert first.claim(wanted) != wanted
    assert claims.claim(wanted) == wanted


def test_a_port_where_something_listens_is_not_chosen(claims: PortClaims, wanted: int) -> None:
    """Another free one is; a number that is no port counts as taken."""
    with socket.create_server(("127.0.0.1", wanted)):
        assert claims.claim(wanted) != wanted
    assert claims.claim(wanted) == wanted
    assert 0 < claims.claim(70_000) < 65_536


def test_where_there_are_no_names_a_port_is_chosen_all_the_same(
    claims: PortClaims, wanted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On another system, or where a sandbox forbids the sockets that names need."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) if sys.platform == "linux" else socket.socket() as other:
        if sys.platform == "linux":
            other.bind(NAME.format(wanted))
            assert claims.claim(wanted) != wanted
        monkeypatch.setattr(sys, "platform", "darwin")
        assert claims.claim(wanted) == wanted
