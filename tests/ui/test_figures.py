import msgspec
import numpy as np

from ui import figures
from ui.ratios import against_median, own_time
from ui.theme import DARK
from ui.wording import TIMES


def drawn(view, **options):
    ratio = against_median(own_time(view.step_s, view.waiting_s))
    return figures.heatmap(view.steps, ratio, view.episodes, DARK, **{"slow_first": False, **options})


def test_the_scale_is_centred_on_the_median_rank(played):
    """1 is the middle of the colours, symmetrically."""
    trace = drawn(played.view("default", "demo")).data[0]
    assert (trace.zmin + trace.zmax) / 2 == trace.zmid == 1.0


def test_colours_reach_further_where_all_steps_differ_much():
    """What every rank of a noisy job does is not in the colour of a slow one; ratios have no value under 0."""
    draw = np.random.default_rng(3)
    quiet, noisy, wild = (np.exp(draw.normal(0.0, width, (4, 200))) for width in (0.03, 0.25, 2.0))
    quiet[2] *= 1.6
    traces = [figures.heatmap(np.arange(200), one, [], DARK, slow_first=False).data[0] for one in (quiet, noisy, wild)]
    assert (traces[0].zmin, traces[0].zmax) == (0.5, 1.5)
    assert 1.5 < traces[1].zmax <= 2.0
    assert np.mean(np.abs(traces[1].z - 1.0) >= traces[1].zmax - 1.0) < 0.05
    assert (traces[2].zmin, traces[2].zmax) == (0.0, 2.0)
    assert traces[1].colorbar.ticktext[-1] == f"≥ {traces[1].zmax:g}{TIMES}"
    nothing = figures.heatmap(np.arange(3), np.full((2, 3), np.nan), [], DARK, slow_first=False).data[0]
    assert (nothing.zmin, nothing.zmax) == (0.5, 1.5)


def test_a_label_hides_no_other_rank_where_rows_are_high(played):
    """It lies in its own box; in low rows at the end of the row above."""
    (note,) = drawn(played.view("default", "demo")).layout.annotations
    assert (note.y, note.yanchor) == (1.5, "top")


def test_a_finding_is_marked_on_its_rank_and_steps(played):
    """The box lies on row 2 from the first step of the finding to its last, to the newest while it goes on."""
    view = played.view("default", "demo")
    (box,) = drawn(view).layout.shapes
    assert (box.x0, box.x1, box.y0, box.y1) == (59.5, view.steps[-1] + 0.5, 1.5, 2.5)
    over = [tuple(msgspec.structs.replace(one, state="recovered", last_step=99) for one in view.episodes[0])]
    (box,) = figures.heatmap(view.steps, np.ones((4, len(view.steps))), over, DARK, slow_first=False).layout.shapes
    assert (box.x0, box.x1) == (59.5, 99.5)


def test_a_finding_on_a_node_is_one_box_a_run_of_its_ranks(played):
    """With one label each, not one a rank."""
    view = played.view("default", "demo")
    wide = [tuple(msgspec.structs.replace(one, ranks=[0, 1, 3]) for one in episode) for episode in view.episodes]
    ratio = against_median(own_time(view.step_s, view.waiting_s))
    figure = figures.heatmap(view.steps, ratio, wide, DARK, slow_first=False)
    assert [(box.y0, box.y1) for box in figure.layout.shapes] == [(-0.5, 1.5), (2.5, 3.5)]
    assert len(figure.layout.annotations) == 2


def test_a_mark_without_a_cause_says_kind_and_line(played, simulated_job, tell):
    """ "Cause unknown" is no label where the kind is known."""
    hang = {"id": "hang", "kind": "hang", "cause": "unknown", "line": "train.py:45 <b>", "first_step": 90}
    tell(played, [simulated_job.finding(1, 99, "confirmed", **hang)])
    texts = [note.text for note in drawn(played.view("default", "demo")).layout.annotations]
    assert "confirmed: Hang, train.py:45 &lt;b&gt;" in texts
    assert "confirmed: slow computation on the worker" in texts


def test_the_mark_follows_its_rank_when_the_slowest_come_first(played):
    """Reordering moves the box along."""
    figure = drawn(played.view("default", "demo"), slow_first=True)
    assert figure.data[0].y[0] == "2"
    assert figure.layout.shapes[0].y0 == -0.5


def test_a_picture_is_never_larger_than_a_browser_likes():
    """Thousands of ranks and steps become a bounded picture that still shows the slowest."""
    ratio = np.ones((1000, 4096), np.float32)
    ratio[777] = 3.0
    trace = figures.heatmap(np.arange(4096), ratio, [], DARK, slow_first=False).data[0]
    assert trace.z.shape[0] <= figures.ROWS
    assert trace.z.shape[1] <= 600
    assert "777" in trace.y


def test_axes_say_what_they_measure(played):
    """Every axis has a title, the bars' with its unit."""
    view = played.view("default", "demo")
    bars = figures.phases(view.phase_s, DARK)
    assert drawn(view).layout.xaxis.title.text == "training step"
    assert bars.layout.xaxis.title.text.startswith("ms a step")
    assert bars.layout.yaxis.title.text == "rank"


def test_waiting_is_the_last_part_of_a_bar(played):
    """Work first, then the waiting it leads to."""
    assert figures.phases(played.view("default", "demo").phase_s, DARK).data[-1].name == "waiting for others"


def test_phases_nobody_measured_have_no_bar(played):
    """Evaluation never ran: it is not in the picture."""
    names = [bar.name for bar in figures.phases(played.view("default", "demo").phase_s, DARK).data]
    assert "evaluation" not in names


def test_a_label_reaches_into_the_wider_half(played, simulated_job, tell):
    """A phone's picture has no room for it elsewhere: it would run over the colours' scale and be cut."""
    early = {"id": "hang", "kind": "hang", "cause": "unknown", "first_step": 5}
    tell(played, [simulated_job.finding(1, 99, "confirmed", **early)])
    view = played.view("default", "demo")
    middle = (view.steps[0] + view.steps[-1]) / 2
    figure = drawn(view)
    assert {note.x < middle: note.xanchor for note in figure.layout.annotations} == {True: "left", False: "right"}
