"""An environment that holds what a lock names and nothing more, in no time: links into the one that runs the tests.

Rules of this file: a newcomer's environment lacks most of what developers have, so what starts only beside a package
that no lock of his names must fail here. Versions are those of the running environment; that the locks agree is the
matter of ``deploy/supply``.
"""

import re
import sysconfig
import venv
from collections import defaultdict
from importlib.metadata import Distribution, PackageNotFoundError
from pathlib import Path

#: What lies in a folder of another distribution as well is linked below it.
_DEPTH = 3


def locked_environment(folder: Path, lock: Path) -> Path:
    """Build ``folder`` with the distributions of ``lock`` and this checkout; the folder of its programs.

    Packages of other platforms, which the running environment lacks too, are left out.
    """
    venv.create(folder, symlinks=True, with_pip=False)
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    owners = defaultdict[Path, set[str]](set)
    for name in ["paceline", *re.findall(r"^([A-Za-z0-9._-]+)==", lock.read_text(encoding="utf-8"), re.MULTILINE)]:
        for part in _parts(name):
            owners[part].add(name)
    source = Path(sysconfig.get_path("purelib"))
    for part in sorted(owners):
        place = site / part
        if any((site / above).is_symlink() for above in part.parents):
            continue
        if len(owners[part]) > 1 and len(part.parts) < _DEPTH and (source / part).is_dir():
            place.mkdir()
        else:
            place.symlink_to(source / part)
    programs = folder / "bin"
    program = programs / "paceline"
    program.write_text(
        f"#!{programs / 'python'}\nimport sys\nfrom paceline.__main__ import main\nsys.exit(main())\n", encoding="utf-8"
    )
    program.chmod(0o755)
    return programs


def _parts(name: str) -> set[Path]:
    """The files and folders of a distribution below site-packages, down to ``_DEPTH`` names."""
    try:
        files = Distribution.from_name(name).files or []
    except PackageNotFoundError:
        return set()
    paths = (Path(*file.parts) for file in files if ".." not in file.parts)
    return {Path(*path.parts[:depth]) for path in paths for depth in range(1, min(len(path.parts), _DEPTH) + 1)}
