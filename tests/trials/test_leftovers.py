"""Processes of a trial are found by their mark, whatever session and parent they have, and ended."""

import os
import subprocess
import sys

import pytest

from trials import leftovers


def process(proc, pid, parent=1, environ=b"", state="S"):
    folder = proc / str(pid)
    folder.mkdir(parents=True)
    (folder / "environ").write_bytes(environ)
    (folder / "stat").write_bytes(f"{pid} (odd) name) {state} {parent} 1 1".encode())


def marked(value):
    return f"A=1\0{leftovers.MARK}={value}\0B=2\0".encode()


def test_the_mark_is_found(tmp_path):
    """By its beginning; not in another variable, of a zombie, or of what cannot be read."""
    process(tmp_path, 10, environ=marked("abc:j1"))
    process(tmp_path, 11, environ=marked("abc:j2"))
    process(tmp_path, 12, environ=marked("xabc:j1"))
    process(tmp_path, 13, environ=marked("abc:j1"), state="Z")
    process(tmp_path, 14, environ=b"OTHER_" + marked("abc:j1")[4:])
    process(tmp_path, 15)
    (tmp_path / "16").mkdir()
    (tmp_path / "self").mkdir()

    assert sorted(leftovers.marked("abc", tmp_path)) == [10, 11]
    assert leftovers.marked("abc:j2", tmp_path) == [11]


def test_a_process_is_not_its_own_leftover(tmp_path):
    """Though a trial may bear the mark of one around it."""
    process(tmp_path, os.getpid(), environ=marked("abc"))

    assert leftovers.marked("abc", tmp_path) == []


def test_all_below_are_found(tmp_path):
    """Children of children; nobody beside them."""
    for pid, parent in ((10, 1), (11, 10), (12, 11), (13, 11), (20, 1), (21, 20)):
        process(tmp_path, pid, parent)

    assert sorted(leftovers.descendants(10, tmp_path)) == [11, 12, 13]
    assert leftovers.descendants(99, tmp_path) == []


@pytest.mark.e2e
def test_what_has_a_session_and_no_parent_is_ended(tmp_path, until):
    """A process that ignores all that can be ignored, and whose parent has left."""
    mark = f"test-{os.getpid()}"
    deaf = "import signal, time; [signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]; time.sleep(3600)"
    leave = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {deaf!r}], start_new_session=True)"
    subprocess.run([sys.executable, "-c", leave], env=os.environ | {leftovers.MARK: f"{mark}:j"}, check=True)
    until(lambda: leftovers.marked(mark))

    assert leftovers.end(f"{mark}:other") == []
    assert leftovers.marked(mark)
    assert leftovers.end(mark) == []
    assert leftovers.marked(mark) == []
