"""The locks: one of each image, and the two packages that the wheel itself needs.

Rule of this file: it reads files of the checkout, and nothing else.
"""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]
LOCKS = ROOT / "deploy" / "requirements"
IMAGES = ("annotator", "archive", "collectors", "streams", "forecaster", "control", "ui", "demo")


def everything() -> dict[str, Path]:
    """Every lock of the checkout by its name; `requirements.lock` is what development installs."""
    return {"development": ROOT / "requirements.lock", **{lock.stem: lock for lock in sorted(LOCKS.glob("*.lock"))}}


def pins(text: str) -> dict[str, str]:
    """Name to the whole entry, hashes included.

    >>> pins("a==1 --hash=sha256:0\\nb==2 ; os_name == 'nt' --hash=sha256:1")
    {'a': 'a==1 --hash=sha256:0', 'b': "b==2 ; os_name == 'nt' --hash=sha256:1"}
    """
    joined = text.replace("\\\n", " ")
    lines = [re.sub(r"\s+", " ", line.partition("    # ")[0]).strip() for line in joined.splitlines()]
    return {re.split(r"[=\s;\[]", line, maxsplit=1)[0]: line for line in lines if line and not line.startswith("#")}


def of_the_wheel() -> str:
    """The part of the lock that `pip install paceline` without an extra brings."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    held = pins((ROOT / "requirements.lock").read_text(encoding="utf-8"))
    names = [re.split(r"[^A-Za-z0-9._-]", wanted, maxsplit=1)[0] for wanted in declared]
    return "".join(f"{held[name]}\n" for name in names)
