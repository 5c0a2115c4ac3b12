"""The units of systemd: what systemd itself says of them, and what they start."""

import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from collectors.options import parse
from paceline.settings import SETTINGS

UNITS = Path(__file__).parents[2] / "deploy" / "systemd"
COLLECT, OTHERS = UNITS / "paceline-collect.service", UNITS / "paceline@.service"
#: The services that the template names.
NAMED = sorted(set(re.findall(r"paceline@(\w+)", OTHERS.read_text())))
#: In tenths: systemd calls 0 to 2 safe, and 2 to 4 fairly so.
MOST_EXPOSED = 20


@pytest.fixture
def analyze():
    """systemd's own checker."""
    found = shutil.which("systemd-analyze")
    if found is None:
        pytest.skip("no systemd-analyze here; fix: sudo apt-get install systemd")

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        environ = {**os.environ, "SYSTEMD_LOG_LEVEL": "warning", "SYSTEMD_PAGER": ""}
        return subprocess.run([found, *words], capture_output=True, text=True, check=False, env=environ)

    return run


def lines(unit: Path, name: str) -> list[str]:
    """The values of a setting, in their order."""
    return re.findall(rf"^{name}=(.*)$", unit.read_text(), re.M)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("unit", "names"),
    [
        (COLLECT, ["paceline-collect"]),
        (OTHERS, [f"paceline@{one}" for one in NAMED]),
    ],
)
@pytest.mark.parametrize("drop_in", [None, "kafka-password.conf", "attribution.conf"])
def test_systemd_takes_the_unit(analyze, tmp_path, unit, names, drop_in):
    """With each drop-in as without it; whatever systemd does not know or would pass over, it warns of."""
    for name in names:
        path = tmp_path / f"{name}.service"
        path.write_text(unit.read_text().replace("/opt/paceline/bin/paceline", sys.executable))
        if drop_in:
            (tmp_path / f"{name}.service.d").mkdir()
            shutil.copy(UNITS / drop_in, tmp_path / f"{name}.service.d")
        done = analyze("verify", "--man=no", "--recursive-errors=no", str(path))
        assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.slow
def test_a_unit_with_a_mistake_is_told(analyze, tmp_path):
    """So that the test above can fail."""
    path = tmp_path / "paceline-collect.service"
    text = COLLECT.read_text().replace("/opt/paceline/bin/paceline", sys.executable)
    path.write_text(text.replace("NoNewPrivileges", "NoNewPriviliges"))
    assert "NoNewPriviliges" in analyze("verify", "--man=no", "--recursive-errors=no", str(path)).stderr


@pytest.mark.slow
@pytest.mark.parametrize("unit", [COLLECT, OTHERS], ids=lambda unit: unit.name)
def test_a_service_can_do_little(analyze, unit):
    """By systemd's own score of what a service that was taken over could still reach."""
    done = analyze("security", "--offline=yes", f"--threshold={MOST_EXPOSED}", str(unit))
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_a_service_without_its_bounds_is_refused(analyze, tmp_path):
    """The score is of the unit, not of the machine."""
    path = tmp_path / "paceline-collect.service"
    path.write_text(f"[Service]\nExecStart={sys.executable}\n")
    assert analyze("security", "--offline=yes", f"--threshold={MOST_EXPOSED}", str(path)).returncode != 0


def test_the_collector_is_started_with_options_that_it_has():
    """And keeps its spool where the unit lets it write."""
    (command,) = lines(COLLECT, "ExecStart")
    program, service, *words = command.replace("%S", "/var/lib").split()
    assert (program, service) == ("/opt/paceline/bin/paceline", "collect")
    assert str(parse(words, {}).spool) == f"/var/lib/{lines(COLLECT, 'StateDirectory')[0]}"


def test_every_service_that_the_template_names_is_a_command():
    commands = {point.name for point in entry_points(group="paceline.commands")}
    assert set(NAMED) == {"streams", "forecaster", "control", "archive", "ui", "alerts"}
    assert set(NAMED) - {"alerts"} <= commands


@pytest.mark.parametrize("path", sorted(UNITS.iterdir()), ids=lambda path: path.name)
def test_settings_are_declared_and_no_secret_stands_in_a_file(path):
    """What is secret comes by a credential: a file that systemd hands over."""
    said = dict(re.findall(r"\b(PACELINE_[A-Z_]+)=(\S+)", path.read_text()))
    declared = {setting.name: setting for setting in SETTINGS}
    assert set(said) <= set(declared)
    assert [name for name in said if declared[name].secret] == []
    assert all(value.startswith("%d/") for name, value in said.items() if name.endswith("_FILE"))
