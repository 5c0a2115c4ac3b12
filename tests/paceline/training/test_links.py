"""Links: what the kernel knows of this process's TCP connections."""

import os
import socket
from collections.abc import Iterator

import pytest

from paceline.training.links import TcpLinks


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two ends of a connection in this process."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
        with near, far:
            yield near, far


def test_connections_are_counted_with_their_round_trip(pair: tuple[socket.socket, socket.socket]) -> None:
    """Both ends of a loopback connection count, with a round trip below a second and no retransmit."""
    pair[0].sendall(b"x")
    pair[1].recv(1)
    before = TcpLinks(()).sample()
    assert before is not None
    assert before.connections >= 2
    assert 0 < before.rtt_s < 1
    assert before.retransmits >= 0


def test_the_store_is_no_link(pair: tuple[socket.socket, socket.socket]) -> None:
    """Connections to or from the store's port are left out."""
    with_store = TcpLinks(()).sample()
    without = TcpLinks({pair[0].getpeername()[1]}).sample()
    assert with_store is not None
    assert with_store[0] - (without[0] if without is not None else 0) == 2


def test_sampling_leaves_the_descriptors_alone(pair: tuple[socket.socket, socket.socket]) -> None:
    """No descriptor is closed, left open or made non-blocking."""
    before = sorted(os.listdir("/proc/self/fd"))
    TcpLinks(()).sample()
    assert sorted(os.listdir("/proc/self/fd")) == before
    assert os.get_blocking(pair[0].fileno())


def test_a_default_timeout_switches_sampling_off(pair: tuple[socket.socket, socket.socket]) -> None:
    """With one, Python would make the script's own sockets non-blocking."""
    socket.setdefaulttimeout(5)
    try:
        assert TcpLinks(()).sample() is None
    finally:
        socket.setdefaulttimeout(None)
    assert os.get_blocking(pair[0].fileno())


def test_connections_that_carried_data_are_told_with_their_ends(pair: tuple[socket.socket, socket.socket]) -> None:
    """The sender tells its round trip, the receiver none, an idle connection is left out."""
    links = TcpLinks(())
    before = links.sample()
    for _ in range(20):
        pair[0].sendall(b"x")
        pair[1].recv(1)
    after, idle = links.sample(), links.sample()
    near, far = (f"127.0.0.1:{end.getsockname()[1]}" for end in pair)
    assert before is not None
    assert after is not None
    assert idle is not None
    told = {(peer.local, peer.remote): peer.rtt_s for peer in after.peers}
    assert told[near, far] is not None
    assert told[far, near] is None
    assert (near, far) not in {(peer.local, peer.remote) for peer in [*before.peers, *idle.peers]}
