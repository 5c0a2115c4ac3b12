"""What `paceline up` writes down of itself: found again, by its owner alone, and never taken for another process."""

import os
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from paceline.commands import stack_state, stack_status
from paceline.commands.stack_state import MOST_BYTES, Machine, Process, Stack

ME = Machine().process(os.getpid())
ADDRESSES = {"page": "http://127.0.0.1:8501", "broker": "127.0.0.1:9092", "streams": "http://127.0.0.1:6066"}


def stack(process: Process | None = ME, **fields: object) -> Stack:
    assert process is not None
    usual = {"started_s": 100.0, "detached": True, "logs": "/logs", "addresses": ADDRESSES}
    return Stack(process=process, **(usual | fields))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Alone(Machine):
    """A machine where only some run."""

    living: tuple[Process, ...] = ()

    def runs(self, process: Process) -> bool:
        return process in self.living


def other(pid: int, **fields: object) -> Process:
    assert ME is not None
    return msgspec.structs.replace(ME, pid=pid, **fields)


def test_what_was_written_is_found_and_is_its_owners_alone(tmp_path: Path) -> None:
    """Mode 600 in a folder of mode 700; written again it is the newer one; forgotten it is gone."""
    place = tmp_path / "state" / "paceline"
    file = stack_state.write(stack(), place)
    assert (stat.S_IMODE(file.stat().st_mode), stat.S_IMODE(place.stat().st_mode)) == (0o600, 0o700)
    stack_state.write(stack(ready=True), place)
    assert stack_state.running(place, Machine()) == [stack(ready=True)]
    assert [one.name for one in place.iterdir()] == [file.name]
    stack_state.forget(stack(), place)
    assert stack_state.running(place, Machine()) == []
    assert stack_state.running(tmp_path / "never", Machine()) == []


def test_a_recycled_number_is_another_process(tmp_path: Path) -> None:
    """The same number, started at another time: not listed, and what is left of the first one goes."""
    assert ME is not None
    stack_state.write(stack(other(ME.pid, ticks=ME.ticks - 1)), tmp_path)
    assert stack_state.running(tmp_path, Machine()) == []
    assert list(tmp_path.iterdir()) == []


def test_a_recycled_number_is_never_signalled(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has ended: that is what was asked for."""
    assert ME is not None
    monkeypatch.setattr("signal.pidfd_send_signal", lambda *_: pytest.fail("somebody else was signalled"))
    assert stack_state.end(other(ME.pid, ticks=ME.ticks - 1), 0.0, Machine())
    assert stack_state.end(other(2**22 + 7), 0.0, Machine())


def test_the_newest_comes_first(tmp_path: Path) -> None:
    """Whatever order the folder has them in."""
    processes = [other(pid) for pid in (70, 71, 72)]
    for process, started_s in zip(processes, (2.0, 3.0, 1.0), strict=True):
        stack_state.write(stack(process, started_s=started_s), tmp_path)
    found = stack_state.running(tmp_path, Alone(living=tuple(processes)))
    assert [one.process.pid for one in found] == [71, 70, 72]


@pytest.mark.parametrize("fields", [{"boot": "another"}, {"namespace": "pid:[7]"}])
def test_what_another_machine_wrote_is_left_alone(tmp_path: Path, fields: dict[str, object]) -> None:
    """A home is shared by many nodes: a boot or a container that is not ours has numbers of its own."""
    theirs = stack(other(70, **fields))
    file = stack_state.write(theirs, tmp_path)
    assert stack_state.running(tmp_path, Alone(living=(theirs.process,))) == []
    assert file.exists()


def test_what_others_may_write_is_passed_over(tmp_path: Path) -> None:
    """A file with rights for others, a link, a pipe, nonsense, too much, another's name: none of it is a stack."""
    file = stack_state.write(stack(), tmp_path)
    good = file.read_bytes()
    file.chmod(0o622)
    assert stack_state.running(tmp_path, Machine()) == []
    file.chmod(0o600)
    assert len(stack_state.running(tmp_path, Machine())) == 1
    for wrong in (b"", b"{", b"[" * 10_000, b"null", b"\xff", good + b" " * MOST_BYTES, good.replace(b"page", b"PAGE")):
        file.write_bytes(wrong)
        assert stack_state.running(tmp_path, Machine()) == [], wrong[:20]
    file.unlink()
    (tmp_path / "elsewhere").write_bytes(good)
    (tmp_path / "elsewhere").chmod(0o600)
    file.symlink_to(tmp_path / "elsewhere")
    assert stack_state.running(tmp_path, Machine()) == []
    file.unlink()
    os.mkfifo(file, 0o600)
    assert stack_state.running(tmp_path, Machine()) == []
    (tmp_path / "up-1-2-3.json").write_bytes(good)
    (tmp_path / "up-1-2-3.json").chmod(0o600)
    assert stack_state.running(tmp_path, Machine()) == []


def test_what_another_user_wrote_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its rights: a folder that several users may write to lists each one's own."""
    stack_state.write(stack(), tmp_path)
    assert len(stack_state.running(tmp_path, Machine())) == 1
    mine = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: mine + 1)
    assert stack_state.running(tmp_path, Machine()) == []


