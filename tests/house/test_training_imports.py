"""What runs in the user's training process needs the standard library, PyTorch where it is, and nothing else."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "paceline"
#: Beside ``paceline.training``; each is in the process of everybody who trains, so a new one is named here first.
ALLOWED = {"paceline", "paceline.identity", "paceline.launchers", "paceline.phases", "paceline.settings"}
ALLOWED |= {"paceline.bounds", "paceline.visible"}
#: The training job of ``paceline demo``, which is a script as a user has one.
SCRIPTS = {"paceline.training.example", "paceline.training.example_faults"}


def imported(body: list[ast.stmt], package: str) -> Iterator[str]:
    """The modules that run when ``body``, of ``package``, runs, or what it defines: not what a type checker sees."""
    for node in body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            yield from imported(node.orelse, package)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = f"{package}.{node.module or ''}".rstrip(".") if node.level else node.module
            yield from (f"{module}.{alias.name}" for alias in node.names)
        else:
            for field in ("body", "orelse", "finalbody", "handlers", "cases"):
                yield from imported(getattr(node, field, []), package)


def file_of(name: str) -> Path | None:
    """The file of a module of ours; None where ``name`` is what a module holds."""
    path = PACKAGE.parent.joinpath(*name.split("."))
    return next((file for file in (path / "__init__.py", path.with_suffix(".py")) if file.is_file()), None)


def reached(folder: str) -> tuple[set[str], set[str]]:
    """Modules of ours that those of ``folder`` can come to, and the other packages that these import."""
    files = (PACKAGE / folder).rglob("*.py")
    names = [".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in files]
    waiting = [name for name in names if name not in SCRIPTS]
    ours: set[str] = set()
    others: set[str] = set()
    while waiting:
        name = waiting.pop().removesuffix(".__init__")
        file = file_of(name) or file_of(name.rpartition(".")[0])
        if name.partition(".")[0] != "paceline":
            others.add(name.partition(".")[0])
        elif file is not None and (found := _name(file)) not in ours:
            ours.add(found)
            package = found if file.name == "__init__.py" else found.rpartition(".")[0]
            waiting += [found.rpartition(".")[0] or "paceline", *imported(ast.parse(file.read_text()).body, package)]
    return ours, others


def _name(file: Path) -> str:
    return ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.long
def test_the_probe_reaches_its_own_few_files_alone() -> None:
    ours, _ = reached("training")
    assert {name for name in ours if not name.startswith("paceline.training")} == ALLOWED
    assert "paceline.training.hooks.collectives" in ours


@pytest.mark.long
def test_it_imports_the_standard_library_and_the_pytorch_that_is_there() -> None:
    _, others = reached("training")
    assert others - sys.stdlib_module_names == {"torch"}


@pytest.mark.long
def test_the_balancer_needs_the_probe_and_pytorch_beside_itself() -> None:
    """It is in the process of those who balance."""
    ours, others = reached("balance")
    own = {name for name in ours if not name.startswith(("paceline.balance", "paceline.training"))}
    assert own <= ALLOWED | {"paceline.rated", "paceline.rated_names"}
    assert "paceline.balance.balancer" in ours
    assert others - sys.stdlib_module_names == {"torch"}
