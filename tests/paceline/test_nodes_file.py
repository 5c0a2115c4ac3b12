import multiprocessing

import pytest

from paceline import nodes_file
from paceline.nodes_file import Node, NodesFileError
from paceline.rated import Speed


def node(name="a", value=2.0, kind="H100"):
    speed = Speed("GPU-1", "gemm_bfloat16", "flop/s", value, value / 2, value * 2, 20, 5.0, busy_ratio=0.0)
    sized = Speed("host", "all_reduce", "bytes/s", value, value, value, 9, 5.0, size_bytes=4096, ranks=2)
    return Node(name, kind, 8, 5.0, (speed, sized), {"driver": "595.10"})


def test_what_is_put_is_read(tmp_path):
    """Also names and versions that YAML would take for numbers or switches."""
    path = tmp_path / "shared" / "nodes.yaml"
    for name in ("a", "12", "no", "1e3"):
        nodes_file.put(path, node(name))

    assert nodes_file.read(path) == {name: node(name) for name in ("a", "12", "no", "1e3")}


def test_a_node_changes_its_own_entry(tmp_path):
    """The others stay, and stand where they stood."""
    path = tmp_path / "nodes.yaml"
    for each in (node("a"), node("b"), node("a", 9.0)):
        nodes_file.put(path, each)

    assert list(nodes_file.read(path)) == ["a", "b"]
    assert [each.speed("gemm_bfloat16") for each in nodes_file.read(path).values()] == [9.0, 2.0]


def _put(path, names):
    for name in names:
        nodes_file.put(path, node(name))


@pytest.mark.exactly_once
@pytest.mark.slow
def test_nodes_that_write_at_once_lose_nothing(tmp_path):
    """As a job that measures all its nodes does."""
    path, names = tmp_path / "nodes.yaml", [[f"n{at}-{number}" for number in range(5)] for at in range(4)]
    started = [multiprocessing.get_context("spawn").Process(target=_put, args=(path, part)) for part in names]
    for process in started:
        process.start()
    for process in started:
        process.join()

    assert set(nodes_file.read(path)) == {name for part in names for name in part}


@pytest.mark.parametrize(
    "text",
    [
        "nodes: {}",
        "layout: 2\nnodes: {}",
        "layout: 1\nnodes: [a]",
        "[1, 2",
        "layout: 1\nnodes: {a: {kind: k, devices: 1, time_s: 1, speeds: 5}}",
        "layout: 1\nnodes: {a: {kind: k, devices: -1, time_s: 1, speeds: []}}",
        "layout: 1\nnodes: {a: {kind: k, devices: .nan, time_s: 1, speeds: []}}",
        "layout: 1\nnodes: {a: {kind: k, devices: 1, time_s: 1, speeds: [{device: x}]}}",
        "layout: 1\nnodes: {a: &a {kind: k}, b: *a}",
        "layout: 1\nnodes: " + "[" * 50 + "]" * 50,
        "!!python/object/apply:os.system ['true']",
        "\x00",
    ],
)
def test_anything_else_is_refused_and_left_as_it_is(tmp_path, text):
    """The path is named, and a node does not write over what it did not understand."""
    path = tmp_path / "nodes.yaml"
    path.write_text(text)

    with pytest.raises(NodesFileError, match=r"nodes\.yaml"):
        nodes_file.read(path)
    with pytest.raises(NodesFileError):
        nodes_file.put(path, node())
    assert path.read_text() == text


def test_unequal_nodes_are_told_apart():
    """By the median of their kind, speed by speed; another kind is compared with itself."""
    nodes = {each.name: each for each in (node("a", 4.0), node("b", 2.0), node("c", 4.0), node("d", 1.0, "A100"))}
    ratios = {name: each["gemm_bfloat16", None, None] for name, each in nodes_file.relative(nodes).items()}

    assert ratios == {"a": 1.0, "b": 0.5, "c": 1.0, "d": 1.0}