def test_a_folder_that_leads_elsewhere_loses_nothing_there(tmp_path: Path) -> None:
    """A link in its place is followed, as a home may be one; what is there stays."""
    there = tmp_path / "there"
    there.mkdir()
    (there / "notes").write_text("mine")
    (tmp_path / "link").symlink_to(there)
    file = stack_state.write(stack(), tmp_path / "link")
    assert file.stat().st_mode & 0o777 == 0o600
    stack_state.forget(stack(), tmp_path / "link")
    assert [path.name for path in there.iterdir()] == ["notes"]


@pytest.mark.parametrize("planted", ["file", "folder", "dangling"])
def test_what_is_planted_in_its_place_is_an_error_and_nothing_else(tmp_path: Path, planted: str) -> None:
    """A file for the folder, a folder for the new file, a link that leads nowhere: refused, and not written through."""
    place = tmp_path / "paceline"
    if planted == "file":
        place.write_text("mine")
    elif planted == "dangling":
        place.symlink_to(tmp_path / "nowhere")
    else:
        stack_state.write(stack(), place).with_suffix(".new").mkdir()
    with pytest.raises(OSError, match=r".+"):
        stack_state.write(stack(), place)
    assert not (tmp_path / "nowhere").exists()


def test_a_link_in_the_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    """What it points at stays as it was."""
    file = stack_state.write(stack(), tmp_path)
    file.unlink()
    victim = tmp_path / "victim"
    victim.write_text("mine")
    for link in (file, file.with_suffix(".new")):
        link.symlink_to(victim)
    stack_state.write(stack(), tmp_path)
    assert victim.read_text() == "mine"
    assert stack_state.running(tmp_path, Machine()) == [stack()]


def test_a_status_says_what_waits() -> None:
    """Who, since when, where, and of each part whether it is ready."""
    said = "\n".join(stack_status.described(stack(), {"page": "it does not answer"}, 400.0))
    assert said.startswith(f"not ready: paceline up (pid {os.getpid()}, in the background), started 5 min")
    assert "page        http://127.0.0.1:8501  it does not answer" in said
    assert "broker      127.0.0.1:9092  ready" in said
    assert "/logs" in said
    assert stack_status.described(stack(detached=False), {}, 400.0)[0].startswith("ready: ")


def test_without_a_stack_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`status` is 3, as of a program that does not run; `down` has nothing to do."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert (stack_status.status([]), stack_status.down([])) == (3, 0)
    assert "not running" in capsys.readouterr().err


def test_what_runs_in_a_terminal_is_not_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """This very process is written down: `down` leaves it, and says how it ends; `status` says that it is not ready."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(stack_status, "readiness", lambda url: None if "_stcore" in url else "joining")
    stack_state.write(stack(detached=False, addresses={**ADDRESSES, "broker": "nonsense"}), tmp_path / "paceline")
    assert stack_status.down([]) == 0
    assert "stop it there with Ctrl-C" in capsys.readouterr().err
    assert stack_status.status(["--json"]) == 1
    told = msgspec.json.decode(capsys.readouterr().out)
    assert told["waits"] == {"broker": "nothing listens there", "streams": "joining"}


@pytest.mark.slow
def test_one_that_does_not_heed_sigterm_is_killed() -> None:
    """After the patience that was given."""
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        process = Machine().process(child.pid)
        assert process is not None
        assert stack_state.end(process, 0.2, Machine())
        assert child.wait() == -9
        assert not Machine().runs(process)


def test_without_a_home_there_is_no_file_and_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading finds nothing, writing fails as on any disk: who asks goes on."""
    monkeypatch.setattr("os.path.expanduser", lambda path: path)
    place = stack_state.folder({})
    assert stack_state.running(place, Machine()) == []
    with pytest.raises(NotADirectoryError):
        stack_state.write(stack(), place)
    assert stack_state.folder({"XDG_STATE_HOME": "/s"}) == Path("/s/paceline")
    assert stack_state.folder({"XDG_STATE_HOME": "relative"}) == place
