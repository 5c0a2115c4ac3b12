"""``paceline up``: starts its services, names the one that dies, leaves nothing behind."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from paceline.commands.services import ServiceError, Services


def start(folder: Path, *options: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "paceline", "up", *options]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=folder)


@pytest.mark.e2e
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_says_where_everything_is_and_stops_when_told(
    tmp_path: Path, number: signal.Signals, free_port: Callable[[], int]
) -> None:
    """Page, broker and the next command; after the signal status 0, and both ports are free again."""
    port, page = free_port(), free_port()
    process = start(tmp_path, "--port", str(port), "--ui-port", str(page))
    assert process.stderr is not None
    said = ""
    for line in process.stderr:
        said += line
        if "now, in another terminal" in line:
            break
    process.send_signal(number)
    _, rest = process.communicate()
    assert process.returncode == 0, said + rest
    assert f"page at http://127.0.0.1:{page}" in said
    assert f"paceline run --brokers 127.0.0.1:{port} --" in said
    for number_again in (port, page):
        socket.create_server(("127.0.0.1", number_again)).close()


def test_a_taken_port_is_one_line_and_status_2(tmp_path: Path, free_port: Callable[[], int]) -> None:
    """Nothing has been started then."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = str(taken.getsockname()[1])
        for options in (("--ui-port", number), ("--port", number, "--ui-port", str(free_port()))):
            process = start(tmp_path, *options)
            _, err = process.communicate()
            assert process.returncode == 2
            assert len(err.splitlines()) == 1
            assert number in err


def test_a_service_that_ends_is_named_with_its_last_lines() -> None:
    """Its name, its status, what it said, and where the whole log is."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with Services() as services:
            service = services.start("no-such-service", environ=os.environ)
            service.process.wait()
            with pytest.raises(ServiceError, match=r"no-such-service ended \(status 2\)") as told:
                services.check()
            assert "no command 'no-such-service'" in str(told.value)
            assert str(service.log) in str(told.value)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_services_die_with_a_command_that_is_killed(until: Callable[..., bool]) -> None:
    """A kill -9 leaves none of them running."""
    code = (
        "import os, sys\n"
        "from paceline.commands.services import Services\n"
        "services = Services()\n"
        "service = services.start('collect', environ=os.environ)\n"
        "print(service.process.pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    service = Path(f"/proc/{int(done.stdout)}")
    until(lambda: not service.exists() or "State:\tZ" in _status(service))


def _status(process: Path) -> str:
    try:
        return (process / "status").read_text()
    except OSError:
        return ""
