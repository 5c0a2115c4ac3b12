"""Every place where foreign bytes are decoded. A new decoder gets a row in one of the files that this one joins.

Rule of this file: a target's name begins with the file it is in, so that a process imports that one alone.
"""

from importlib import import_module

from .target import Target

AREAS = ("bus", "services", "state", "files", "local", "kube", "why")


def of(area: str) -> dict[str, Target]:
    """The targets of one file, by name."""
    rows: tuple[Target, ...] = import_module(f".{area}", __package__).TARGETS
    return {target.name: target for target in rows}


def every() -> dict[str, Target]:
    """All targets, by name."""
    return {name: target for area in AREAS for name, target in of(area).items()}
