"""Which job, which attempt, which node: read from what schedulers and launchers put into the environment.

Rule of this file: pure. ``environ`` is an argument, and so is everything a made-up name needs.

The job's id comes from the first of these that is set: ``PACELINE_JOB``, Slurm, Kubernetes, torchrun's run id, the
rendezvous address of a job on several nodes, Open MPI's name for a launch, Ray's for a job, and last the name that
``paceline run`` made up. So ``mpirun`` in a Slurm allocation is Slurm's job. A run id of torchrun's that looks like
what ``--standalone`` makes up itself (a random UUID) names a job only where nothing else does, or on several nodes.

A pod's environment tells nothing of the job by itself. Its manifest forwards the label that the operator has put on
the pod, as ``KUBERNETES_JOB_NAME``, and a JobSet's ``JOBSET_RESTART_ATTEMPT``: which label that is differs from
operator to operator, and is written in docs/kubernetes-jobs.md, not guessed here.
"""

import re
from collections.abc import Mapping

from paceline.launchers import spans_nodes
from paceline.settings import JOB, LAYERS, NODE, TOTAL_STEPS, SettingError

#: Environment variable with the job id `paceline run` made up, used only where nothing else names the job.
FALLBACK_JOB_VARIABLE = "PACELINE_JOB_FALLBACK"
#: The number that Ray gives a job; and that of none, in the environment of a worker that it has started in advance.
RAY_JOB, NO_RAY_JOB = "RAY_JOB_ID", "ffffffff"
#: Longest job, node or label text that travels.
LONGEST = 200

#: No count has more digits.
_DIGITS = 9

#: A random UUID, as `torchrun --standalone` takes one.
_RANDOM_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")

#: The label with the switch that a node hangs from.
SWITCH = "switch"

#: Variables that become labels of the job, with the label's name.
_LABELS = {
    "SLURM_JOB_ID": "slurm_job_id",
    "SLURM_JOB_NAME": "slurm_job_name",
    "SLURM_JOB_PARTITION": "slurm_partition",
    "SLURM_JOB_ACCOUNT": "slurm_account",
    "SLURM_JOB_USER": "slurm_user",
    "SLURM_ARRAY_JOB_ID": "slurm_array_job_id",
    "SLURM_ARRAY_TASK_ID": "slurm_array_task_id",
    "POD_NAME": "kubernetes_pod",
    "POD_NAMESPACE": "kubernetes_namespace",
    "JOB_COMPLETION_INDEX": "kubernetes_job_index",
    LAYERS.name: "layers",
}


def job_of(environ: Mapping[str, str]) -> str:
    """The id that ``environ`` gives the job, or "" where nothing names it."""
    candidates = (
        JOB.read(environ),
        _slurm_job(environ),
        _kubernetes_job(environ),
        _torchrun_job(environ),
        _prefixed("mpi", environ.get("PMIX_NAMESPACE", "")),
        *_ray_job(environ),
        _random_run_id(environ),
    )
    return next((candidate.strip()[:LONGEST] for candidate in candidates if candidate.strip()), "")


def attempt_of(environ: Mapping[str, str]) -> int:
    """Which attempt of the job this is, from 0. It grows over requeues by Slurm, or restarts of a Kubernetes JobSet,
    and over restarts by torchrun."""
    requeues = _count(environ, "SLURM_RESTART_COUNT") or _count(environ, "JOBSET_RESTART_ATTEMPT")
    restarts = _count(environ, "TORCHELASTIC_RESTART_COUNT")
    if "TORCHELASTIC_RESTART_COUNT" not in environ:
        return requeues
    # A requeue starts torchrun's count again, so the two are kept apart.
    return requeues * 1000 + restarts


def node_of(environ: Mapping[str, str], hostname: str) -> str:
    """The name of this node: as configured, as Slurm or Kubernetes call it, else its host name."""
    candidates = (NODE.read(environ), _slurm_node(environ), environ.get("NODE_NAME", ""), hostname)
    return next((candidate.strip()[:LONGEST] for candidate in candidates if candidate.strip()), "localhost")


def labels_of(environ: Mapping[str, str]) -> dict[str, str]:
    """What schedulers and settings say about the job beside its id."""
    labels = {label: environ[name][:LONGEST] for name, label in _LABELS.items() if environ.get(name)}
    if environ.get("POD_NAME") and environ.get("NODE_NAME"):  # Elsewhere than in a pod others use that name, too.
        labels["kubernetes_node"] = environ["NODE_NAME"][:LONGEST]
    labels |= _total_steps(environ)
    switch = _slurm_switch(environ)
    return {**labels, SWITCH: switch} if switch else labels


