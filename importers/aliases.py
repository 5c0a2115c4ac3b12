"""Other people's words for ops and columns, and ours.

Rule of this file: tables, and how a word is looked up in them. A word that stands for waiting on others (send, receive,
any collective) is communication whatever else it says: ``forward-send`` is no forward. Only who waits for data or for a
checkpoint waits for no rank.
"""

from collections.abc import Mapping

from paceline.events import OPS, STEP

from .time_cells import unit_of, words

#: Whole names.
_EXACT = {
    "f": "forward",
    "fp": "forward",
    "b": "backward",
    "bp": "backward",
    "w": "backward",
    "bw": "backward",
    "wgrad": "backward",
    "dgrad": "backward",
    "opt": "optimizer",
    "clip": "optimizer",
    "update": "optimizer",
    "iteration": STEP,
    "iter": STEP,
    "train-step": STEP,
    "training-step": STEP,
    "h2d": "prepare",
    "garbage-collection": "gc",
    **{name.replace("_", "-"): name for name in OPS},
    # A table that has rows for it means the time between a rank's ops, in which it waits for others.
    "idle": "communication",
}
#: Parts of a name, the first that is found; the order matters.
_PARTS = (
    (
        "communication",
        {"send", "recv", "receive", "p2p", "sync", "comm", "communication", "barrier", "nccl", "rccl", "gloo"},
    ),
    (
        "communication",
        {"allreduce", "allgather", "reducescatter", "alltoall", "broadcast", "bcast", "reduce", "gather"},
    ),
    ("communication", {"scatter", "a2a", "ar", "rs", "ag", "isend", "irecv", "sendrecv", "bubble", "idle"}),
    ("gc", {"gc"}),
    ("checkpoint", {"checkpoint", "ckpt", "save"}),
    ("evaluation", {"eval", "evaluate", "evaluation", "validation", "validate"}),
    ("optimizer", {"optimizer", "optim", "adam", "sgd", "clip"}),
    ("backward", {"backward", "bwd"}),
    ("forward", {"forward", "fwd"}),
    ("data", {"data", "dataloader", "dataloading", "load", "loader", "input", "batch", "fetch"}),
    ("prepare", {"prepare", "copy", "collate"}),
)
#: Ops that wait for no rank, whatever else of their names says that they wait.
_NO_RANKS = ("data", "checkpoint")


def op_of(name: str, chosen: Mapping[str, str]) -> str | None:
    """The op that ``name`` means, or None. ``chosen`` are the user's own words, which win.

    >>> [op_of(name, {}) for name in ("forward-compute", "Backward_Send", "grads-reduce-scatter", "F", "fizz")]
    ['forward', 'communication', 'communication', 'forward', None]
    """
    if name in chosen:
        return chosen[name]
    parts = words(name)
    if (plain := "-".join(parts)) in _EXACT:
        return _EXACT[plain]
    op = _op_of({*parts} - {"wait"})
    if "wait" in parts and (op not in _NO_RANKS or "parallel" in parts):
        return "communication"
    return op


def _op_of(parts: set[str]) -> str | None:
    return next((op for op, words in _PARTS if words & parts), None)


#: Names under which a column is found when the user maps none; the first that is there: one of the whole job's before
#: one that may count within an epoch, a node or a pass.
COLUMNS: dict[str, tuple[str, ...]] = {
    "rank": ("global_rank", "rank", "rank_id", "worker", "worker_id"),
    "dp": ("dp", "dp_rank", "data_parallel_rank", "dp_id", "replica"),
    "tp": ("tp", "tp_rank", "tensor_parallel_rank", "tp_id"),
    "stage": (
        "pp", "pp_rank", "pipeline_rank", "pipeline_parallel_rank", "pp_id", "pp_stage", "stage", "stage_id",
        "pipeline_stage",
    ),
    "step": ("global_step", "step", "iteration", "iter", "step_id", "step_num"),
    "op": ("op", "optype", "op_type", "operation", "operation_type", "op_name", "phase", "name", "type"),
    "microbatch": ("microbatch", "micro_batch", "mb_id", "mbid", "microbatch_id", "micro_batch_id", "mb"),
    # Also with a unit behind them.
    "start": ("start", "start_ts", "start_time", "ts", "begin", "begin_time", "timestamp"),
    "duration": ("duration", "dur", "elapsed", "elapsed_time", "time_ms", "time_us", "time_ns", "time_s"),
    "node": ("node", "host", "hostname", "host_name"),
}  # fmt: skip


def find_columns(there: list[str], chosen: Mapping[str, str]) -> dict[str, str]:
    """Which column of ``there`` holds each field: as ``chosen``, else by its usual names. Fields not found are missing.

    An empty choice says that there is none. Capitals, blanks and signs in a name do not matter.

    >>> find_columns(["global step", "ppRank", "op-type"], {})
    {'stage': 'ppRank', 'step': 'global step', 'op': 'op-type'}
    """
    by_name = {"_".join(words(name)): name for name in reversed(there)}
    without_unit = {"_".join(words(name)[:-1]): name for name in reversed(there) if unit_of(name) is not None}
    columns = {}
    for field, names in COLUMNS.items():
        if field in chosen:
            if chosen[field]:
                columns[field] = chosen[field]
            continue
        known = without_unit | by_name if field in ("start", "duration") else by_name
        usual = next((known[name] for name in names if name in known), None)
        if usual is not None:
            columns[field] = usual
    return columns
