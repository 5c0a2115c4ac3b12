"""The wheel as documents name it."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_documents_name_the_wheel_that_is_built() -> None:
    """Its version, and an extra that it has."""
    for page in ("README.md", "docs/deploy.md"):
        named = re.findall(r"dist/(paceline-[\w.]+?)-py3-none-any\.whl(?:\[(\w+)\])?", (ROOT / page).read_text())
        assert {name for name, _ in named} == {f"paceline-{PROJECT['version']}"}
        assert {extra for _, extra in named if extra} <= set(PROJECT["optional-dependencies"])
