from types import SimpleNamespace

from collectors.cpu import UNKNOWN, Cpu

FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


def core(**seconds):
    return SimpleNamespace(**dict.fromkeys(FIELDS, 100.0) | seconds)


def test_shares_are_of_the_interval():
    """Busy and stolen time are shares of what passed since the reading before; waiting for disks is not busy."""
    cpu = Cpu()
    cpu.update([core(), core()])
    shares = cpu.update([core(user=101.0, steal=100.5, iowait=100.5), core(idle=102.0)])

    assert shares.per_core == [0.75, 0.0]
    assert (shares.busy, shares.steal) == (0.375, 0.125)


def test_the_first_reading_has_no_shares():
    """There is no interval yet."""
    assert Cpu().update([core()]) == UNKNOWN


def test_a_core_that_went_makes_an_interval_unknown():
    """After a core is taken offline one interval is unknown, the next is not."""
    cpu = Cpu()
    cpu.update([core(), core()])
    gone = cpu.update([core(user=101.0)])
    after = cpu.update([core(user=102.0)])

    assert gone == UNKNOWN
    assert after.busy == 1.0


def test_a_clock_that_stood_still_is_unknown():
    """No time passed: no shares, not 0."""
    cpu = Cpu()
    cpu.update([core()])

    assert cpu.update([core()]) == UNKNOWN
