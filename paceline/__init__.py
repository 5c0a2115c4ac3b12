"""Paceline's contract and SDK: what other people's code imports. It imports no service."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("paceline")
except PackageNotFoundError:  # a source tree on sys.path without an install
    __version__ = "0+unknown"