def _total_steps(environ: Mapping[str, str]) -> dict[str, str]:
    """The label that says how many steps the job means to take; none of a number that cannot be."""
    try:
        total = TOTAL_STEPS.read(environ)
    except SettingError:
        return {}
    return {"total_steps": str(total)} if total else {}


def _slurm_switch(environ: Mapping[str, str]) -> str:
    """The switch or block that this node hangs from, where Slurm knows the network: the nearest of those it names.

    ``SLURM_TOPOLOGY_ADDR`` is ``core.leaf2.node17`` where ``SLURM_TOPOLOGY_ADDR_PATTERN`` is ``switch.switch.node``.
    """
    names = environ.get("SLURM_TOPOLOGY_ADDR", "").split(".")
    kinds = environ.get("SLURM_TOPOLOGY_ADDR_PATTERN", "").split(".")
    if len(names) != len(kinds) or kinds[-1:] != ["node"] or names[-1] != (_slurm_node(environ) or names[-1]):
        return ""  # The last case: Hydra passes on what Slurm says of the node that it was started on.
    return (names[:-1] or [""])[-1].strip()[:LONGEST]


def made_up(command: list[str], now_s: float, token: str) -> str:
    """A job id for a run that nothing names: the script's name, the day's second and ``token``, so ids differ.

    >>> made_up(["torchrun", "--nproc-per-node", "4", "/home/me/train.py", "--lr", "0.1"], 1_700_000_000.0, "9f3c")
    'train-80000-9f3c'
    """
    scripts = [part for part in command if part.endswith(".py")] or command[:1] or ["run"]
    stem = scripts[0].rpartition("/")[2].removesuffix(".py")
    name = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in stem)[:60] or "run"
    return f"{name}-{int(now_s) % 86_400:05d}-{token}"


def _slurm_job(environ: Mapping[str, str]) -> str:
    array, task = environ.get("SLURM_ARRAY_JOB_ID", ""), environ.get("SLURM_ARRAY_TASK_ID", "")
    if array and task:
        return f"{array}_{task}"
    return environ.get("SLURM_JOB_ID", "")


def _slurm_node(environ: Mapping[str, str]) -> str:
    """This node by Slurm's name.

    Hydra, the launcher of MPICH, gives ranks on all nodes Slurm's variables of the node that it was started on, and
    says in one of its own where they are.
    """
    named = environ.get("SLURMD_NODENAME", "")
    if named and "PMI_RANK" in environ and "MPI_LOCALRANKID" in environ:
        return environ.get("MPIR_CVAR_CH3_INTERFACE_HOSTNAME") or named
    return named


def _kubernetes_job(environ: Mapping[str, str]) -> str:
    """The Job's name as OpenTelemetry's resource attributes carry it; no namespace holds a dot."""
    pairs = (part.partition("=") for part in environ.get("OTEL_RESOURCE_ATTRIBUTES", "").split(","))
    attributes = {key.strip(): value.strip() for key, _, value in pairs}
    name = environ.get("KUBERNETES_JOB_NAME") or attributes.get("k8s.job.name", "")
    namespace = environ.get("POD_NAMESPACE") or attributes.get("k8s.namespace.name", "")
    return f"{namespace}.{name}" if name and namespace else name


def _torchrun_job(environ: Mapping[str, str]) -> str:
    run = environ.get("TORCHELASTIC_RUN_ID", "")
    if run and run != "none" and (spans_nodes(environ) or not _random_run_id(environ)):
        return run
    if environ.get("MASTER_ADDR") and spans_nodes(environ) and not environ.get("PMIX_NAMESPACE"):
        # Several nodes and no run id: names made up on each node would tear the job apart.
        return f"{environ['MASTER_ADDR']}-{environ.get('MASTER_PORT', '')}"
    return ""


def _random_run_id(environ: Mapping[str, str]) -> str:
    """torchrun's run id where it looks like one that it has made up itself."""
    run = environ.get("TORCHELASTIC_RUN_ID", "")
    return run if _RANDOM_ID.fullmatch(run) else ""


def _ray_job(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Ray's number of the job, before the made-up name; neither for a worker that waits for a job: it may get any."""
    number = environ.get(RAY_JOB, "").strip()
    made = environ.get(FALLBACK_JOB_VARIABLE, "")
    return () if number == NO_RAY_JOB else (_prefixed("ray", number), made)


def _prefixed(kind: str, name: str) -> str:
    """A launcher's own name for a job, a number in most cases, as one that says whose it is."""
    return f"{kind}-{name.strip()}" if name.strip() else ""


def _count(environ: Mapping[str, str], name: str) -> int:
    raw = environ.get(name, "")
    # A number of more digits counts no restarts, and no event would hold it.
    return int(raw) if raw.isascii() and raw.isdigit() and len(raw) <= _DIGITS else 0
