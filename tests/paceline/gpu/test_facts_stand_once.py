"""No module outside paceline/gpu writes a fact about GPUs down again."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.gpu.throttle import REASONS

ROOT = Path(__file__).parents[3]
HOME = ROOT / "paceline" / "gpu"
PACKAGES = ("paceline", "collectors", "streams", "forecaster", "ui", "importers", "simulator", "experiments")
MODULES = [path for name in PACKAGES for path in sorted((ROOT / name).rglob("*.py")) if HOME not in path.parents]
BITS = {reason.bit for reason in REASONS}
#: A hexadecimal number is a mask of these only where clocks are spoken of.
SPEAKS_OF_CLOCKS = ("throttl", "slowdown", "clocks")


def constants(tree: ast.AST) -> Iterator[ast.Constant]:
    """The constants of a module; docstrings and other bare strings, which may speak of anything, are left out."""
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in bare)


def copies(source: str) -> list[str]:
    """DCGM's names and throttle bits that ``source`` writes down itself, with their lines."""
    lines = source.encode().splitlines()
    masks = any(word in source.lower() for word in SPEAKS_OF_CLOCKS)
    found = []
    for node in constants(ast.parse(source)):
        if isinstance(node.value, str) and "DCGM_FI_" in node.value:
            found.append(f"{node.lineno}: {node.value}")
        elif masks and type(node.value) is int and node.value in BITS:
            written = lines[node.lineno - 1][node.col_offset : node.end_col_offset].decode()
            if written.lower().startswith("0x"):
                found.append(f"{node.lineno}: {written}")
    return found


@pytest.mark.slow
def test_modules_take_facts_from_paceline_gpu():
    """A DCGM name or a bit of NVML's clock-event reasons in two places is two facts some day."""
    found = {str(path.relative_to(ROOT)): copies(path.read_text(encoding="utf-8")) for path in MODULES}

    assert len(found) > 100
    assert {path: lines for path, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ('NAME = "DCGM_FI_DEV_GPU_UTIL"', 1),
        ('def f():\n    """As DCGM_FI_DEV_GPU_UTIL."""', 0),
        ("THROTTLING = 0x40 | 0x4", 2),
        ("THROTTLING_S = 64", 0),
        ("FROM_KERNEL = 0x80", 0),
    ],
)
def test_a_copy_is_recognised(source, count):
    """Names and masks are; prose and other numbers are not."""
    assert len(copies(source)) == count
