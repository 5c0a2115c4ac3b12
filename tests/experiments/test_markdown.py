"""The part of a page that a benchmark writes: between its marks, and nowhere else."""

import pytest

from experiments.markdown import write


def test_figures_stand_between_their_marks(tmp_path):
    """Written again, they take the place of the old ones; what is around them stays."""
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- growth: begin -->\nold\n<!-- growth: end -->\nbehind\n")
    for figures in ("first", "| second |\n"):
        write(page, "growth", figures)
        text = f"before\n<!-- growth: begin -->\n{figures.strip()}\n<!-- growth: end -->\nbehind\n"
        assert page.read_text() == text


def test_a_page_without_marks_is_left_alone(tmp_path):
    """And told by name, with the marks that it lacks."""
    page = tmp_path / "page.md"
    page.write_text("no marks")
    with pytest.raises(ValueError, match=r"page\.md has no <!-- growth: begin -->"):
        write(page, "growth", "figures")
    assert page.read_text() == "no marks"
