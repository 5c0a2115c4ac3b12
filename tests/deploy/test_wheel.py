"""The wheel: as documents name it, and what it does to packages of others in the same Python."""

import ast
import hashlib
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLES = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = TABLES["project"]
WHEEL = TABLES["tool"]["hatch"]["build"]["targets"]["wheel"]
SERVICES = sorted(set(WHEEL["only-include"]) - {"paceline"})
RANK = ROOT / "tests" / "paceline" / "training" / "rank.py"


def test_documents_name_the_wheel_that_is_built() -> None:
    """Its version, and an extra that it has."""
    for page in ("README.md", "docs/deploy.md"):
        named = re.findall(r"dist/(paceline-[\w.]+?)-py3-none-any\.whl(?:\[(\w+)\])?", (ROOT / page).read_text())
        assert {name for name, _ in named} == {f"paceline-{PROJECT['version']}"}
        assert {extra for _, extra in named if extra} <= set(PROJECT["optional-dependencies"])


def test_every_service_is_installed_below_our_own_name() -> None:
    """And everything that is looked up by name is looked up there."""
    assert WHEEL["sources"] == {service: f"paceline/_services/{service}" for service in SERVICES}
    groups = [PROJECT["scripts"], *PROJECT["entry-points"].values()]
    assert {target.partition(".")[0] for group in groups for target in group.values()} == {"paceline"}


@pytest.mark.slow
@pytest.mark.parametrize("service", SERVICES)
def test_a_service_does_not_import_itself_by_name(service: str) -> None:
    """It has another one where it is installed."""
    for path in (ROOT / service).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            assert not {name.partition(".")[0] for name in names} & set(SERVICES), path


