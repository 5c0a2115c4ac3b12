"""Tables that Nsight writes (``nsys stats --format csv``, ``ncu --csv``), known by their columns.

Rule of this file: refused by name, for none of them says a rank or a step: summaries hold sums, traces single kernels.
"""

import csv
import re

#: A report's columns, in small letters and without units; the first that are all there name it.
_REPORTS = (
    ("a trace of Nsight Systems (cuda_gpu_trace)", ("start", "duration", "corrid", "device", "name")),
    ("a trace of Nsight Systems (cuda_kern_exec_trace)", ("api start", "api dur", "kernel start", "kernel dur")),
    ("a trace of Nsight Systems (cuda_api_trace)", ("start", "duration", "name", "corrid", "pid", "tid")),
    ("a trace of Nsight Systems (nvtx_pushpop_trace)", ("start", "duration", "durchild", "durnonchild", "name")),
    ("a trace of Nsight Systems (nvtx_gpu_proj_trace)", ("name", "projected start", "projected duration")),
    ("a summary of Nsight Systems", ("time", "total time", "instances", "avg", "max")),
    ("a summary of Nsight Systems", ("time", "total time", "num calls", "avg", "max")),
    ("a summary of Nsight Systems", ("time", "total time", "count", "avg", "max")),
    ("a summary of Nsight Systems", ("range", "style", "total proj time")),
    ("a table of Nsight Compute", ("id", "process id", "process name", "kernel name")),
)
#: How the text begins that they print above their tables.
_PRINTED = re.compile(
    r"Generating SQLite file |Processing \[.+\.sqlite\] with |NOTICE: Existing SQLite | ?\*\* .+ \(\w+\):|==PROF== "
)
#: What may part the columns of a text.
_MARKS = ",;\t|"


def report_of(columns: list[str]) -> str:
    """What a table with these columns is; "" for none of Nsight's.

    >>> report_of(["Time (%)", "Total Time (ns)", "Instances", "Avg (ns)", "Max (ns)", "Name"])
    'a summary of Nsight Systems'
    """
    if columns and _PRINTED.match(columns[0]):
        return "output of nsys stats or ncu"
    there = {column.partition("(")[0].strip().lower() for column in columns}
    return next((name for name, wanted in _REPORTS if there.issuperset(wanted)), "")


def refusal(columns: list[str]) -> str:
    """Why a table of Nsight's is not read, and what is; "" for any other."""
    report = report_of(columns)
    return report and (
        f"{report}: it has neither ranks nor steps; record one with `paceline run`, or export each rank's trace with "
        "torch.profiler (prof.export_chrome_trace) for `paceline import kineto`"
    )


def refusal_of_line(first: str) -> str:
    """As ``refusal``, of the first line of a text that may be a table.

    >>> refusal_of_line('"Time (%)";"Total Time (ns)";"Instances";"Avg (ns)";"Max (ns)";"Name"').partition(":")[0]
    'a summary of Nsight Systems'
    """
    return refusal(next(csv.reader([first[:10_000]], delimiter=max(_MARKS, key=first.count)), []))
