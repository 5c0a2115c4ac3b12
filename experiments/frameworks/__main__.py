"""``make test-frameworks``: tests/frameworks in an environment that holds the wheel, and what came of each run.

Rule of this file: it starts the tests and reads the results they leave; what is right is theirs to judge.
"""

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from experiments import markdown
from experiments.machine import machine

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests" / "frameworks"
PAGE = ROOT / "docs" / "frameworks.md"
#: Where each test leaves its result: a folder that git does not look into.
RESULTS = ROOT / ".paceline" / "frameworks"
PYTHON = ROOT / ".venv-frameworks" / "bin" / "python"
#: Whose versions the page tells.
PACKAGES = ("paceline", "torch", "lightning", "transformers", "accelerate", "ray", "deepspeed")
HEAD = ["script", "fault", "ranks", "steps", "a step", "forward", "backward", "evaluation", "other", "accused", "right"]


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="make test-frameworks", description=__doc__.splitlines()[0])
    made.add_argument("--only", metavar="WORDS", help="the tests that pytest's -k WORDS names; results of others stay")
    made.add_argument("--told", action="store_true", help="run nothing: the table of the results that are there")
    made.add_argument("--write", action="store_true", help="put the table into docs/frameworks.md")
    return made


def main() -> int:
    options = parser().parse_args()
    status = 0 if options.told else _run(options.only)
    results = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))]
    there = machine()
    head = f"{there['date']}, {there['cores']} cores of {there['processor']}, Python {there['python']}"
    text = f"{head}.\n\n{_versions()}\n\n{markdown.table(HEAD, [row(each) for each in results])}"
    print(text)
    if options.write:
        markdown.write(PAGE, "frameworks", text)
    return status


def _run(only: str | None) -> int:
    """Run the tests, or those that ``only`` names, beside whose results the others' stay; pytest's exit status."""
    if not only:
        shutil.rmtree(RESULTS, ignore_errors=True)
    # The checkout is kept off the path of the tests: they are to meet the wheel.
    tests = [str(PYTHON), "-P", "-m", "pytest", "-m", "frameworks", "-p", "no:cacheprovider", str(TESTS)]
    return subprocess.run([*tests, *(["-k", only] if only else [])], cwd=ROOT, check=False).returncode


def row(told: dict[str, Any]) -> list[str]:
    """One line of the table.

    >>> told = {"script": "a", "fault": "compute", "ranks": 4, "steps": [75], "median_step_s": 0.2, "right": True}
    >>> shares = {"forward": 0.3, "backward": 0.5, "evaluation": 0.01, "other": 0.0}
    >>> row(told | {"shares": shares, "accused": {"2": "worker_compute"}})[3:]
    ['75', '200 ms', '30%', '50%', '1%', '0%', 'rank 2: worker_compute', 'yes']
    """
    shares = [f"{told['shares'][name]:.0%}" for name in ("forward", "backward", "evaluation", "other")]
    accused = ", ".join(f"rank {rank}: {cause}" for rank, cause in told["accused"].items()) or "nobody"
    steps = ", ".join(str(count) for count in told["steps"])
    took = f"{told['median_step_s'] * 1e3:.0f} ms"
    right = "yes" if told["right"] else "no"
    return [told["script"], told["fault"], str(told["ranks"]), steps, took, *shares, accused, right]


def _versions() -> str:
    """What was installed, by that Python's own word."""
    code = "import importlib.metadata, sys; print(*(importlib.metadata.version(name) for name in sys.argv[1:]))"
    told = subprocess.run([PYTHON, "-c", code, *PACKAGES], check=True, capture_output=True, text=True).stdout.split()
    return ", ".join(f"{name} {version}" for name, version in zip(PACKAGES, told, strict=True)) + "."


if __name__ == "__main__":
    sys.exit(main())
