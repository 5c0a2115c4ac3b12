"""The Dockerfile and what each image installs."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
SERVICES = ("annotator", "archive", "collectors", "streams", "forecaster", "control", "ui")


def pins(lock: Path) -> dict[str, str]:
    """Package -> its version and hashes in ``lock``."""
    found = {}
    for block in re.split(r"^(?=[a-z0-9])", lock.read_text(encoding="utf-8"), flags=re.M):
        if match := re.match(r"([a-z0-9._-]+)==(\S+)", block):
            found[match[1]] = " ".join([match[2], *sorted(re.findall(r"sha256:\w+", block))])
    return found


@pytest.mark.slow
def test_the_linter_has_nothing_to_say() -> None:
    """hadolint finds nothing in the Dockerfile."""
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([str(hadolint), str(DOCKERFILE)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_wheel_is_built_from_every_package() -> None:
    """A package that the wheel holds is sent to the build and copied there."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    copied = re.findall(r"^COPY (\w+) \1$", DOCKERFILE.read_text(), flags=re.M)
    assert sorted(copied) == sorted(packages)
    assert {f"!{package}" for package in packages} <= set((ROOT / ".dockerignore").read_text().split())


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_is_a_stage(service: str) -> None:
    """Every service has a stage of its own that drops root and checks its health."""
    stages = re.split(r"^FROM ", DOCKERFILE.read_text(), flags=re.M)
    (stage,) = [stage for stage in stages if re.match(rf"\S+ AS {service}\n", stage)]
    assert "\nUSER 10001\n" in stage
    assert "\nHEALTHCHECK " in stage
    assert f"deploy/requirements/{service}.lock" in stage


@pytest.mark.parametrize("service", SERVICES)
def test_an_image_installs_what_the_tests_ran_with(service: str) -> None:
    """Its lock is a part of the main one, with the same versions and hashes, and holds no torch."""
    main, own = pins(ROOT / "requirements.lock"), pins(ROOT / "deploy" / "requirements" / f"{service}.lock")
    assert own
    assert {name: pin for name, pin in own.items() if main.get(name) != pin} == {}
    assert "torch" not in own


@pytest.mark.parametrize("service", SERVICES)
def test_a_lock_holds_what_the_extra_asks_for(service: str) -> None:
    """A dependency added to the extra is added to the image's lock: run `make lock`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    asked = [*project["dependencies"], *extras[service]]
    # Of what others bring by another extra of ours, that one's.
    for name in [re.fullmatch(r"paceline\[(\w+)\]", line) for line in extras[service]]:
        asked = [*asked, *extras[name[1]]] if name else asked
    asked = [line for line in asked if not line.startswith("paceline[")]
    names = {re.match(r"[A-Za-z0-9._-]+", line)[0].lower() for line in asked}  # type: ignore[index]
    assert names <= set(pins(ROOT / "deploy" / "requirements" / f"{service}.lock"))


def test_the_demos_image_trains_with_what_the_tests_trained_with() -> None:
    """Its lock is a part of the main one, PyTorch included; it drops root, and ends with its run."""
    main, own = pins(ROOT / "requirements.lock"), pins(ROOT / "deploy" / "requirements" / "demo.lock")
    assert {name: pin for name, pin in own.items() if main.get(name) != pin} == {}
    assert {"torch", "faust-streaming"} <= set(own)
    stage = DOCKERFILE.read_text().partition(" AS demo\n")[2]
    assert "\nUSER 10001\n" in stage
    assert "\nHEALTHCHECK NONE\n" in stage
    assert "deploy/requirements/demo.lock" in stage


def test_the_build_environment_is_pinned_as_declared() -> None:
    """The wheel in an image is built by the pinned build backend."""
    (backend,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert backend.split("==")[1] == pins(ROOT / "deploy" / "requirements" / "build.lock")["hatchling"].split()[0]
