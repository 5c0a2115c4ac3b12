"""What is in what we ship is told by its schema, the same each time; a signature holds for what was signed alone."""

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from deploy.supply.shipped import audit, locks, release, sbom

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def collectors() -> bytes:
    return sbom.document((locks.LOCKS / "collectors.lock").read_text(), "paceline-collectors")


@pytest.mark.slow
def test_an_images_contents_are_what_its_lock_pins(collectors: bytes) -> None:
    """Every package with its version and its hashes, by the schema of the format."""
    told = json.loads(collectors)
    text = (locks.LOCKS / "collectors.lock").read_text()
    pinned = dict(re.findall(r"^([a-z0-9._-]+)==([^ ;\\]+)", text, re.M))
    assert {component["name"]: component["version"] for component in told["components"]} == pinned
    assert told["metadata"]["component"]["name"] == "paceline-collectors"
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert told["metadata"]["component"]["version"] == declared
    hashes = collectors.decode().count('"alg": "SHA-256"')
    assert hashes >= text.count("--hash=sha256:")
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(collectors.decode()) is None


@pytest.mark.slow
def test_the_same_lock_gives_the_same_document(collectors: bytes) -> None:
    """No time, no number of a run: whoever builds again can compare."""
    again = sbom.document((locks.LOCKS / "collectors.lock").read_text(), "paceline-collectors")
    assert again == collectors
    assert b"serialNumber" not in collectors
    assert str(ROOT).encode() not in collectors


def test_every_image_has_its_contents_told() -> None:
    """An image that the Dockerfile has and the list has not would be given out without."""
    stages = re.findall(r"^FROM service AS (\w+)$", (ROOT / "deploy" / "Dockerfile").read_text(), re.M)
    assert sorted(locks.IMAGES) == sorted(stages)


def test_the_wheel_needs_what_it_declares() -> None:
    names = [line.partition("==")[0] for line in locks.of_the_wheel().splitlines()]
    assert names == ["msgspec", "kafka-python"]


def test_every_image_has_a_lock() -> None:
    """And every stage of the Dockerfile that is an image is told of."""
    assert all((locks.LOCKS / f"{image}.lock").exists() for image in locks.IMAGES)


@pytest.mark.parametrize(
    ("told", "status"),
    [
        ({"dependencies": [{"name": "a", "version": "1", "vulns": []}]}, audit.WELL),
        ({"dependencies": [{"name": "a", "version": "1", "vulns": [{"id": "CVE-1"}]}]}, audit.WEAK),
        ({"dependencies": [{"name": "a", "skip_reason": "not found"}]}, audit.UNKNOWN),
        ({"dependencies": []}, audit.UNKNOWN),
    ],
)
def test_what_was_not_looked_at_is_not_well(told: dict[str, object], status: int) -> None:
    """pip-audit itself says "no known vulnerabilities" of packages that nobody could tell it anything of."""
    assert audit.judged(told)[0] == status


class Service:
    """pip-audit's answers: one to the release that is known to be weak, another to each lock."""

    def __init__(self, known: tuple[int, list[str]], lock: tuple[int, list[str]]) -> None:
        self.known, self.lock = known, lock
        self.asked: list[str] = []

    def __call__(self, requirements: Path, *_options: str) -> tuple[int, list[str]]:
        text = requirements.read_text()
        self.asked.append(requirements.name)
        return self.known if text == f"{audit.KNOWN_WEAK}\n" else self.lock


WELL, WEAK = (audit.WELL, ["none known to be weak"]), (audit.WEAK, ["a 1: CVE-1"])
SILENT = (audit.UNKNOWN, ["not looked at: 1 of 1 packages (not found)"])


@pytest.mark.parametrize(("known", "why"), [(WELL, "is called well"), (SILENT, "1 of 1 packages")])
def test_a_service_without_advisories_is_asked_of_no_lock(
    known: tuple[int, list[str]], why: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mirror that gives out packages without their weaknesses would call every lock well."""
    service = Service(known, WELL)
    monkeypatch.setattr(audit, "asked", service)
    assert audit.main() == audit.UNKNOWN
    assert len(service.asked) == 1
    assert why in capsys.readouterr().err


@pytest.mark.parametrize("lock", [WELL, WEAK, SILENT])
def test_a_service_that_knows_is_asked_of_every_lock(
    lock: tuple[int, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Service(WEAK, lock)
    monkeypatch.setattr(audit, "asked", service)
    assert audit.main() == lock[0]
    assert set(service.asked) >= {path.name for path in locks.everything().values()}


def verified(folder: Path, namespace: str = release.NAMESPACE) -> bool:
    """As SECURITY.md says it is done."""
    with (folder / release.SUMS).open("rb") as sums:
        signed = subprocess.run(
            f"ssh-keygen -Y verify -f signers -I release@example.com -n {namespace} -s {release.SUMS}.sig".split(),
            stdin=sums,
            cwd=folder,
            capture_output=True,
            check=False,
        )
    whole = subprocess.run(["sha256sum", "--quiet", "-c", release.SUMS], cwd=folder, capture_output=True, check=False)
    return (signed.returncode, whole.returncode) == (0, 0)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen: apt-get install openssh-client")
def test_a_signature_holds_for_what_was_signed(tmp_path: Path) -> None:
    """Not for another file, another sum, another key or another purpose."""
    folder = tmp_path / "dist"
    folder.mkdir()
    (folder / "paceline-1.whl").write_bytes(b"wheel")
    for name in ("key", "other"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name], check=True)
    release.sign(release.list_sums(folder), tmp_path / "key")
    (folder / "signers").write_text(f"release@example.com {(tmp_path / 'key.pub').read_text()}")
    assert verified(folder)
    assert not verified(folder, "file")
    (folder / "paceline-1.whl").write_bytes(b"another")
    assert not verified(folder)
    release.list_sums(folder)
    assert not verified(folder)
    release.sign(folder / release.SUMS, tmp_path / "other")
    assert not verified(folder)


def test_provenance_names_commit_locks_and_each_file(tmp_path: Path) -> None:
    wheel = tmp_path / "paceline-1.whl"
    wheel.write_bytes(b"wheel")
    told = release.provenance(tmp_path, [wheel], "c0ffee")
    assert told["subject"] == [{"name": "paceline-1.whl", "digest": {"sha256": release.digest(wheel)}}]
    assert "c0ffee" in json.dumps(told["predicate"])
    assert "deploy/requirements/ui.lock" in json.dumps(told["predicate"])
