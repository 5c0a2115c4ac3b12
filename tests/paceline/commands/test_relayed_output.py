"""Output of a child: shown as it comes, silent once its end is asked for, and never in the child's way."""

import os

from paceline.commands.relayed_output import RelayedOutput
from tests.patience import PATIENCE_S


def relayed(target: int) -> tuple[RelayedOutput, int]:
    """It, and the descriptor of a child that writes."""
    shown = RelayedOutput(target)
    child = os.dup(shown.descriptor)
    shown.started()
    return shown, child


def test_all_is_shown_in_order_and_before_the_end_is_told() -> None:
    """Also what has no end of a line."""
    read, write = os.pipe()
    shown, child = relayed(write)
    for piece in (b"one\n", b"two\x1b[31m\n", b"three"):
        os.write(child, piece)
    os.close(child)
    shown.drain(PATIENCE_S)
    os.close(write)
    with os.fdopen(read, "rb") as held:
        assert held.read() == b"one\ntwo\x1b[31m\nthree"


def test_once_muted_it_is_read_and_not_shown() -> None:
    """More than a pipe holds: a child that says much while it ends is not held up."""
    read, write = os.pipe()
    shown, child = relayed(write)
    os.write(child, b"before")
    assert os.read(read, 100) == b"before"
    shown.mute()
    os.write(child, b"Traceback" * 100_000)
    os.close(child)
    shown.drain(PATIENCE_S)
    os.close(write)
    assert os.read(read, 100) == b""
    os.close(read)


def test_a_terminal_that_has_gone_holds_no_child_up() -> None:
    """Its output has nowhere to go and is read all the same."""
    read, write = os.pipe()
    os.close(read)
    shown, child = relayed(write)
    assert os.write(child, b"x" * 1_000_000) == 1_000_000
    os.close(child)
    shown.drain(PATIENCE_S)
    os.close(write)


def test_what_outlives_the_child_is_not_waited_for() -> None:
    """A process that it has left behind holds its output open."""
    read, write = os.pipe()
    shown, child = relayed(write)
    shown.drain(0.01)
    for descriptor in (child, read, write):
        os.close(descriptor)
