"""Documents in every format: names from outside stay names."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from paceline.events import Cost, DeviceWindow, HostWindow, NodeDescribed
from streams.reports.builder import ReportBuilder
from streams.reports.cluster_report import ClusterBuilder
from streams.reports.documents.as_html import as_html
from streams.reports.documents.as_markdown import as_markdown
from streams.reports.documents.as_text import as_text
from streams.reports.documents.cluster_document import cluster_document
from streams.reports.documents.comparison_document import _percent
from streams.reports.documents.document import Document, Heading, Notice, Paragraph, Table
from streams.reports.documents.pictures import Bar, bars
from streams.reports.documents.report_document import report_document
from streams.reports.documents.style import painted
from streams.reports.report import Course, ForecastScore, Heard, JobReport, Report
from tests.derived_events import HOSTILE, described, finding, job_window, rank_window, suggestion

SCRIPT = "</title><script>alert(1)</script><img src=x onerror=alert(1)>\"'"
WRITERS = [as_text, as_markdown, as_html]


class Tags(HTMLParser):
    """Which tags and attributes there are."""

    def __init__(self):
        super().__init__()
        self.seen, self.addresses = [], []

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)
        self.addresses += [value for name, value in attributes if name in ("href", "src", "xlink:href")]
        assert not [name for name, _ in attributes if name.startswith("on")]


def document_of(*events, title="Report"):
    builder = ReportBuilder(title)
    for event in events:
        builder.update(event)
    return report_document(builder.report([HOSTILE]))


def hostile(name):
    """A job, node, label, finding and suggestion that are all called ``name``."""
    cost = Cost(lost_s=5.0, gpu_hours=0.1, throughput_lost_ratio=0.2)
    return [
        described(job=name, node=name, framework=name, backend=name, labels={name: name}),
        *(rank_window(rank, job=name, node=name, start_s=1000.0 + 10 * at) for at in range(3) for rank in range(4)),
        *(
            job_window(job=name, start_s=1000.0 + 10 * at, first_step=100 + 10 * at, last_step=109 + 10 * at)
            for at in range(3)
        ),
        finding(job=name, kind=name, cause=name, nodes=[name], summary=name, cost=cost, last_step=129),
        suggestion(job=name, title=name, reason=name, apply=[name], risk=name, steps=[name]),
    ]  # fmt: skip


@pytest.mark.parametrize("name", [HOSTILE, SCRIPT, "x" * 5000, "", "a`b```c|d\\"])
@pytest.mark.parametrize("writer", WRITERS)
def test_names_raise_nothing_and_stay_on_their_line(writer, name):
    """No escape, no mark of direction, no line end of theirs."""
    text = writer(document_of(*hostile(name), title=name or "t"))
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)


@pytest.mark.parametrize("name", [HOSTILE, SCRIPT])
def test_html_has_no_tag_or_address_of_a_name(name):
    """No script, nothing loaded: pictures are in the file itself."""
    tags = Tags()
    tags.feed(as_html(document_of(*hostile(name), title=name)))
    assert not {"script", "iframe", "img", "link", "object", "a"} & set(tags.seen)
    assert all(address.startswith("data:image/png;base64,") for address in tags.addresses)


@pytest.mark.parametrize("name", [HOSTILE, SCRIPT])
def test_markdown_has_no_markup_of_a_name(name):
    """What stands outside of code blocks is masked."""
    text = as_markdown(document_of(*hostile(name), title=name))
    outside = re.sub(r"^(`{3,})\n.*?^\1$", "", text, flags=re.M | re.S)
    assert not re.search(r"(?<!\\)<|(?<!\\)\[|://", outside)


def test_a_table_keeps_its_columns_in_markdown():
    """A pipe in a cell is no column."""
    text = as_markdown(Document("t", "", (Table(("a", "b"), (("x|y", "z"),)),)))
    assert text.splitlines()[-1] == "| x\\|y | z |"


@pytest.mark.parametrize("writer", WRITERS)
def test_an_empty_report_says_that_it_is(writer):
    """No traceback, no empty page."""
    assert "No job reported" in writer(document_of())


def test_paper_has_colours_for_variables():
    """What prints knows no variables."""
    assert "var(--" not in painted(as_html(Document("t", "", (Paragraph("p"),))))


@pytest.mark.long
def test_a_thousand_ranks_fit_in_two_megabytes():
    """240 columns of 1,024 ranks are pixels, not shapes, also where no two are alike."""
    own = np.random.default_rng(1).uniform(0.5, 0.9, (1024, 240))
    course = Course(0.0, 60.0, [1.0] * 240, [1.1] * 240, list(range(240)), list(range(240)), list(range(1024)), own)
    job = JobReport(cluster="c", job="j", attempt=0, steps=240, course=course, heard=Heard(1024, 1024, 0, 1.0))
    html = as_html(report_document(Report(title="t", jobs=[job])))
    assert "rank 896" in html
    assert len(html.encode()) < 2_000_000


def test_one_rank_has_nobody_to_be_compared_with():
    """It says so, and draws no picture of one row."""
    text = as_text(document_of(rank_window(0), job_window(ranks=1)))
    assert "No other rank to compare with" in text
    assert "Ranks over time" not in text


@pytest.mark.parametrize("gpus", [1, 40])
def test_nodes_of_one_name_in_two_clusters_have_rows_of_their_own(gpus):
    """Also where a row is a node; in a single cluster its name is left out."""

    def machines(cluster):
        where = {"cluster": cluster, "start_s": 0.0, "length_s": 60.0, "node": "n", "samples": 6, "max": {}}
        yield HostWindow(**where, mean={"cpu_ratio": 0.5})
        for gpu in range(gpus):
            yield DeviceWindow(**where, device=f"GPU-{gpu}", mean={"utilization_ratio": 0.5})

    def first_cells(*clusters):
        blocks = document_of(*(one for cluster in clusters for one in machines(cluster))).blocks
        tables = [block for block in blocks if isinstance(block, Table) and block.head[0] == "node"]
        return [{row[0] for row in table.rows} for table in tables]

    assert first_cells("c", "d") == [{"c/n", "d/n"}, {"c/n", "d/n"}]
    assert first_cells("c") == [{"n"}, {"n"}]


def test_why_no_gpu_was_sampled_is_said_where_the_node_reports_it():
    """No advice to start what runs already."""
    node = NodeDescribed(
        cluster="c",
        producer="p",
        sequence=0,
        node="n",
        time_s=0.0,
        cpu_model=None,
        cpu_count=1,
        memory_total_bytes=1,
        kernel="6",
        not_measured={"devices": "no NVIDIA driver"},
    )
    text, without = as_text(document_of(job_window(), node)), as_text(document_of(job_window()))
    assert "n: not measured: devices (no NVIDIA driver)" in text
    assert "paceline collect, run on" not in text
    assert "paceline collect, run on" in without


def test_names_of_causes_are_whole_beside_their_bars():
    """A cause cut short is no cause."""
    picture = bars([Bar("slow computation on the worker", ((1.0, "red", ""),))])
    assert "slow computation on the worker</text>" in picture


@pytest.mark.parametrize("writer", WRITERS)
def test_a_suggestion_has_its_steps_and_its_command(writer):
    """What to do is why it is read."""
    text = writer(document_of(job_window(), suggestion(steps=["Drain it first", "Then look at its cables"])))
    places = [text.index(words) for words in ("Slow in 3 jobs", "Drain it first", "Then look at", "kubectl cordon")]
    assert places == sorted(places)


def test_suggestions_that_are_over_have_a_section_of_their_own():
    """No heading without anything below it."""
    document = document_of(job_window(), suggestion(state="withdrawn"))
    headings = [block.text for block in document.blocks if isinstance(block, Heading)]
    assert "What became of suggestions" in headings
    assert "Suggestions" not in headings
    assert "a stronger one replaced it" in as_text(document)
    given = document_of(job_window(), suggestion(state="withdrawn", because="the node is replaced"))
    assert "the node is replaced" in as_text(given)
    assert "a stronger one" not in as_text(given)


def test_a_job_that_has_ended_no_longer_hangs():
    """Its report is read after its end, most of the time."""
    hang = finding(kind="hang", first_step=109, last_step=109)
    running, over = (
        next(block.title for block in document_of(job_window(), one, hang).blocks if isinstance(block, Notice))
        for one in (described(), described(ended_s=1100.0, exit_status=1))
    )
    assert (running, over) == ("It hangs", "It hung until it was ended")


def test_one_step_is_no_range():
    """From 29 to 29 is 29."""
    text = as_text(document_of(job_window(), finding(first_step=109, last_step=109)))
    assert "109, open" in text
    assert "109-109" not in text
    ended = as_text(document_of(described(ended_s=1100.0, exit_status=0), job_window(), finding(last_step=109)))
    assert "109, to the end" in ended


def test_few_letters_stay_on_one_line():
    """A rank's number is not parted from its rank."""
    html = as_html(document_of(job_window(), finding()))
    assert '<td class="w">rank 3</td>' in html
    assert "<td>Rank 3 is slow since step 100.</td>" in html


