"""A dcgm-exporter's text: what a line costs that is none, and what its times are."""

from collections import Counter

import pytest

from paceline.gpu.exporter_text import MOST_LABEL, MOST_LINE, NO_TEXT, read

UTIL = 'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a"}'
NAMES = {"DCGM_FI_DEV_GPU_UTIL"}


def load(*lines):
    left_out = Counter()
    return read("\n".join(lines) + "\n", NAMES, left_out), left_out


def test_comments_and_other_metrics_are_no_matter():
    """HELP and TYPE lines, another program's metrics and blank lines are passed over in silence."""
    text = (
        "# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).",
        "# TYPE x gauge",
        "",
        "go_goroutines 9",
        f"{UTIL} 97",
    )
    series, left_out = load(*text)
    assert [(one.name, one.value, one.time_s) for one in series] == [("DCGM_FI_DEV_GPU_UTIL", 97.0, None)]
    assert not left_out


@pytest.mark.parametrize(
    "line",
    [
        f"{UTIL}",
        f"{UTIL} many",
        f"{UTIL} 1_0",
        'DCGM_FI_DEV_GPU_UTIL{gpu="0" 5',
        'DCGM_FI_DEV_GPU_UTIL{gpu="0",gpu="1"} 5',
        "DCGM_FI_DEV_GPU_UTIL{gpu=0} 5",
        'DCGM_FI_DEV_GPU_UTIL{a="' + "x" * MOST_LINE + '"} 5',
        "\x00\x01",
        "{} 5",
    ],
)
def test_a_broken_line_costs_itself_alone(line):
    """It is counted, and the lines around it are read."""
    series, left_out = load(f"{UTIL} 1", line, f"{UTIL} 2")
    assert [one.value for one in series] == [1.0, 2.0]
    assert left_out == {NO_TEXT: 1}


def test_labels_are_unescaped_and_cut():
    """Quotes, line ends and braces in a label are its text; a long one is cut."""
    series, _ = load(r'DCGM_FI_DEV_GPU_UTIL{gpu="0",pod="a\"}\n{",UUID="' + "u" * 900 + '"} 5')
    assert series[0].labels["pod"] == 'a"}\n{'
    assert len(series[0].labels["UUID"]) == MOST_LABEL


@pytest.mark.parametrize(("value", "read_as"), [("+Inf", "inf"), ("-Inf", "-inf"), ("NaN", "nan"), ("9" * 400, "inf")])
def test_what_is_no_number_is_left_to_who_judges(value, read_as):
    """Infinity, not a number and what no fraction holds are read as such."""
    series, left_out = load(f"{UTIL} {value}")
    assert str(series[0].value) == read_as
    assert not left_out


def test_times_are_milliseconds_in_prometheus_text_and_seconds_in_openmetrics():
    """Whole or not; OpenMetrics is known by its end."""
    assert load(f"{UTIL} 5 1700000000123")[0][0].time_s == 1_700_000_000.123
    assert load(f"{UTIL} 5 1700000000.123", "# EOF")[0][0].time_s == pytest.approx(1_700_000_000.123)


def test_an_exemplar_is_no_time():
    """What OpenMetrics writes behind a value is passed over, also where a label looks like one."""
    series, _ = load(UTIL.replace("GPU-a", "a # b") + ' 5 # {trace="x"} 0.5 1.0', "# EOF")
    assert [(one.labels["UUID"], one.value, one.time_s) for one in series] == [("a # b", 5.0, None)]


@pytest.mark.parametrize("time", ["-5", "NaN", "+Inf", "1e300", "9" * 60])
def test_an_impossible_time_costs_its_line(time):
    """No event could hold it."""
    series, left_out = load(f"{UTIL} 5 {time}", f"{UTIL} 6")
    assert [one.value for one in series] == [6.0]
    assert sum(left_out.values()) == 1


@pytest.mark.parametrize("filler", ["#", " #", '"#', "\\", '"\\', "{", ",", '{a="', "e"])
def test_a_hostile_line_costs_no_more_than_its_length(filler):
    """Whatever it is filled with: a reader that tries all ways to cut it would be at it for years."""
    series, left_out = load(f"DCGM_FI_DEV_GPU_UTIL {filler * MOST_LINE}"[:MOST_LINE], f"{UTIL} 5")
    assert [one.value for one in series] == [5.0]
    assert left_out == {NO_TEXT: 1}
