"""``paceline run --nccl-inspector``: the plugin is found, the version is right, and what is wrong is one line."""

import os
import stat
import sys
from pathlib import Path

import pytest

from paceline.commands import nccl_plugin
from paceline.commands.nccl_plugin import (
    LIBRARY,
    Nccl,
    PluginError,
    check_version,
    environment,
    find_plugin,
    interpreter_of,
    nccl_of,
)


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def plugin_in(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / LIBRARY).touch()
    return folder / LIBRARY


@pytest.fixture(autouse=True)
def _no_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine may have one."""
    monkeypatch.setattr(nccl_plugin, "FOLDERS", ())


class TestInterpreter:
    def test_python_is_itself(self) -> None:
        """By path, or found on the path."""
        assert interpreter_of([sys.executable, "train.py"], {}) == sys.executable
        folder, name = os.path.split(sys.executable)
        assert interpreter_of([name], {"PATH": folder}) == sys.executable

    @pytest.mark.parametrize(
        "line", ["#!{python}", "#! {python} -u", "#!/usr/bin/env python3", "#!/usr/bin/env -S python3 -u"]
    )
    def test_a_script_names_it(self, tmp_path: Path, line: str) -> None:
        """As ``torchrun`` does."""
        python = program(tmp_path / "bin" / "python3", "")
        program(tmp_path / "bin" / "torchrun", line.format(python=python) + "\nimport torch\n")
        assert interpreter_of(["torchrun", "train.py"], {"PATH": f"{tmp_path / 'bin'}:/usr/bin"}) == str(python)

    @pytest.mark.parametrize(
        "text", ["#!/bin/sh\npython train.py\n", "\x7fELF", "", "#!", "#!/no/such/python3\n", "#!/usr/bin/env\n"]
    )
    def test_of_anything_else_it_is_unknown(self, tmp_path: Path, text: str) -> None:
        """A shell script may do anything."""
        launch = program(tmp_path / "launch", text)
        assert interpreter_of([str(launch)], {"PATH": "/usr/bin"}) is None
        assert interpreter_of([str(tmp_path / "none")], {"PATH": "/usr/bin"}) is None


class TestVersion:
    def wheel(self, folder: Path, name: str, version: str) -> None:
        info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")

    @pytest.mark.slow
    @pytest.mark.parametrize("name", ["nvidia-nccl-cu12", "nvidia-nccl-cu13"])
    def test_it_is_that_of_the_wheel_which_trains(self, tmp_path: Path, name: str) -> None:
        """Before the variable, for the wheel's library is the one that is loaded."""
        self.wheel(tmp_path / "packages", name, "2.29.7")
        python = program(tmp_path / "python3", f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
        environ = {"PYTHONPATH": str(tmp_path / "packages"), "NCCL_VERSION": "2.18.1", "PATH": os.environ["PATH"]}
        found = nccl_of([str(python), "train.py"], environ)
        assert found == Nccl((2, 29, 7), str(tmp_path / "packages" / "nvidia" / "nccl" / "lib"))

    @pytest.mark.parametrize(
        ("told", "version"), [("2.28.3-1", (2, 28, 3)), ("2.27", (2, 27)), ("", None), ("none", None), ("9" * 99, None)]
    )
    def test_else_the_variable_tells(self, told: str, version: tuple[int, ...] | None) -> None:
        """As in NVIDIA's images."""
        assert nccl_of(["/no/such/program"], {"NCCL_VERSION": told}).version == version

    @pytest.mark.slow
    def test_an_interpreter_that_fails_is_unknown(self, tmp_path: Path) -> None:
        """Or says anything."""
        for text in ("#!/bin/sh\nexit 3\n", "#!/bin/sh\necho x\necho y\n", "#!/bin/sh\nkill $$\n"):
            python = program(tmp_path / "python3", text)
            assert nccl_of([str(python)], {"PATH": os.environ["PATH"]}) == Nccl()

    @pytest.mark.parametrize("version", [(2, 27, 7), (2, 9), (1, 99)])
    def test_one_that_does_not_call_it_is_refused(self, version: tuple[int, ...]) -> None:
        """With the mend."""
        with pytest.raises(PluginError, match=r"does not call it; install 2\.28 or newer \(pip install"):
            check_version(Nccl(version))

    @pytest.mark.parametrize(
        ("version", "said", "expensive"),
        [
            ((2, 28, 3), "NCCL 2.28.3: ", False),
            ((2, 30, 7), "NCCL 2.30.7: ", False),
            ((2, 31, 2), "NCCL 2.31.2 ", True),
            ((3, 0), "NCCL 3.0 ", True),
            (None, "NCCL of an unknown version: ", False),
        ],
    )
    def test_the_cost_is_told(self, version: tuple[int, ...] | None, said: str, expensive: bool) -> None:
        """And that it may be much, where that was seen."""
        cost = check_version(Nccl(version))
        assert cost.startswith(said)
        assert ("0.4%" in cost, "10% with 2.31.2" in cost) == (True, True)
        assert ("EXPENSIVE" in cost) == expensive


class TestFind:
    def test_the_one_that_is_named_counts(self, tmp_path: Path) -> None:
        """Whatever it is called."""
        mine = tmp_path / "mine.so"
        mine.touch()
        assert find_plugin(str(mine), {nccl_plugin.PLUGIN_VARIABLE: "other"}, Nccl()) == str(mine)

    def test_one_that_is_not_there_is_one_line_with_the_mend(self, tmp_path: Path) -> None:
        """Most likely the command was taken for it."""
        with pytest.raises(
            PluginError, match=r"no plugin torchrun: .*build it: make -C .*--nccl-inspector --"
        ) as raised:
            find_plugin("torchrun", {}, Nccl())
        assert "\n" not in str(raised.value)
        with pytest.raises(PluginError, match=r"build it: make -C .*--nccl-inspector=FILE"):
            find_plugin("", {}, Nccl())

    def test_the_one_that_is_set_already_stays(self, tmp_path: Path) -> None:
        """By its file, or by a name for the linker."""
        here = plugin_in(tmp_path)
        for present in (str(here), LIBRARY, "inspector"):
            assert find_plugin("", {nccl_plugin.PLUGIN_VARIABLE: present}, Nccl()) == present

    @pytest.mark.parametrize(("present", "why"), [("example", "is another"), ("/no/libinspector.so", "no such file")])
    def test_another_plugin_is_refused(self, present: str, why: str) -> None:
        """NCCL loads one."""
        with pytest.raises(PluginError, match=why):
            find_plugin("", {nccl_plugin.PLUGIN_VARIABLE: present}, Nccl())

    def test_it_is_searched_in_order(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """``LD_LIBRARY_PATH``, beside NCCL, and where systems keep theirs; a folder's name is no pattern."""
        linker, beside, system = (tmp_path / name for name in ("a[b]*", "nccl", "opt"))
        monkeypatch.setattr(nccl_plugin, "FOLDERS", (f"{system}/*/lib",))
        environ, nccl = {"LD_LIBRARY_PATH": f"::{tmp_path}/none:{linker}"}, Nccl(None, str(beside))
        found = plugin_in(system / "x" / "lib")
        assert find_plugin("", environ, nccl) == str(found)
        found = plugin_in(beside)
        assert find_plugin("", environ, nccl) == str(found)
        found = plugin_in(linker)
        assert find_plugin("", environ, nccl) == str(found)


class TestEnvironment:
    def test_it_is_turned_on_with_our_folder(self, tmp_path: Path) -> None:
        """Starts are told, dumps come often, and messages between two ranks, which nobody reads, are left out."""
        assert environment("/p.so", {}, tmp_path) == {
            "NCCL_PROFILER_PLUGIN": "/p.so",
            "NCCL_INSPECTOR_ENABLE": "1",
            "NCCL_INSPECTOR_DUMP_DIR": str(tmp_path),
            "NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS": "500",
            "NCCL_INSPECTOR_DUMP_VERBOSE": "1",
            "NCCL_INSPECTOR_ENABLE_P2P": "0",
        }

    def test_what_the_user_has_set_stays(self, tmp_path: Path) -> None:
        """Their folder above all."""
        theirs = {
            "NCCL_INSPECTOR_DUMP_DIR": "/mine",
            "NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS": "0",
            "NCCL_INSPECTOR_DUMP_VERBOSE": "0",
            "NCCL_INSPECTOR_ENABLE_P2P": "1",
        }
        added = environment("/p.so", theirs, tmp_path)
        assert added == {"NCCL_PROFILER_PLUGIN": "/p.so", "NCCL_INSPECTOR_ENABLE": "1"}

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("NCCL_INSPECTOR_PROM_DUMP", "1"),
            ("NCCL_INSPECTOR_OTEL_EXPORT", "1"),
            ("NCCL_INSPECTOR_ENABLE", "0"),
            ("NCCL_INSPECTOR_DUMP_THREAD_ENABLE", "0"),
            ("NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS", "-1"),
        ],
    )
    def test_what_keeps_it_from_writing_is_told(self, tmp_path: Path, name: str, value: str) -> None:
        """By its name."""
        with pytest.raises(PluginError, match=f"{name}={value}.*unset it"):
            environment("/p.so", {name: value}, tmp_path)


def test_its_file_is_executable_by_nobody_but_found(tmp_path: Path) -> None:
    """A library needs no such right."""
    found = plugin_in(tmp_path)
    found.chmod(stat.S_IRUSR)
    assert find_plugin("", {"LD_LIBRARY_PATH": str(tmp_path)}, Nccl()) == str(found)
