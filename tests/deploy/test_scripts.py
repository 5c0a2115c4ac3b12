"""The scripts behind make: what they say where something is missing."""

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KAFKA = ROOT / "deploy" / "kafka" / "kafka.sh"
PACKAGES = ROOT / "deploy" / "system-packages.sh"


def run(script: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", str(script), *arguments],
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def bare(tmp_path: Path) -> str:
    """A PATH with little more than a shell: no Java, no apt, no sudo."""
    for tool in ("bash", "dirname", "id", "sed", "head", "cut", "cksum", "mkdir"):
        found = shutil.which(tool)
        assert found
        (tmp_path / tool).symlink_to(found)
    return str(tmp_path)


@pytest.mark.slow
def test_missing_system_packages_are_named_with_what_they_cost(bare: str) -> None:
    """Where apt is not allowed, the skipped tests and the command that brings them are said."""
    done = run(PACKAGES, PATH=bare, CI="")
    assert done.returncode == 0
    for said in ("Apache Kafka are skipped", "browser tests are skipped", "fix: sudo apt-get install", "maven"):
        assert said in done.stderr


@pytest.mark.slow
def test_in_ci_a_missing_system_package_is_a_failure(bare: str) -> None:
    """In CI nothing may be skipped."""
    assert run(PACKAGES, PATH=bare, CI="true").returncode == 1


#: What the script looks for in the PATH where nothing is missing.
SYSTEM = ("mvn", "chromium", "ip", "prometheus", "promtool", "prometheus-alertmanager", "initdb", "systemd-analyze")


@pytest.mark.slow
def test_a_library_that_is_there_is_found_however_many_others_are(bare: str) -> None:
    """Those listed after it fill a pipe that nobody reads any more: that is no answer about this one."""
    grep = shutil.which("grep")
    assert grep
    (Path(bare) / "grep").symlink_to(grep)
    for name in (*SYSTEM, "shellcheck"):
        (Path(bare) / name).symlink_to("/bin/true")
    for name, text in (
        ("java", "echo 'openjdk version \"17.0.1\"' >&2"),
        ("ldconfig", "echo libpangoft2-1.0.so.0; for ((i = 0; i < 20000; i++)); do echo libother.so.$i; done"),
    ):
        (Path(bare) / name).write_text(f"#!/bin/bash\n{text}\n")
        (Path(bare) / name).chmod(0o755)
    done = run(PACKAGES, PATH=bare, CI="true")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_the_libraries_of_a_user_without_sbin_in_the_path_are_found(bare: str) -> None:
    """So is a user's PATH on Debian: the list of libraries is asked for all the same."""
    ldconfig = shutil.which("ldconfig", path="/usr/sbin:/sbin")
    if not ldconfig:
        pytest.skip("this system has no ldconfig")
    listed = subprocess.run([ldconfig, "-p"], capture_output=True, text=True, check=True).stdout
    done = run(PACKAGES, PATH=bare, CI="")
    assert ("reports as PDF are skipped" in done.stderr) == ("libpangoft2-1.0.so.0" not in listed)


@pytest.mark.slow
def test_kafka_without_java_says_how_to_get_it(bare: str) -> None:
    """One line: cause and mend."""
    done = run(KAFKA, PATH=bare)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "java is missing" in done.stderr
    assert "apt-get install" in done.stderr


@pytest.mark.slow
def test_make_refuses_passwords_on_its_own_command_line() -> None:
    """make's arguments are in the process list, too: the line says how to give them instead."""
    done = subprocess.run(
        ["make", "kafka", "SCRAM_USERS=ada=s3cret", "PORT=0"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "SCRAM_USERS_FILE" in done.stderr
    assert "s3cret" not in done.stdout + done.stderr


@pytest.mark.bus
@pytest.mark.skipif(not shutil.which("java") or not shutil.which("mvn"), reason="java and mvn are missing")
class TestKafka:
    def test_a_taken_port_is_named(self, tmp_path: Path) -> None:
        """One line that names the port; nothing is formatted."""
        with socket.create_server(("127.0.0.1", 0)) as held:
            port = held.getsockname()[1]
            done = run(KAFKA, PORT=str(port), DATA=str(tmp_path / "data"))
        assert done.returncode == 2
        assert f"port {port} is taken" in done.stderr
        assert not (tmp_path / "data").exists()

    @pytest.mark.parametrize("port", ["0", "70000", "x", "-1", "9092 9093"])
    def test_a_wrong_port_is_refused(self, port: str) -> None:
        """The line says what is allowed."""
        done = run(KAFKA, PORT=port)
        assert done.returncode == 2
        assert "allowed: 1 to 65535" in done.stderr

    def test_an_extra_file_that_is_not_there_is_named(self) -> None:
        """The line names the variable and the file."""
        done = run(KAFKA, PORT="29999", EXTRA_PROPERTIES="/nowhere/extra.properties")
        assert done.returncode == 2
        assert "EXTRA_PROPERTIES=/nowhere/extra.properties" in done.stderr
