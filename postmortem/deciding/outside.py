"""Ended from outside: a time limit, preemption, eviction, a node that failed, a signal. Nobody is accused.

Rule of this file: pure. A line with its reason decides, unless the same file tells of a failure before it;
one without a reason is mostly the end of a job that had failed already, so it counts where nothing else does.
"""

from ..evidence import Outside, Statement
from .case import Case, grounds
from .verdict import Verdict


def with_reason(case: Case) -> Verdict | None:
    """By a line that says why."""
    for said in case.outside:
        if said.strong and _of_the_job(case, said) is not False and not _failed_before(case, said):
            return _verdict(case, said)
    return None


def without_reason(case: Case) -> Verdict | None:
    """By a line that says no more than that it ended."""
    known = (said for said in case.outside if _of_the_job(case, said) is not False)
    return next(
        (_verdict(case, said) for said in known if not _failed_before(case, said) and not _behind_a_task(case, said)),
        None,
    )


def _behind_a_task(case: Case, said: Outside) -> bool:
    """Whether srun had ended a step above that line because a task had ended: only then it names the step."""
    above = (one for one in case.step_ends if one.source.line < said.source.line)
    return any(one.step and one.source.file == said.source.file for one in above)


def _of_the_job(case: Case, said: Outside) -> bool | None:
    """Whether the pod or the Job that it names, if any, is this job's, None where it may be: events are of all jobs."""
    if said.job:
        return case.owns(lambda pod: pod.startswith(f"{said.job}-"))
    return not said.pod or case.owns_pod(said.pod)


def _failed_before(case: Case, said: Outside) -> bool:
    """Whether a rank has failed or waited in vain above that line."""

    def above(one: Statement) -> bool:
        return one.source.file == said.source.file and one.source.line < said.source.line

    return (
        any(above(one) for one in case.timeouts)
        or any(above(one) for one in case.stalls)
        or any(above(one) for one in case.failures if one.role == "own" or one.name == "timeout_gloo")
    )


def _verdict(case: Case, said: Outside) -> Verdict:
    node = (said.node,) if said.reason in _OF_A_NODE and said.node else ()
    words = {
        "time limit": "the time limit of the job",
        "memory limit": "the memory limit of the job",
        "lost node": "the connection to a node was lost: it failed, or its network",
        "node failure": "a node failed",
        "node shutdown": "a node was shut down",
        "signal SIGHUP": "signal SIGHUP, as when the terminal or session that started it is closed",
        "signal SIGINT": "signal SIGINT, as by Ctrl-C",
    }
    what = words.get(said.reason, said.reason) + (f" of pod {said.pod}" if said.pod else "")
    return Verdict(
        kind="died",
        cause=f"ended from outside: {what}; what ranks say afterwards follows from it",
        victims=tuple(sorted(case.ranks)),
        nodes=node,
        sure="certain" if said.strong and said.reason != "lost node" and _of_the_job(case, said) else "likely",
        next=_next(said.reason, named=bool(node)),
        grounds=grounds(said),
    )


_OF_A_NODE = ("node failure", "lost node", "node shutdown", "eviction")


def _next(reason: str, *, named: bool) -> str:
    if reason == "node failure" and not named:
        return "find the node (sacct -j JOB -o jobid,state,nodelist; sinfo -R), and start again without it"
    return {
        "memory limit": "less memory (fewer loader workers, smaller buffers), or a higher limit",
        "lost node": "look at that node, and start again without it",
        "time limit": "ask for more time, or go on from the last checkpoint",
        "preemption": "start it again from the last checkpoint",
        "node failure": "look at that node, and start again without it",
        "node shutdown": "start it again from the last checkpoint, on other nodes",
        "signal SIGHUP": "start it so that it outlives its session: tmux, nohup, or as a batch job",
        "eviction": "requests that equal the pod's limits (memory, ephemeral storage), then start it again",
    }.get(reason, "ask who or what ended the job: the scheduler's record, the launcher's parent")
