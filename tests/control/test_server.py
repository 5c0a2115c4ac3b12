"""What control does when it starts, before it answers anybody."""

import argparse
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from control import server
from control.changes import MOST_RECORDING, GoneOn


@pytest.mark.long
def test_a_start_removes_what_a_crash_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_port: Callable[[], int]
) -> None:
    """Half of a session that was made or deleted, and of a file that was exported."""
    root, found = tmp_path / "sessions", []
    for name in (".new-a-1", ".deleted-b-2", "kept"):
        (root / name).mkdir(parents=True)
    (root / ".export-abc").write_bytes(b"x")
    monkeypatch.setenv("PACELINE_CONTROL_TOKEN", "t")
    monkeypatch.setattr(server, "make_topics", lambda *_: None)
    monkeypatch.setattr(server, "run", lambda *_: found.extend(path.name for path in root.iterdir()))
    brokers = f"127.0.0.1:{free_port()}"
    options = {"sessions_dir": str(root), "address": "127.0.0.1", "port": 0, "log_level": "error"}
    assert server.serve(argparse.Namespace(brokers=brokers, tls_cert=None, tls_key=None, **options)) == 0
    assert set(found) == {"kept", ".making"}


def test_sessions_for_which_there_is_no_room_are_named(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever reads the log knows which to recover."""

    class Changes:
        def go_on(self, because: str = "") -> GoneOn:
            return GoneOn(["a"], ["x", "y"])

    with caplog.at_level(logging.INFO):
        server._go_on(Changes())  # type: ignore[arg-type]
    assert caplog.messages == [
        "a: it was not stopped, so it continues",
        f"{MOST_RECORDING} sessions are recorded at a time: left interrupted, sessions: x, y; "
        "recover them when others have ended",
    ]
