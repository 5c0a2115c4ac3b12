import pytest

from collectors.benchmark.busy import CpuUse, Surroundings, cpu_use, look, others_ratio


def stat(proc, *ticks):
    proc.mkdir(exist_ok=True)
    (proc / "stat").write_text(f"cpu  {' '.join(map(str, ticks))}\ncpu0 1 2 3\n")


def test_own_work_is_not_others(tmp_path):
    """What this process did is taken off; a hypervisor's share counts as others'."""
    before = CpuUse(10.0, 100.0, 5.0)

    assert others_ratio(before, CpuUse(12.0, 104.0, 7.0)) == 0.0
    assert others_ratio(before, CpuUse(13.0, 104.0, 6.0)) == 0.5


def test_idle_and_waiting_are_no_work(tmp_path):
    """Fields of the kernel: user nice system idle iowait irq softirq steal guest guest_nice."""
    stat(tmp_path / "a", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
    stat(tmp_path / "b", 10, 20, 30, 400, 500, 60, 70, 80, 10, 20)
    before, after = cpu_use(tmp_path / "a"), cpu_use(tmp_path / "b")

    assert after.work_s - before.work_s == pytest.approx(2.7)
    assert after.total_s - before.total_s == pytest.approx(11.7)


def test_only_the_processors_that_it_may_use_count(tmp_path):
    """Pinned to one, a benchmark is not disturbed by a neighbour that fills another."""
    lines = "cpu  {} 0 0 900 0 0 0 0 0 0\ncpu0 0 0 0 {} 0 0 0 0 0 0\ncpu1 {} 0 0 0 0 0 0 0 0 0\n"
    uses = []
    for ticks in (0, 500):
        (tmp_path / "stat").write_text(lines.format(ticks, ticks, ticks))
        uses.append([cpu_use(tmp_path, cpus)._replace(own_s=0.0) for cpus in ({0}, {1}, {0, 1})])

    assert [others_ratio(*each) for each in zip(*uses, strict=True)] == [0.0, 1.0, 0.5]
    assert cpu_use(tmp_path, {0, 7}) is None


@pytest.mark.parametrize("text", ["", "cpu", "cpu 1 2", "cpu a b c d e f g h"])
def test_what_is_no_stat_is_not_measured(tmp_path, text):
    """None, which is not 0."""
    (tmp_path / "stat").write_text(text)

    assert cpu_use(tmp_path) is None
    assert cpu_use(tmp_path / "missing") is None
    assert others_ratio(None, CpuUse(1.0, 1.0, 0.0)) is None


def test_too_short_a_time_says_nothing():
    """A tick is a hundredth of a second; clocks that run backwards make no ratio."""
    assert others_ratio(CpuUse(0.0, 0.0, 0.0), CpuUse(0.1, 0.1, 0.0)) is None
    assert others_ratio(CpuUse(0.0, 10.0, 0.0), CpuUse(0.1, 5.0, 0.0)) is None


def test_more_own_work_than_all_work_is_nobody_elses():
    """Ticks and a process's own times are rounded differently."""
    assert others_ratio(CpuUse(0.0, 0.0, 0.0), CpuUse(1.0, 2.0, 1.1)) == 0.0


def test_a_busy_node_is_told_in_words(tmp_path):
    """Processors, and waiting for one or for a disk; an idle node says nothing."""
    said = Surroundings(0.52, 3.1, 0.4, 0.0).told(8)

    assert said == [
        "others use 52% of the processors (load 3.10 on 8 cores)",
        "tasks waited 40% of the last 10 s for a processor",
    ]
    assert Surroundings(0.01, 0.2, 0.0, 0.0).told(8) == []
    assert look(0.0, tmp_path / "nothing") == (None, None, None, None)