class Installed:
    """A Python of its own, with our wheel and what it needs."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.python = folder, folder / "venv" / "bin" / "python"
        self.run(sys.executable, "-m", "venv", str(folder / "venv"))
        pure = self.run(str(self.python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))")
        self.packages = Path(pure.strip())
        self.run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "dist"), cwd=ROOT)
        (self.wheel,) = (folder / "dist").glob("*.whl")

    def run(self, *command: str, cwd: Path | None = None, environ: dict[str, str] | None = None) -> str:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            cwd=cwd or self.folder,
            env={**os.environ, **(environ or {})},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def pip(self, *words: str) -> None:
        self.run(str(self.python), "-m", "pip", "--disable-pip-version-check", *words)

    def install(self, *wheels: Path) -> None:
        self.pip("install", "--no-index", "--no-deps", *map(str, wheels))

    def files(self, names: list[str]) -> dict[str, str]:
        """What is in the folders ``names``, but for what Python compiles there."""
        paths = [path for name in names for path in (self.packages / name).rglob("*") if path.is_file()]
        return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths if path.suffix != ".pyc"}


def another(name: str, folder: Path) -> Path:
    """A wheel of somebody else's called ``name``, with files where ours could have some."""
    path, info = folder / f"{name}-9.1-py3-none-any.whl", f"{name}-9.1.dist-info"
    held = {
        f"{name}/__init__.py": f"owner = 'the other {name}'\n",
        f"{name}/__main__.py": "raise SystemExit(3)\n",
        f"{name}/analyze.py": "raise SystemExit(3)\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 9.1\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    rows = [f"{inside},," for inside in [*held, f"{info}/RECORD"]]
    with zipfile.ZipFile(path, "w") as wheel:
        for inside, text in {**held, f"{info}/RECORD": "\n".join(rows) + "\n"}.items():
            wheel.writestr(inside, text)
    return path


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(tmp_path_factory.mktemp("wheel"))


@pytest.mark.slow
@pytest.mark.parametrize("ours_first", [False, True], ids=["ours comes second", "ours comes first"])
def test_packages_of_others_stay_as_they_are(installed: Installed, ours_first: bool) -> None:
    """Every name that a service of ours has is somebody else's package: installing and removing ours changes no file
    of theirs, in whichever order."""
    theirs = [another(name, installed.folder) for name in SERVICES]
    order = [[installed.wheel], theirs] if ours_first else [theirs, [installed.wheel]]
    installed.install(*order[0])
    before = installed.files(SERVICES)
    assert len(before) == (0 if ours_first else 3 * len(SERVICES))
    installed.install(*order[1])
    beside = installed.files(SERVICES)
    assert len(beside) == 3 * len(SERVICES)
    assert ours_first or beside == before
    says = "import control, streams, sys; sys.stdout.write(control.owner + streams.owner)"
    assert installed.run(str(installed.python), "-c", says) == "the other controlthe other streams"
    installed.pip("uninstall", "--yes", "paceline")
    assert installed.files(SERVICES) == beside
    assert not (installed.packages / "paceline").exists()
    installed.pip("uninstall", "--yes", *SERVICES)


@pytest.mark.slow
def test_whatever_is_on_the_path_the_run_has_its_panel(installed: Installed, tmp_path: Path) -> None:
    """A project with folders called as our services are, on PYTHONPATH and as the working folder."""
    installed.install(installed.wheel)
    # What ours needs is taken from the environment of these tests.
    (installed.packages / "needed.pth").write_text(sysconfig.get_path("purelib"))
    for name in SERVICES:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('a folder of the project')\n")
    run = [str(installed.packages.parents[2] / "bin" / "paceline"), "run", "--brokers", "none", "--"]
    rank = [str(installed.python), str(RANK), "0", "30", "0"]
    shown = installed.run(*run, *rank, cwd=tmp_path, environ={"PYTHONPATH": str(tmp_path)})
    assert "pip install" not in shown
    for command in TABLES["project"]["entry-points"]["paceline.commands"]:
        words = [run[0], command, "--help"]
        assert "usage: paceline" in installed.run(*words, cwd=tmp_path, environ={"PYTHONPATH": str(tmp_path)})


@pytest.mark.slow
def test_removing_packages_of_others_leaves_ours_whole(installed: Installed) -> None:
    """One by one, in any order: ours stays as it was, and works."""
    theirs = [another(name, installed.folder) for name in SERVICES]
    installed.install(*theirs, installed.wheel)
    before = installed.files(["paceline"])
    assert any("_services" in path for path in before)
    for name in sorted(SERVICES, reverse=True):
        installed.pip("uninstall", "--yes", name)
        assert installed.files([name]) == {}
        assert installed.files(["paceline"]) == before
    (installed.packages / "needed.pth").write_text(sysconfig.get_path("purelib"))
    assert "usage: paceline analyze" in installed.run(str(installed.python), "-m", "paceline", "analyze", "--help")


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("-I",), ("-P",)])
def test_a_folder_called_paceline_beside_the_script_is_no_package(
    installed: Installed, tmp_path: Path, options: tuple[str, ...]
) -> None:
    """As results or a checkout are: `python -m paceline` is what is installed, and so is the command."""
    installed.install(installed.wheel)
    (installed.packages / "needed.pth").write_text(sysconfig.get_path("purelib"))
    (tmp_path / "paceline" / "results").mkdir(parents=True)
    said = installed.run(str(installed.python), *options, "-m", "paceline", "--version", cwd=tmp_path)
    assert said == f"paceline {PROJECT['version']}\n"
    program = str(installed.python.with_name("paceline"))
    run = [program, "run", "--brokers", "none", "--", str(installed.python), str(RANK), "0", "30", "0"]
    assert "Verdict" in installed.run(*run, cwd=tmp_path)


@pytest.mark.slow
def test_a_checkout_in_use_keeps_apart_from_packages_of_others(installed: Installed, tmp_path: Path) -> None:
    """An editable installation puts its folder last on the path: their names are theirs, and our commands are ours."""
    installed.pip("uninstall", "--yes", "paceline")
    installed.install(*(another(name, installed.folder) for name in SERVICES))
    (installed.packages / "needed.pth").write_text(f"{sysconfig.get_path('purelib')}\n{ROOT}\n")
    says = "import control, streams; print(control.owner, streams.owner)"
    assert installed.run(str(installed.python), "-c", says, cwd=tmp_path) == "the other control the other streams\n"
    run = ["-m", "paceline", "run", "--brokers", "none", "--", str(installed.python), str(RANK), "0", "30", "0"]
    assert "Verdict" in installed.run(str(installed.python), *run, cwd=tmp_path)
    installed.pip("uninstall", "--yes", *SERVICES)
