"""Paceline's contract and SDK: what other people's code imports. It imports no service."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    __version__: str
else:

    def __getattr__(name: str) -> str:
        """``__version__``, when somebody asks: looking it up takes longer than all else of a small command."""
        if name != "__version__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("paceline")
        except PackageNotFoundError:  # a source tree on sys.path without an install
            return "0+unknown"
