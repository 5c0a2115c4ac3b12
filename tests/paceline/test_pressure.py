import pytest

from paceline.pressure import pressure


def test_pressure_is_some_avg10_as_a_ratio(tmp_path):
    """Of PSI's lines, some avg10 counts."""
    lines = "some avg10=12.50 avg60=3.03 avg300=1.83 total=1\nfull avg10=99.00 avg60=0 avg300=0 total=0\n"
    (tmp_path / "cpu").write_text(lines)

    assert pressure(tmp_path / "cpu") == 0.125


@pytest.mark.parametrize("text", ["", "full avg10=1.0\n", "some avg60=1.0\n", "some avg10=x\n", "\x00\xff"])
def test_odd_pressure_is_no_value(tmp_path, text):
    """A pressure file that says something else is no value."""
    (tmp_path / "cpu").write_text(text)

    assert pressure(tmp_path / "cpu") is None


def test_a_kernel_without_psi_has_no_pressure(tmp_path):
    """A missing file is no value."""
    assert pressure(tmp_path / "cpu") is None
