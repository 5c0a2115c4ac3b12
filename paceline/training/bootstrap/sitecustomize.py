"""Python runs this at start-up when ``paceline run`` has put its folder on PYTHONPATH.

Rule of this file: it costs a process that never imports PyTorch nothing, and fails none. It hands over to the
``sitecustomize`` that it hides, then waits for PyTorch to be imported. Every Python that training starts runs it, so it
is written for any from 3.6 on; what it hands over to is for 3.9 and newer.

The Python that trains need not have Paceline: where it has none, ``paceline`` is the package that this file lies in,
and nothing else of the folder around that, for its packages are another Python's. One that is installed there is taken.
"""

import os
import sys
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec
from types import ModuleType
from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))
#: The folder that holds the package ``paceline``.
_BESIDE = os.path.abspath(os.path.join(_HERE, "..", "..", ".."))
#: The first Python that what runs in training is written for.
_LEAST = (3, 9)
#: As ``paceline.training.activation.MODULES``, which must not be imported before PyTorch is.
_AWAITED = {
    "torch",
    "torch.distributed.fsdp",
    "torch.distributed.checkpoint",
    "torch.distributed._functional_collectives",
    "torch.distributed.pipelining.stage",
    "deepspeed.runtime.engine",
}


class _Loader(Loader):
    """The loader of an awaited module, followed by us."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> Any:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        _AWAITED.discard(module.__name__)
        _imported(module.__name__)


class _Finder:
    """Lets the others find an awaited module and follows its loader; ``paceline`` it finds where they do not."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> "ModuleSpec | None":
        try:
            return self._found(name, path, target)
        except Exception:  # The others are asked all the same, and say for themselves what is wrong.
            return None

    def _found(self, name: str, path: Any, target: Any) -> "ModuleSpec | None":
        if name == "paceline":
            spec = self._others(name, path, target)
            # A folder of that name, as a checkout is one, is no package of ours.
            return spec if spec is not None and spec.has_location else PathFinder.find_spec(name, [_BESIDE])
        if name not in _AWAITED:
            return None
        _AWAITED.discard(name)  # One of the others may ask all finders, and so this one.
        try:
            spec = self._others(name, path, target)
        finally:
            _AWAITED.add(name)  # Whoever looks for a module need not import it, and an import may fail.
        if spec is not None:
            _follow(spec)
        return spec

    def _others(self, name: str, path: Any, target: Any) -> "ModuleSpec | None":
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(name, path, target) if find is not None else None
            if spec is not None:
                return spec
        return None


def _follow(spec: ModuleSpec) -> None:
    try:
        if spec.loader is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Loader(spec.loader)
    except Exception as error:
        _not_started(error)


def _imported(name: str) -> None:
    try:
        if sys.version_info < _LEAST:
            raise ImportError("it takes Python {}.{} or newer".format(*_LEAST))
        from paceline.training.activation import on_import

        on_import(name)
    except Exception as error:  # Another version's files, another package of that name: training goes on with any.
        if name == "torch":
            _not_started(error)


def _not_started(error: Exception) -> None:
    """One line, where standard error is there and takes it."""
    try:
        if sys.stderr is not None:
            reason = f"{type(error).__name__}: {error} ({sys.executable})"
            print(f"paceline: timing did not start: {reason}; training goes on", file=sys.stderr, flush=True)
    except Exception:
        return


def _hand_over() -> None:
    """Run the next ``sitecustomize`` on the path, which ours hides."""
    others = [entry for entry in sys.path if os.path.abspath(entry or os.curdir) != _HERE]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


def follow_imports() -> None:
    """Wait for PyTorch to be imported, once in this process."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


if __name__ == "sitecustomize":
    try:
        _hand_over()
    finally:
        if os.environ.get("PACELINE_SOCKET"):
            follow_imports()
