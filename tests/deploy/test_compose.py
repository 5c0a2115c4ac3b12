"""docker-compose.yml, read by the real Compose (which needs no engine for that)."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
GPU = ["-f", "docker-compose.yml", "-f", "deploy/compose.gpu.yml"]


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(part) for part in command], cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    """The services as Compose understands them."""
    done = run(BIN / "docker-compose", "config", "--format", "json")
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout)["services"])


def test_compose_files_fit_the_specification() -> None:
    """The published schema of the Compose specification accepts both files."""
    schema = ("--builtin-schema", "vendor.compose-spec")
    done = run(BIN / "check-jsonschema", *schema, "docker-compose.yml", "deploy/compose.gpu.yml")
    assert done.returncode == 0, done.stdout


def test_the_gpu_file_gives_the_collectors_a_gpu() -> None:
    """Laid over the main file it changes the collectors alone."""
    done = run(BIN / "docker-compose", *GPU, "config", "--format", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["services"]
    assert [name for name in found if "deploy" in found[name]] == ["collectors"]


def test_every_service_is_a_folder_or_infrastructure(services: dict[str, Any]) -> None:
    """Folder, compose service and image bear one name."""
    own = {name for name in services if (ROOT / name / "__main__.py").exists()}
    assert set(services) - own == {"kafka", "topics"}
    for name in own:
        assert services[name]["build"]["target"] == name
        assert services[name]["image"].startswith(f"paceline/{name}:")


def test_ports_are_published_on_loopback_only(services: dict[str, Any]) -> None:
    """Nothing is reachable from another machine unless its operator says so."""
    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert ports
    assert {port["host_ip"] for port in ports} == {"127.0.0.1"}


def test_services_have_no_more_rights_than_they_need(services: dict[str, Any]) -> None:
    """No capability, no way to gain one; our own file systems cannot be written."""
    for name, service in services.items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service.get("read_only") or name == "kafka", name


def test_services_start_in_order(services: dict[str, Any]) -> None:
    """Kafka answers, then the topics are made, then everything else starts."""
    assert services["topics"]["depends_on"]["kafka"]["condition"] == "service_healthy"
    assert "healthcheck" in services["kafka"]
    for name in set(services) - {"kafka", "topics"}:
        assert services[name]["depends_on"]["topics"]["condition"] == "service_completed_successfully", name
