"""What /proc says of a rank's process."""

import pytest

from paceline.sidecar.process_look import MOST_CHILDREN, process_look


@pytest.fixture
def process(tmp_path):
    """Writes the files of a process ``pid`` and of one of its threads."""

    def write(pid, state="S", ticks=100, children="", task=None, io="rchar: 10\nwchar: 20\n", channel="futex_do_wait"):
        for folder in (tmp_path / str(pid), tmp_path / str(pid) / "task" / str(task or pid)):
            folder.mkdir(parents=True, exist_ok=True)
            fields = f"{state} " + " ".join(["0"] * 10) + f" {ticks} 0 " + " ".join(["0"] * 20)
            (folder / "stat").write_text(f"{pid} (py) S thon) {fields}")
            (folder / "wchan").write_text(channel)
        (tmp_path / str(pid) / "task" / str(task or pid) / "children").write_text(children)
        if io is not None:
            (tmp_path / str(pid) / "io").write_text(io)
        return tmp_path

    return write


def test_state_channel_and_counts(process):
    """As the kernel tells them, children's time beside the thread's own."""
    process(8, ticks=300)
    seen = process_look(7, 0, process(7, "R", children="8 "))
    assert (seen.state, seen.channel, seen.read_bytes, seen.written_bytes) == ("R", "futex_do_wait", 10, 20)
    assert seen.children_cpu_s == pytest.approx(3 * seen.cpu_s)


def test_a_process_that_has_gone_is_none(tmp_path):
    """No folder, or half of a file."""
    assert process_look(7, 0, tmp_path) is None
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text("7 (x) S 1")
    assert process_look(7, 0, tmp_path) is None


def test_what_may_not_be_read_is_left_out(process):
    """Another user's io, and a channel that the kernel hides."""
    seen = process_look(7, 0, process(7, io=None, channel="0"))
    assert (seen.channel, seen.read_bytes, seen.written_bytes) == ("", 0, 0)


def test_a_thread_that_is_not_the_processs_falls_back_to_the_process(process):
    """A rank may answer with any number, or with one of another namespace."""
    assert process_look(7, 999, process(7, "R")).state == "R"


@pytest.mark.long
def test_only_some_children_are_counted(process):
    """A rank with thousands of them."""
    for pid in range(100, 100 + 2 * MOST_CHILDREN):
        process(pid)
    seen = process_look(7, 0, process(7, children=" ".join(str(100 + one) for one in range(2 * MOST_CHILDREN))))
    assert seen.children_cpu_s == pytest.approx(MOST_CHILDREN * seen.cpu_s)
