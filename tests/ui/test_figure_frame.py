import csv
import io

import numpy as np
import plotly.graph_objects as go
import pytest

from ui.figure_frame import as_csv, framed, pickable
from ui.theme import DARK, LIGHT


def rows(figure):
    return list(csv.reader(io.StringIO(as_csv(figure).decode())))


def test_the_numbers_of_a_heatmap_are_a_line_a_cell():
    """Titles on top; what was not measured is left out."""
    z = np.array([[1.0, np.nan], [0.5, 2.25]], np.float32)
    figure = go.Figure(
        go.Heatmap(x=[10, 11], y=["0", "1"], z=z, name="ratio", colorbar={"title": {"text": "own<br>÷"}})
    )
    figure.update_layout(xaxis_title="step", yaxis_title="rank")
    assert rows(figure) == [
        ["series", "step", "rank", "own ÷"],
        ["ratio", "10", "0", "1"],
        ["ratio", "10", "1", "0.5"],
        ["ratio", "11", "1", "2.25"],
    ]


def test_the_invisible_overlay_is_in_no_export():
    """It is there for the mouse alone."""
    figure = pickable(go.Figure(go.Bar(x=[1, 2], y=["a", "b"], name="bars")), [1, 2], ["a", "b"])
    assert len(figure.data) == 2
    assert rows(figure)[1:] == [["bars", "1", "a"], ["bars", "2", "b"]]


@pytest.mark.parametrize("name", ["=1+1", "+cmd", "@SUM(A1)", "-x", "\tx"])
def test_a_name_is_never_a_formula(name):
    """Names come from other people's jobs and are opened in spreadsheets."""
    figure = go.Figure(go.Bar(x=[1], y=[name], name=name))
    assert rows(figure)[1] == [f"'{name}", "1", f"'{name}"]


def test_a_negative_number_stays_a_number():
    """Only words are quoted."""
    assert rows(go.Figure(go.Bar(x=["-1.5"], y=[-2], name="n")))[1] == ["n", "-1.5", "-2"]


@pytest.mark.parametrize("palette", [DARK, LIGHT], ids=["dark", "light"])
def test_an_exported_picture_has_the_pages_ground(palette):
    """A PNG is readable wherever it is put: its ground is not transparent."""
    assert framed(go.Figure(), 200, palette).layout.paper_bgcolor == palette.ground


def contrast(one, other):
    def light(colour):
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((light(one), light(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("palette", [DARK, LIGHT], ids=["dark", "light"])
@pytest.mark.parametrize("name", ["ink", "muted", "slow", "caution", "good", "accent"])
def test_words_stand_out_from_both_grounds(palette, name):
    """By WCAG's 4.5 to 1."""
    for ground in (palette.ground, palette.panel):
        assert contrast(getattr(palette, name), ground) >= 4.5
