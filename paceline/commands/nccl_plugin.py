"""NCCL Inspector for a training command: where its plugin is, whether this NCCL may have it, and what turns it on.

Rule of this file: what is wrong is one line, with how to fix it, before anything starts. What the user has set for
NCCL Inspector is respected; nothing is set outside the command's own environment.
"""

import glob
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

#: What the plugin is called where ``make`` of NCCL's sources builds it.
LIBRARY = "libnccl-profiler-inspector.so"
#: Places that are searched after ``LD_LIBRARY_PATH`` and the folder of NCCL's own library.
FOLDERS = (
    "/usr/local/lib",
    "/usr/local/nccl/lib",
    "/usr/lib",
    "/usr/lib64",
    "/usr/lib/*-linux-gnu",
    "/opt/*",
    "/opt/*/lib",
    "/opt/nccl/plugins/profiler/inspector",
)
BUILD = (
    "it is not in NCCL's wheel; build it: make -C plugins/profiler/inspector, in NVIDIA/nccl's sources of that version"
)

#: The first NCCL that calls it, and those from which its profiler is known to cost more.
FIRST_VERSION, COSTLY_VERSION = (2, 28), (2, 31)
#: NVIDIA's own example: before format 4.2 the plugin keeps the last collective between two dumps alone.
INTERVAL_US = 500

PLUGIN_VARIABLE = "NCCL_PROFILER_PLUGIN"
FOLDER_VARIABLE = "NCCL_INSPECTOR_DUMP_DIR"
_INTERVAL_VARIABLE = "NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS"
#: What keeps it from writing files that can be read, and how it is undone.
_IN_THE_WAY = {
    "NCCL_INSPECTOR_PROM_DUMP": "1",
    "NCCL_INSPECTOR_OTEL_EXPORT": "1",
    "NCCL_INSPECTOR_DUMP_THREAD_ENABLE": "0",
    "NCCL_INSPECTOR_ENABLE": "0",
}
#: The wheels that NCCL comes in, asked for by the interpreter that trains. It prints version and folder.
_WHEELS = """
import importlib.metadata as m
for name in ("nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11"):
    try:
        found = m.distribution(name)
    except m.PackageNotFoundError:
        continue
    print(found.version)
    print(found.locate_file("nvidia/nccl/lib"))
    break
"""
_ASK_S = 10.0


class PluginError(ValueError):
    """NCCL Inspector cannot be had: why, and how to fix it."""


class Nccl(NamedTuple):
    """The NCCL that a command will load: its version where that is known, and the folder of its library."""

    version: tuple[int, ...] | None = None
    folder: str = ""

    def words(self) -> str:
        """Its version, for people."""
        return "NCCL of an unknown version" if self.version is None else "NCCL " + ".".join(map(str, self.version))


def nccl_of(command: list[str], environ: Mapping[str, str]) -> Nccl:
    """The NCCL that ``command`` will load, as the wheels of its interpreter say, else ``NCCL_VERSION`` (as NVIDIA's
    images have it). Neither torch nor NCCL is loaded."""
    interpreter = interpreter_of(command, environ)
    lines: list[str] = []
    if interpreter is not None:
        asked = [interpreter, "-c", _WHEELS]
        try:
            # In no folder of the user's, where a module may be called like one of Python's own.
            done = subprocess.run(  # noqa: S603 - the interpreter that the user is about to run
                asked, env=dict(environ), cwd="/", capture_output=True, text=True, timeout=_ASK_S, check=False
            )
            lines = done.stdout.splitlines()
        except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
            lines = []  # It is not known, then.
    if len(lines) >= 2 and (version := _version(lines[-2])) is not None:
        return Nccl(version, lines[-1])
    return Nccl(_version(environ.get("NCCL_VERSION", "")))


def interpreter_of(command: list[str], environ: Mapping[str, str]) -> str | None:
    """The Python that ``command`` starts: it is one, or a script that names one (``torchrun``); None where unknown."""
    program = shutil.which(command[0], path=environ.get("PATH"))
    if program is None:
        return None
    if _is_python(program):
        return str(Path(program).absolute())
    try:
        with open(program, "rb") as file:
            first = file.readline(4096).decode("utf-8", "replace")
    except OSError:
        return None
    words = first[2:].split() if first.startswith("#!") else []
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    named = shutil.which(words[0], path=environ.get("PATH")) if words else None
    return str(Path(named).absolute()) if named is not None and _is_python(named) else None


