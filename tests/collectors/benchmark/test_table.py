from collectors.benchmark.results import Results
from collectors.benchmark.table import document, nodes_table, speeds_table
from paceline.nodes_file import Node
from paceline.rated import Speed


def speed(value, name="gemm_float32", unit="flop/s", **more):
    return Speed("cpu", name, unit, value, value * 0.9, value * 1.1, 20, 5.0, **more)


def test_a_busy_rating_is_marked():
    """In words, beside its share; what nobody measured is a question mark."""
    lines = speeds_table([speed(1e9, busy_ratio=0.4), speed(1e9, busy_ratio=0.0), speed(1e9)], {})

    assert [line.split("20  ")[1].strip() for line in lines[1:]] == ["40% busy", "0%", "?"]


def test_an_all_reduce_is_one_line_with_both_bandwidths():
    """What each link carried stands behind the algorithm's."""
    more = {"size_bytes": 4096, "ranks": 4}
    speeds = [speed(1e9, "all_reduce", "bytes/s", **more), speed(1.5e9, "all_reduce_bus", "bytes/s", **more)]
    (_, line) = speeds_table(speeds, {"cpu/all_reduce": "gloo, 4 ranks"})

    assert "all_reduce 4 KiB" in line
    assert line.endswith("gloo, 4 ranks; bus 1.50 GB/s")


def test_a_slow_node_stands_out_of_its_kind():
    """Only nodes of one kind are compared, by the median of it."""
    nodes = {
        name: Node(name, kind, 1, 5.0, (speed(value),))
        for name, kind, value in [("a", "H100", 4e14), ("b", "H100", 4e14), ("c", "H100", 3e14), ("d", "A100", 2e14)]
    }
    ratios = {line.split()[0]: line for line in nodes_table(nodes)[1:]}

    assert "1.00" in ratios["a"]
    assert "0.75" in ratios["c"]
    assert "the only one" in ratios["d"]


def test_names_from_outside_are_harmless():
    """A shared file may hold an escape sequence in a name."""
    assert "\x1b" not in "".join(nodes_table({"x": Node("x", "\x1b[2J", 1, 5.0, (speed(1.0),))}))


def test_the_document_says_what_is_missing_and_why():
    """Programs read what people read: speeds, reasons, and that others were there."""
    results = Results(speeds=[speed(1e9, busy_ratio=0.4)], busy=["others use 40% of the processors"])
    results.skip("cpu", "gemm_fp8", "of NVIDIA GPUs alone")
    told = document(Node("n", "EPYC", 1, 5.0, tuple(results.speeds)), results, (), "f.json")

    assert told["busy"] is True
    assert told["not_measured"][0]["why"] == "of NVIDIA GPUs alone"
    assert told["speeds"][0]["value"] == 1e9