def test_hours_of_a_cluster_have_their_unit():
    """A number alone is seconds, hours or percent to its reader."""
    lost = finding(cost=Cost(lost_s=900.0, gpu_hours=0.5, throughput_lost_ratio=0.2), first_step=100, last_step=109)
    builder = ClusterBuilder()
    for event in (job_window(), described(), lost):
        builder.update(event, 1000.0)
    text = as_text(cluster_document(builder.report()))
    assert "Most of it: slow computation on the worker, 0.5 device-hours in 1 finding." in text
    assert "device-hours throttled" in text
    assert "lost (h)" in text


def test_what_to_do_comes_before_what_was_measured_of_machines():
    """A reader who stops early has seen it."""
    host = HostWindow(cluster="c", start_s=0.0, length_s=10.0, node="n", samples=2, mean={"cpu_ratio": 0.5}, max={})
    headings = [
        block.text for block in document_of(job_window(), host, suggestion()).blocks if isinstance(block, Heading)
    ]
    assert headings.index("Suggestions") < headings.index("Hosts")


def test_a_forecast_is_named_and_has_its_unit():
    """A key of a topic is no name, and a ratio is read in percent."""
    scores = [
        ForecastScore("default/job/llama/wait_ratio", "ratio, 0 to 1", 6, 37, 0.0587, 0.0178, 1.0),
        ForecastScore("default/job/llama/steps_per_s", "1/s", 6, 37, 0.241, None, None),
    ]
    text = as_text(report_document(Report(title="t", forecasts=scores)))
    assert re.search(r"job llama: waiting for other ranks +6 +37 +5\.9 % +1\.8 % +100 %", text)
    assert re.search(r"job llama: steps a second +6 +37 +0\.241 per s", text)


def test_a_terminal_has_no_empty_block():
    """A picture that is none in characters leaves no gap."""
    assert "\n\n\n" not in as_text(document_of(job_window(), rank_window(0), rank_window(1), finding()))


def test_zero_has_no_sign():
    """Runs that are equal are."""
    assert [_percent(one) for one in (-0.0002, 0.0, 0.111, -0.05, 11.0)] == [
        "0.0 %",
        "0.0 %",
        "+11.1 %",
        "-5.0 %",
        "12 times",
    ]