def check_version(nccl: Nccl) -> str:
    """What the inspector costs with this NCCL, in one sentence.

    Raises:
        PluginError: it is too old.
    """
    if nccl.version is not None and nccl.version[:2] < FIRST_VERSION:
        raise PluginError(
            f"--nccl-inspector: {nccl.words()} does not call it; install {'.'.join(map(str, FIRST_VERSION))} or newer "
            "(pip install -U nvidia-nccl-cu12 or nvidia-nccl-cu13), or leave the option out"
        )
    costs = "NCCL's profiler was seen to cost 0.4% of an all-reduce with 2.29.7 and 10% with 2.31.2"
    if nccl.version is None:
        return f"{nccl.words()}: {costs}; {'.'.join(map(str, FIRST_VERSION))} or newer is needed"
    if nccl.version[:2] >= COSTLY_VERSION:
        return f"{nccl.words()} is one with which this may be EXPENSIVE: {costs}"
    return f"{nccl.words()}: {costs}"


def find_plugin(named: str, environ: Mapping[str, str], nccl: Nccl) -> str:
    """The plugin that ``named`` says, else the one that ``environ`` has already, else one that is found.

    Raises:
        PluginError: there is none, or NCCL would load another.
    """
    if named:
        if not Path(named).is_file():
            raise PluginError(
                f"--nccl-inspector: no plugin {named}: {BUILD}; put -- before the command, as in --nccl-inspector -- …"
            )
        return str(Path(named).absolute())
    present = environ.get(PLUGIN_VARIABLE, "")
    if present:
        if "inspector" not in Path(present).name:
            raise PluginError(
                f"--nccl-inspector: {PLUGIN_VARIABLE}={present} is another plugin; NCCL loads one: unset it"
            )
        if "/" in present and not Path(present).is_file():
            raise PluginError(f"--nccl-inspector: {PLUGIN_VARIABLE}={present}: no such file")
        return present
    for folder in _folders(environ, nccl):
        found = sorted(glob.glob(f"{folder}/{LIBRARY}"))
        if found:
            return found[0]
    raise PluginError(f"--nccl-inspector: no {LIBRARY} found: {BUILD}, and name it: --nccl-inspector=FILE")


def environment(plugin: str, environ: Mapping[str, str], own: Path) -> dict[str, str]:
    """What turns the inspector on, with what the user has set respected; ``own`` is a folder of ours.

    Raises:
        PluginError: the user has set what keeps it from writing files.
    """
    for name, value in _IN_THE_WAY.items():
        if environ.get(name, "").strip() == value:
            raise PluginError(f"--nccl-inspector: with {name}={value} it writes no file that can be read: unset it")
    interval = environ.get(_INTERVAL_VARIABLE, "")
    if interval and not re.fullmatch(r"\+?\d+", interval.strip()):
        raise PluginError(f"--nccl-inspector: with {_INTERVAL_VARIABLE}={interval} it writes nothing: unset it")
    defaults = {
        FOLDER_VARIABLE: str(own),
        _INTERVAL_VARIABLE: str(INTERVAL_US),
        "NCCL_INSPECTOR_DUMP_VERBOSE": "1",
        "NCCL_INSPECTOR_ENABLE_P2P": "0",
    }
    missing = {name: value for name, value in defaults.items() if not environ.get(name)}
    return missing | {PLUGIN_VARIABLE: plugin, "NCCL_INSPECTOR_ENABLE": "1"}


def _folders(environ: Mapping[str, str], nccl: Nccl) -> Iterator[str]:
    yield from (glob.escape(folder) for folder in environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if folder)
    if nccl.folder:
        yield glob.escape(nccl.folder)
    yield from FOLDERS


def _is_python(program: str) -> bool:
    return re.fullmatch(r"(python|pypy)[0-9.]*", Path(program).name) is not None


def _version(text: str) -> tuple[int, ...] | None:
    found = re.match(r"\s*(\d{1,3})\.(\d{1,3})(?:\.(\d{1,3}))?", text)
    return tuple(int(part) for part in found.groups() if part is not None) if found is not None else None
