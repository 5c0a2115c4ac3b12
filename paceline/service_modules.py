"""Where the services and tools are: one name beside those of others, or folders of a checkout.

Rule of this file: the wheel installs the one top-level name ``paceline``, for there are other packages called
``control``, ``streams`` or ``ui``, and folders of that name on PYTHONPATH. Nothing else knows which of both we run
from: a service says ``__package__`` of itself, imports its own modules relatively, and never another service.
"""

import sys
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.metadata import EntryPoint
from importlib.util import module_from_spec
from pathlib import Path
from typing import Any

PREFIX = "paceline._services."
_HOME = Path(__file__).parent


def module(name: str, home: Path = _HOME) -> str:
    """The module that is called ``name`` ("streams.analyze") in a checkout, as it is imported here."""
    return PREFIX + name if (home / "_services" / name.partition(".")[0]).is_dir() else name


def load(entry: EntryPoint) -> Any:
    """What ``entry`` names. Those of ours name what the wheel installs, which a checkout has elsewhere.

    Raises:
        ImportError: it, or what it needs, is not installed.
    """
    if not entry.module.startswith(PREFIX):
        return entry.load()
    name = entry.module.removeprefix(PREFIX)
    found = module(name)
    if found == name:
        _import_ours(name.partition(".")[0], _HOME.parent)
    return EntryPoint(entry.name, f"{found}:{entry.attr}", entry.group).load()


def _import_ours(service: str, checkout: Path) -> None:
    """Import the ``service`` of ``checkout``, whatever comes before it on the path."""
    spec = None if service in sys.modules else PathFinder.find_spec(service, [str(checkout)])
    if spec is None or spec.loader is None:
        import_module(service)
        return
    sys.modules[service] = made = module_from_spec(spec)
    try:
        spec.loader.exec_module(made)
    except BaseException:
        del sys.modules[service]
        raise
