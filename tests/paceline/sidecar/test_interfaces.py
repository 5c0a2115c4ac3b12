"""What network interfaces are rated at, by the address they have."""

import socket

import pytest

from paceline.sidecar.interfaces import Interfaces


@pytest.fixture
def loopback() -> str:
    """The name of an interface that is there everywhere, and has an address."""
    return next(name for _, name in socket.if_nameindex() if name == "lo")


@pytest.fixture
def net(tmp_path, loopback):
    """A folder like /sys/class/net in which loopback is a card of 25 Gbit/s."""
    (tmp_path / loopback / "device").mkdir(parents=True)
    (tmp_path / loopback / "speed").write_text("25000\n")
    return tmp_path


def test_the_speed_is_that_of_the_interface_with_the_address(net):
    """In bytes a second, whether the address is of the old kind or the new; an address of nobody has none."""
    table = net / "if_inet6"
    table.write_text("00000000000000000000000000000001 01 80 10 80       lo\n")
    interfaces = Interfaces(net, table)
    assert interfaces.rated_bytes_per_s("127.0.0.1") == 3.125e9
    assert interfaces.rated_bytes_per_s("::1") == 3.125e9
    assert interfaces.rated_bytes_per_s("203.0.113.9") is None


@pytest.mark.parametrize("speed", ["-1", "", "fast"])
def test_a_speed_that_the_kernel_does_not_know_is_none(net, loopback, speed):
    """It says -1, or the file cannot be read."""
    (net / loopback / "speed").write_text(speed)
    assert Interfaces(net).rated_bytes_per_s("127.0.0.1") is None


def test_a_virtual_interface_has_no_speed(net, loopback):
    """Its driver would make one up."""
    (net / loopback / "device").rmdir()
    assert Interfaces(net).rated_bytes_per_s("127.0.0.1") is None


def test_this_machine_can_be_asked():
    """Loopback has no speed."""
    assert Interfaces().rated_bytes_per_s("127.0.0.1") is None
