"""Tracebacks that rich has drawn in a box, as accelerate's and typer's users paste them; rich itself draws these."""

import io

import pytest
from rich.console import Console
from rich.traceback import Frame, Stack, Trace, Traceback

from postmortem.deciding.decide import decide
from postmortem.reading.files import read

WIDTH = 160


def drawn(*frames, kind="ValueError", value="loss is not finite", prefix="", width=WIDTH):
    """A traceback of ``frames`` (path, line, function) as rich prints it, each line behind ``prefix``.

    Of a file that is not there rich does not print the path."""
    for path, _, _ in frames:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("    step()\n" * 100)
    stack = Stack(exc_type=kind, exc_value=value, frames=[Frame(str(path), *rest) for path, *rest in frames])
    out = io.StringIO()
    Console(file=out, width=width).print(Traceback(Trace([stack]), width=width))
    return "".join(f"{prefix}{line}\n" for line in out.getvalue().splitlines())


def verdict(folder, text):
    log = folder / "log" / "job.log"
    log.parent.mkdir(exist_ok=True)
    log.write_text(text)
    return decide(read([str(log.parent)], 1 << 30).statements)


def raised(path, function="train_step", **how):
    torch = path.parent / "site-packages" / "torch" / "_tensor.py"
    return drawn((path, 35, "<module>"), (path, 88, function), (torch, 48, "backward"), **how)


@pytest.mark.long
@pytest.mark.parametrize("depth", [0, 3, 8, 13, 21])
def test_the_users_innermost_line_is_found_however_its_path_is_wrapped(tmp_path, depth):
    path = tmp_path.joinpath(*["experiment"] * depth, "train.py")
    found = verdict(tmp_path, raised(path, prefix="[rank1]: "))
    assert (found.kind, found.ranks, found.line) == ("died", (1,), f"{path}:88 train_step")


@pytest.mark.parametrize("columns", range(WIDTH - 24, WIDTH + 4))
def test_a_path_that_ends_at_the_edge_is_read_whole(tmp_path, columns):
    """With its line number and the word "in" to the last column, one less, one more."""
    path = tmp_path / ("x" * (columns - len(f"{tmp_path}/.py:88")) + ".py")
    assert verdict(tmp_path, raised(path, prefix="[rank1]: ")).line == f"{path}:88 train_step"


def test_lines_of_code_and_variables_are_no_frames(tmp_path):
    """Of a file that is there rich shows the lines around, and with locals a box within the box."""
    script = tmp_path / "own" / "train.py"
    script.parent.mkdir()
    script.write_text("import os\n\ndef train_step(batch, rate):\n    raise ValueError('/a/b.py:3 in other')\n")
    out = io.StringIO()
    try:
        space: dict = {"__name__": "train"}
        exec(compile(script.read_text(), str(script), "exec"), space)
        space["train_step"]([1, 2], "/a/b.py:7 in another")
    except ValueError:
        Console(file=out, width=WIDTH).print_exception(show_locals=True, width=WIDTH)
    text = "".join(f"[rank1]: {line}\n" for line in out.getvalue().splitlines())
    found = verdict(tmp_path, text)
    assert (found.ranks, found.line) == ((1,), f"{script}:4 train_step")


def test_a_box_of_ascii_is_read(tmp_path):
    path = tmp_path / "train.py"
    text = raised(path, prefix="[rank1]: ").translate(str.maketrans("╭╮╰╯─│❱", "++++-|>"))
    assert verdict(tmp_path, text).line == f"{path}:88 train_step"


def test_boxes_of_several_ranks_between_each_other(tmp_path):
    """Each voice has its own; the rank that raises something else is another."""
    path = tmp_path / "train.py"
    lines = [raised(path, prefix=f"[rank{rank}]: ").splitlines(keepends=True) for rank in range(3)]
    lines[2][-1] = "[rank2]: ConnectionResetError: peer\n"
    text = "".join(line for row in zip(*lines, strict=True) for line in row)
    found = verdict(tmp_path, text)
    assert "ValueError" in found.cause
    assert 2 not in found.ranks


def test_a_launchers_box_below_is_not_the_cause(tmp_path):
    agent = drawn((tmp_path / "bin" / "accelerate", 8, "<module>"), kind="ChildFailedError", value="")
    path = tmp_path / "train.py"
    found = verdict(tmp_path, raised(path, prefix="[rank1]: ") + agent)
    assert (found.ranks, found.line) == ((1,), f"{path}:88 train_step")
