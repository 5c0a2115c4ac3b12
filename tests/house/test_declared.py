"""The rules of the house that no single module can keep: imports, names declared before use, commands that exist."""

import re
from pathlib import Path

import pytest

from annotator import meters as annotator
from archive import meters as archive
from archive.database import meters as database
from collectors import meters as collectors
from control import meters as control
from forecaster.api import meters as forecaster
from paceline import topics
from paceline.alerts import meters as alerts
from paceline.settings import SETTINGS
from streams import meters as streams
from trials.jobs import variable
from trials.spec import DIMENSIONS

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
CHART = [path for path in ROOT.glob("deploy/helm/paceline/**/*") if path.suffix in (".yaml", ".tpl", ".txt")]
DEPLOYED = sorted(
    [*ROOT.glob("docker-compose.yml"), *(path for path in ROOT.glob("deploy/*") if path.is_file()), *CHART, *PAGES]
)


def words(pattern: str, paths: list[Path]) -> dict[str, set[str]]:
    """What ``pattern`` matches in ``paths`` -> the files it is in."""
    found: dict[str, set[str]] = {}
    for path in paths:
        for word in re.findall(pattern, path.read_text(encoding="utf-8")):
            found.setdefault(word, set()).add(str(path.relative_to(ROOT)))
    return found


def targets() -> set[str]:
    """The commands of the Makefile."""
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))


@pytest.mark.long
def test_tests_are_no_package() -> None:
    """importlib mode gives every test file one identity; an __init__.py would give it two."""
    assert not list(ROOT.glob("tests/**/__init__.py"))


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_make_commands_in_pages_exist(page: Path) -> None:
    """A command that a page shows in code is a target of the Makefile."""
    code = re.findall(r"```.*?```|`[^`\n]+`", page.read_text(encoding="utf-8"), re.S)
    named = {name for block in code for name in re.findall(r"\bmake ([a-z-]+)", block)}
    assert named <= targets()


def test_settings_are_declared() -> None:
    """Compose, images and pages name only settings that the table declares, and a trial's variables."""
    used = words(r"\bPACELINE_[A-Z0-9_]+\b(?!\*)", DEPLOYED)
    declared = {setting.name for setting in SETTINGS} | {variable(name) for name in DIMENSIONS}
    assert {name: files for name, files in used.items() if name not in declared} == {}


def test_settings_are_explained() -> None:
    """Every setting stands in the table of the page on deploying."""
    page = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    explained = {
        name for row in re.findall(r"^\| (`PACELINE_.*?) \|", page, re.M) for name in re.findall(r"`(\w+)`", row)
    }
    assert explained == {setting.name for setting in SETTINGS}


def test_topics_are_declared() -> None:
    """Compose, images and pages name only topics that the table declares."""
    used = words(r"\bpaceline\.[a-z]+\.v[0-9]+\b", DEPLOYED)
    assert {name: files for name, files in used.items() if name not in topics.BY_NAME} == {}


def test_metrics_are_exported() -> None:
    """Pages, rules and dashboards name only metrics that a service exports."""
    endings = {"counter": ("_total",), "gauge": ("",), "histogram": ("", "_bucket", "_sum", "_count")}
    exported = {
        meter.name + ending
        for service in (streams, collectors, forecaster, control, alerts, annotator, archive, database)
        for meter in service.METERS
        for ending in endings[meter.kind]
    }
    of_jobs = r"step|steps|lateness|ranks|wait|phase|rank|bus_bandwidth|findings|lost|suggestions|forecast|device|host"
    deployed = [*DEPLOYED, *ROOT.glob("deploy/prometheus/**/*.yml"), *ROOT.glob("deploy/grafana/**/*.json")]
    used = words(
        rf"\bpaceline_(?:streams|forecaster|control|collectors|sidecar|alerts|annotator|archive|{of_jobs})_[a-z0-9_]+\b(?!\*)",
        deployed,
    )
    assert {name: files for name, files in used.items() if name not in exported} == {}


def test_links_between_pages_lead_somewhere() -> None:
    """A relative link in a page names a file that is there."""
    broken = [
        f"{page.relative_to(ROOT)}: {link}"
        for page in PAGES
        for link in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        if not (page.parent / link).exists()
    ]
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_paths_named_in_pages_exist(page: Path) -> None:
    """A path of this repository that a page names in code is there; CONTRIBUTING says by such where to change what."""
    made = {line.strip("/") for line in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()}  # old, or none
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")}
    tops = "|".join(sorted(folders - made))
    spans = re.findall(r"`([^`\n]+)`", page.read_text(encoding="utf-8"))
    named = {path for span in spans for path in re.findall(rf"(?<![\w./-])(?:{tops})/[\w./-]*", span)}
    assert {path for path in named if not (ROOT / path).exists()} == set()


def test_modules_started_by_name_exist() -> None:
    """What a page or the Makefile starts by `python -m` is there."""
    started = words(
        r"-m ((?:paceline|annotator|archive|collectors|streams|forecaster|control|ui|importers|postmortem|simulator"
        r"|trials|experiments)[a-z_.]*)",
        [ROOT / "Makefile", *PAGES],
    )
    files = {name: ROOT / name.replace(".", "/") for name in started}
    assert {
        name
        for name, path in files.items()
        if not path.with_suffix(".py").exists() and not (path / "__main__.py").exists()
    } == set()


def test_ci_runs_the_command_of_the_readme() -> None:
    """`.ci/run` is `make test`, and nothing else."""
    lines = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if line and not line.startswith("#")]
    assert lines[-1] == "exec make test"
    assert not any(line.startswith(("pytest", "python", "uv ")) for line in lines)


def test_locks_name_no_index() -> None:
    """What is installed is pinned by hash, from whichever index the machine uses."""
    for lock in (ROOT / "requirements.lock", *ROOT.glob("deploy/requirements/*.lock")):
        text = lock.read_text(encoding="utf-8")
        assert "://" not in text, lock
        assert not re.search(r"^--?(index|extra|find)", text, re.M), lock
        pinned = re.findall(r"^([a-z0-9._-]+)==", text, re.M)
        assert pinned
        assert text.count("--hash=sha256:") >= len(pinned), lock
