"""A program gets the message on its standard input, as it is, and nothing else of ours."""

import sys
from pathlib import Path

import pytest

from paceline.alerts import program
from paceline.alerts.outcome import NotDeliveredError

ENVIRON = {"PATH": "/usr/bin:/bin", "PACELINE_ALERTS_TO": "secret", "PACELINE_SMTP_PASSWORD": "secret", "KEPT": "yes"}


@pytest.mark.slow
def test_it_gets_the_message_and_no_secret(tmp_path: Path) -> None:
    written = tmp_path / "written"
    script = f"import os, sys; open({str(written)!r}, 'w').write(sys.stdin.read() + repr(sorted(os.environ)))"
    program.run([sys.executable, "-c", script], b'{"a": "$(touch x); `id`"}', ENVIRON)
    said = written.read_text()
    assert said.startswith('{"a": "$(touch x); `id`"}')
    assert "KEPT" in said
    assert "PACELINE" not in said


@pytest.mark.slow
def test_it_need_not_read(tmp_path: Path) -> None:
    program.run(["true"], b"x" * 10_000_000, ENVIRON)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "said"),
    [(["false"], "ended with status 1"), (["/nowhere/at/all"], "cannot be started: No such file or directory")],
)
def test_it_says_what_went_wrong(command: list[str], said: str) -> None:
    with pytest.raises(NotDeliveredError) as failed:
        program.run(command, b"{}", ENVIRON)
    assert str(failed.value) == said


@pytest.mark.slow
def test_one_that_hangs_is_ended_with_all_it_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "TIMEOUT_S", 0.2)
    with pytest.raises(NotDeliveredError, match="did not end within"):
        program.run(["sh", "-c", "sleep 1000 & sleep 1000"], b"{}", ENVIRON)
