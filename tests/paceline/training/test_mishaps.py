"""Whatever befalls the timing, training ends as it would have, with one warning at most."""

import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("pytorch")]


@pytest.fixture(scope="module")
def digest(python: Callable[..., Any], scripts: Path) -> str:
    """What the script prints without the probe."""
    return python(str(scripts / "plain.py"), "20", environ={}).stdout


def test_an_undistributed_process_is_one_rank(new_listener: Callable[[], Any], scripts: Path, digest: str) -> None:
    """It says hello at its first step and tells every step; its loaders' workers stay silent."""
    listener = new_listener()
    done = listener.run(str(scripts / "plain.py"), "20")
    assert (done.stdout, done.stderr) == (digest, "")
    (heard,) = listener.heard
    assert (heard.hello.world_size, heard.hello.batch_size, heard.hello.backend) == (1, 8, "none")
    assert len(heard.steps()) == 20
    assert {"data", "forward", "backward", "optimizer"} <= set(heard.steps()[5])
    assert heard.bye


def test_nobody_listening(python: Callable[..., Any], scripts: Path, digest: str, tmp_path: Path) -> None:
    """A sidecar that never came changes nothing; the command that should have started it says so."""
    bootstrap = Path(__file__).parents[3] / "paceline" / "training" / "bootstrap"
    own = {"PACELINE_SOCKET": str(tmp_path / "none"), "PYTHONPATH": str(bootstrap)}
    done = python(str(scripts / "plain.py"), "20", environ=own)
    assert (done.returncode, done.stdout, done.stderr) == (0, digest, "")


def test_a_sidecar_that_dies(python: Callable[..., Any], scripts: Path, tmp_path: Path) -> None:
    """Its end in the middle of the run ends the timing without a word."""
    path = tmp_path / "ranks.sock"
    first = []

    def take_one() -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(str(path))
            listener.listen(1)
            ready.set()
            connection, _ = listener.accept()
            with connection:
                first.append(connection.recv(1 << 20))
        path.unlink()

    ready = threading.Event()
    thread = threading.Thread(target=take_one)
    thread.start()
    ready.wait()
    bootstrap = Path(__file__).parents[3] / "paceline" / "training" / "bootstrap"
    own = {"PACELINE_SOCKET": str(path), "PYTHONPATH": str(bootstrap)}
    done = python(str(scripts / "plain.py"), "120", "slow", environ=own)
    thread.join()
    assert first
    assert (done.returncode, done.stderr) == (0, "")


def test_a_fault_of_our_own(new_listener: Callable[[], Any], scripts: Path, digest: str) -> None:
    """It is told in one line and training goes on."""
    done = new_listener().run(str(scripts / "plain.py"), "20", "broken")
    assert (done.returncode, done.stdout) == (0, digest)
    assert done.stderr == "paceline: timing stopped: ZeroDivisionError: division by zero; training goes on\n"


def test_ranks_of_multiprocessing(new_listener: Callable[[], Any], scripts: Path, tmp_path: Path) -> None:
    """Spawned processes become ranks when they join a group and say goodbye; a forked child of one is none."""
    listener = new_listener()
    done = listener.run(str(scripts / "spawned.py"), str(tmp_path / "store"))
    assert done.returncode == 0, done.stderr
    assert [heard.hello.rank for heard in listener.heard] == [0, 1]
    assert all(heard.bye and len(heard.steps()) == 3 for heard in listener.heard)
    assert all("communication" in step for step in listener.heard[0].steps())
