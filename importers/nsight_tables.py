"""Tables that ``nsys stats --format csv`` writes, known by their columns.

Rule of this file: refused by name, for none of them says a rank or a step: summaries hold sums, traces single kernels.
"""

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
)
#: How the text begins that ``nsys stats`` prints above its tables.
_PRINTED = ("Generating SQLite file", "Processing [", "NOTICE: Existing SQLite", " ** ", "** ")


def report_of(columns: list[str]) -> str:
    """What a table with these columns is; "" for none of Nsight's.

    >>> report_of(["Time (%)", "Total Time (ns)", "Instances", "Avg (ns)", "Max (ns)", "Name"])
    'a summary of Nsight Systems'
    """
    if len(columns) == 1 and columns[0].startswith(_PRINTED):
        return "output of nsys stats"
    there = {column.partition("(")[0].strip().lower() for column in columns}
    return next((name for name, wanted in _REPORTS if there.issuperset(wanted)), "")


def refusal(columns: list[str]) -> str:
    """Why a table of Nsight's is not read, and what is; "" for any other."""
    report = report_of(columns)
    return report and (
        f"{report}: it has neither ranks nor steps; record one with `paceline run`, or export each rank's trace with "
        "torch.profiler (prof.export_chrome_trace) for `paceline import kineto`"
    )
