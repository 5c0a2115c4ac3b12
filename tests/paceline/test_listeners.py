"""Who listens at a port: read from a made-up ``/proc``, and from this process's own."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from paceline.listeners import Listener, listener, taken

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
Process = Callable[..., None]


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A socket that listens at 8501, one that is connected from there, and one that listens at 8502 by IPv6."""
    (tmp_path / "net").mkdir()
    rows = ["0100007F:2135 00000000:0000 0A", "0100007F:2135 0100007F:9C40 01"]
    lines = [f"{n}: {row} 0:0 0:0 0 0 0 {100 + n} 1\n" for n, row in enumerate(rows)]
    (tmp_path / "net" / "tcp").write_text(HEAD + "".join(lines))
    (tmp_path / "net" / "tcp6").write_text(f"{HEAD}0: {'0' * 32}:2136 {'0' * 32}:0000 0A 0:0 0:0 0 0 0 200 1\nodd\n")
    return tmp_path


@pytest.fixture
def process(proc: Path) -> Process:
    """Make one."""

    def made(pid: int, *command: str, parent: int = 1, sockets: tuple[int, ...] = ()) -> None:
        (proc / str(pid) / "fd").mkdir(parents=True)
        (proc / str(pid) / "cmdline").write_text("\0".join([*command, ""]))
        (proc / str(pid) / "stat").write_text(f"{pid} (a ) b) S {parent} 1 1")
        for inode in sockets:
            (proc / str(pid) / "fd" / str(inode)).symlink_to(f"socket:[{inode}]")

    return made


def test_of_a_service_of_ours_the_command_that_started_it_is_named(proc: Path, process: Process) -> None:
    """Its page is started by ``paceline up``, which a shell has started."""
    process(40, "bash")
    process(41, "/venv/bin/python", "/venv/bin/paceline", "up", "--port", "9", parent=40)
    process(42, "/venv/bin/python", "-P", "-m", "paceline", "ui", "--port", "8501", parent=41, sockets=(100,))
    process(43, "/cache/tansu-v0.6.0", "--cluster-id", "x", parent=41, sockets=(200,))
    assert listener(8501, proc) == listener(8502, proc) == Listener(41, "paceline up")
    assert taken(8501, proc) == "paceline up (pid 41) listens there already; `paceline down` ends it"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("/usr/bin/python3", "/home/a/serve.py", "--password", "s3cret"), "python3 serve.py"),
        (("python3", "-c", "s3cret"), "python3"),
        (("nginx: worker\x1b[31m", "-g"), "nginx: worker\\u001b[31m"),
        ((), "a process"),
        (("python", "/venv/bin/paceline", "demo", "--brokers", "a:s3cret@b"), "paceline demo"),
    ],
)
def test_the_command_is_named_without_its_options(
    proc: Path, process: Process, command: tuple[str, ...], said: str
) -> None:
    """They may hold a password, and the name a control code."""
    process(7, *command, sockets=(200,))
    assert taken(8502, proc) == f"{said} (pid 7) listens there already; `kill 7` ends it"


def test_what_a_training_run_has_started_is_named_itself(proc: Path, process: Process) -> None:
    """To end it is not to end the run."""
    process(41, "python", "/venv/bin/paceline", "run", "--", "python", "train.py")
    process(42, "python", "train.py", parent=41, sockets=(100,))
    assert listener(8501, proc) == Listener(42, "python train.py")


def test_a_connection_is_no_listener_and_who_may_not_be_read_is_not_named(proc: Path, process: Process) -> None:
    process(7, "client", sockets=(101,))
    assert listener(8501, proc) is None
    assert taken(8501, proc) == taken(1, proc) == "something listens there already"
    assert listener(8501, proc / "none") is None


def test_parents_that_go_round_end(proc: Path, process: Process) -> None:
    """Process numbers are used again while they are read."""
    process(7, "paceline", "ui", parent=8, sockets=(100,))
    process(8, "paceline", "up", parent=7)
    found = listener(8501, proc)
    assert found is not None
    assert found.pid in (7, 8)


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="Linux alone tells it")
def test_a_real_port_of_this_process() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        found = listener(server.getsockname()[1])
    assert found is not None
    assert found.pid == os.getpid() or found.command.startswith("paceline")
