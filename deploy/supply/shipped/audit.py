"""`make audit`: whether a package of any lock is known to be weak.

Rule of this file: no answer is no "well". `pip-audit` ends with success where the index answers and its service of
advisories does not: what it did not look at counts here, and fails.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from .locks import everything

#: Nothing found; something found; not all was looked at.
WELL, WEAK, UNKNOWN = 0, 1, 2


def judged(told: dict[str, Any]) -> tuple[int, list[str]]:
    """The status and lines for a person, of pip-audit's answer in JSON.

    >>> judged({"dependencies": [{"name": "a", "version": "1", "vulns": []}]})
    (0, ['1 packages, none known to be weak'])
    >>> judged({"dependencies": [{"name": "a", "skip_reason": "not found"}]})
    (2, ['not looked at: 1 of 1 packages (not found)'])
    >>> judged({"dependencies": []})
    (2, ['not looked at: no package was told'])
    """
    held = told["dependencies"]
    weak = [f"{one['name']} {one['version']}: {weakness['id']}" for one in held for weakness in one.get("vulns", ())]
    skipped = [one for one in held if "skip_reason" in one]
    if not held:
        return UNKNOWN, ["not looked at: no package was told"]
    if skipped:
        weak.append(f"not looked at: {len(skipped)} of {len(held)} packages ({skipped[0]['skip_reason']})")
        return UNKNOWN, weak
    return (WEAK, weak) if weak else (WELL, [f"{len(held)} packages, none known to be weak"])


def audit(lock: Path) -> tuple[int, list[str]]:
    """What is known of the packages in ``lock``."""
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(lock), "--disable-pip", "--require-hashes"]
    ended = subprocess.run([*command, "--format", "json"], capture_output=True, text=True, check=False)
    try:
        return judged(json.loads(ended.stdout))
    except (ValueError, KeyError, TypeError):
        said = ended.stderr.strip().splitlines() or ["no answer"]
        return UNKNOWN, [f"not looked at: {said[-1][:300]}"]


def main() -> int:
    """Audit every lock; the worst status."""
    worst = WELL
    for name, lock in everything().items():
        status, lines = audit(lock)
        worst = max(worst, status)
        for line in lines:
            print(f"{name}: {line}")
    if worst == UNKNOWN:
        print(
            "make audit: not all was looked at; fix: run it where PyPI's JSON interface can be reached",
            file=sys.stderr,
        )
    return worst


if __name__ == "__main__":
    sys.exit(main())
