"""`make release KEY=FILE`: what is given out, with its contents, whence it was made, and a signature over all.

Rule of this file: the key is read by ssh-keygen alone, and may lie in an agent. What is not signed is in no list, and
whoever verifies needs `ssh-keygen` and `sha256sum` and nothing of ours.
"""

import argparse
import hashlib
import json
import subprocess
import sys
from pathlib import Path

from . import sbom
from .locks import ROOT, everything

#: What a signature is for: one over something else does not count for this.
NAMESPACE = "paceline-release"
SUMS, PROVENANCE = "SHA256SUMS", "paceline.intoto.json"


def digest(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def provenance(folder: Path, files: list[Path], commit: str) -> dict[str, object]:
    """Whence ``files`` are: an in-toto statement with SLSA's predicate, for this commit and its locks."""
    locks = [
        {"uri": f"file:{lock.relative_to(ROOT)}", "digest": {"sha256": digest(lock)}} for lock in everything().values()
    ]
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": str(one.relative_to(folder)), "digest": {"sha256": digest(one)}} for one in files],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "make release",
                "externalParameters": {"commit": commit},
                "resolvedDependencies": [{"uri": "git:paceline", "digest": {"gitCommit": commit}}, *locks],
            },
            "runDetails": {"builder": {"id": f"python {sys.version.split()[0]}, {sys.platform}"}},
        },
    }


def list_sums(folder: Path) -> Path:
    """Write the sums of all files in ``folder``, as `sha256sum -c` reads them."""
    files = sorted(one for one in folder.rglob("*") if one.is_file() and one.name not in (SUMS, f"{SUMS}.sig"))
    path = folder / SUMS
    path.write_text("".join(f"{digest(one)}  {one.relative_to(folder)}\n" for one in files))
    return path


def sign(sums: Path, key: Path) -> Path:
    """Sign ``sums`` with the key (a private one, or the public one of a key in an agent); where the signature is.

    Raises:
        subprocess.CalledProcessError: ssh-keygen cannot, and says why.
    """
    signature = sums.with_name(f"{sums.name}.sig")
    signature.unlink(missing_ok=True)
    subprocess.run(["ssh-keygen", "-q", "-Y", "sign", "-f", str(key), "-n", NAMESPACE, str(sums)], check=True)
    return signature


def main() -> int:
    """Write ``dist/`` anew: sums, contents and provenance of the wheel that lies there, and the signature."""
    parser = argparse.ArgumentParser(description="Contents, provenance and signature of what is given out.")
    parser.add_argument("--key", type=Path, required=True, help="an SSH key: private, or public with an agent")
    parser.add_argument("--folder", type=Path, default=ROOT / "dist")
    args = parser.parse_args()
    changed = _git("status", "--porcelain", "--untracked-files=normal")
    if changed:
        print(f"make release: the checkout is not its commit: {changed.splitlines()[0]}; commit first", file=sys.stderr)
        return 1
    files = [*sorted(args.folder.glob("paceline-*.whl")), *sbom.write(args.folder / "sbom")]
    statement = provenance(args.folder, files, _git("rev-parse", "HEAD"))
    (args.folder / PROVENANCE).write_text(json.dumps(statement, indent=1) + "\n")
    print(sign(list_sums(args.folder), args.key))
    return 0


def _git(*words: str) -> str:
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
