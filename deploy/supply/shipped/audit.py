"""`make audit`: whether a package of any lock is known to be weak.

Rule of this file: no answer is no "well". `pip-audit` ends with success where the index answers and its service of
advisories does not: what it did not look at counts here, and fails. A service that calls a release well which all
advisories call weak has none of them: a mirror may give out packages without their weaknesses.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from .locks import everything

#: Nothing found; something found; not all was looked at.
WELL, WEAK, UNKNOWN = 0, 1, 2
#: Weak by PYSEC-2018-66 and PYSEC-2019-179; nothing of ours needs it.
KNOWN_WEAK = "flask==0.5"


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


def asked(requirements: Path, *options: str) -> tuple[int, list[str]]:
    """What is known of the packages that ``requirements`` pins; PyPI's JSON interface is asked."""
    command = [sys.executable, "-m", "pip_audit", "--requirement", str(requirements), "--disable-pip", *options]
    ended = subprocess.run([*command, "--format", "json"], capture_output=True, text=True, check=False)
    try:
        return judged(json.loads(ended.stdout))
    except (ValueError, KeyError, TypeError):
        said = ended.stderr.strip().splitlines() or ["no answer"]
        return UNKNOWN, [f"not looked at: {said[-1][:300]}"]


def ignorance() -> str:
    """Why the service that is asked cannot judge anything; "" where it knows of a weakness that all know."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(f"{KNOWN_WEAK}\n")
        file.flush()
        status, lines = asked(Path(file.name), "--no-deps")
    if status == WEAK:
        return ""
    return lines[-1] if status == UNKNOWN else f"{KNOWN_WEAK} is weak, and is called well"


def main() -> int:
    """Audit every lock; the worst status."""
    if why := ignorance():
        return _unknown(f"no lock was looked at: {why}")
    worst = WELL
    for name, lock in everything().items():
        status, lines = asked(lock, "--require-hashes")
        worst = max(worst, status)
        for line in lines:
            print(f"{name}: {line}")
    return _unknown("not all was looked at") if worst == UNKNOWN else worst


def _unknown(why: str) -> int:
    print(f"make audit: {why}; fix: run it where PyPI's JSON interface can be reached", file=sys.stderr)
    return UNKNOWN


if __name__ == "__main__":
    sys.exit(main())
