"""What Slurm is handed for a job: the options of the spec, the batch script, and what each node is told.

Rule of this file: pure. Every word in the script is Paceline's own, checked against a narrow alphabet, or quoted; the
command never stands in it, and neither does a value of the environment: a script can be read by whoever may ask Slurm.
"""

import hashlib
import json
import math
import re
import shlex
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from paceline.decoders import convert

from .executor import ExecutorError, Job

Word = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_.:@+,-]{1,200}\Z")]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=604_800)]
#: Files in a job's folder.
SCRIPT, TOLD, LAUNCHER, LOG, STATUS, NUMBER = (
    "job.sh", "job.json", "on_node.py", "slurm.log", "slurm-status", "slurm-job",
)  # fmt: skip
#: What Paceline says itself, and what would make several jobs of one, or a job that comes back.
OWN = (
    "array", "begin", "chdir", "comment", "dependency", "error", "exclusive", "export", "export-file", "gpus-per-node",
    "hold", "input", "job-name", "nodelist", "nodes", "no-requeue", "ntasks", "ntasks-per-node", "open-mode", "output",
    "parsable", "requeue", "test-only", "time", "wait", "wrap", "cpus-per-task", "partition", "account", "qos", "mem",
)  # fmt: skip
_OPTION = re.compile(r"--([a-z][a-z0-9-]*)(=[A-Za-z0-9_.:@+,/%&|()\[\]*=-]+)?")


class SlurmOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """``executor: {slurm: …}`` of a spec, and the trial's name and folder."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    folder: Annotated[str, msgspec.Meta(min_length=1, max_length=1000)]
    partition: Word | None = None
    account: Word | None = None
    qos: Word | None = None
    cpus_per_node: Annotated[int, msgspec.Meta(ge=1, le=4096)] | None = None
    gpus_per_node: Annotated[int, msgspec.Meta(ge=0, le=64)] | None = None
    memory: Annotated[str, msgspec.Meta(pattern=r"^[0-9]{1,9}[KMGT]?\Z")] | None = None
    exclusive: bool = True
    options: Annotated[list[Annotated[str, msgspec.Meta(max_length=500)]], msgspec.Meta(max_length=50)] = []
    python: Annotated[str, msgspec.Meta(min_length=1, max_length=1000)] | None = None
    parallel: Annotated[int, msgspec.Meta(ge=1, le=64)] = 1
    #: How long a job may wait in the queue; how long Slurm may be away; how late files may come over the network.
    wait_s: Seconds = 86_400.0
    patience_s: Seconds = 600.0
    late_s: Annotated[float, msgspec.Meta(ge=0, le=600)] = 30.0


def read(options: Mapping[str, Any]) -> SlurmOptions:
    """The options, checked.

    Raises:
        ExecutorError: one is not allowed.
    """
    told = {**options, "folder": str(options.get("folder", ""))}
    try:
        made = convert(told, SlurmOptions, strict=False)
    except msgspec.ValidationError as error:
        raise ExecutorError(f"executor.slurm: {error}; allowed: {', '.join(SlurmOptions.__struct_fields__)}") from None
    for one in made.options:
        found = _OPTION.fullmatch(one)
        if found is None:
            raise ExecutorError(f"executor.slurm.options: {one!r}; allowed: --name or --name=value, with no space")
        if found[1] in OWN:
            raise ExecutorError(f"executor.slurm.options: --{found[1]} is set by paceline trial itself; remove it")
    return made


def trial_mark(options: SlurmOptions) -> str:
    """What tells this trial from all others: its name and its folder."""
    return hashlib.sha256(f"{options.name}\0{options.folder}".encode()).hexdigest()[:16]


def job_name(options: SlurmOptions, job: Job) -> str:
    """The job's name in ``squeue``; whatever the trial is called, letters, digits and hyphens.

    >>> from pathlib import Path
    >>> made = SlurmOptions(name="big $(rm) batch", folder="/f")
    >>> job_name(made, Job("a-1", ("x",), Path("/f/a-1"), 1, 1))
    'paceline-big-rm-batch-a-1'
    """
    checked(job)
    slug = re.sub(r"[^A-Za-z0-9]+", "-", options.name).strip("-")[:40] or "trial"
    return f"paceline-{slug}-{job.id}"


def comment(options: SlurmOptions, job: Job) -> str:
    """What a trial knows its own jobs by."""
    return f"paceline-trial:{trial_mark(options)}:{job.id}"


def checked(job: Job) -> None:
    """Raises: ExecutorError: the job cannot be written down for Slurm."""
    if not re.fullmatch(r"[A-Za-z0-9-]{1,100}", job.id):
        raise ExecutorError(f"job {job.id!r}: its id may hold letters, digits and hyphens")
    if bad := [node for node in job.on if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,252}", node)]:
        raise ExecutorError(f"job {job.id}: {bad[0]!r} is no node's name")
    if job.on and len(set(job.on)) != job.nodes:
        raise ExecutorError(f"job {job.id}: {job.nodes} nodes, and {len(set(job.on))} are named")
    if re.search(r"[^ -~]|[\"'\\]", str(job.folder)) or not job.folder.is_absolute():
        raise ExecutorError(f"{job.folder}: Slurm takes no such path; fix: --folder with plain letters, from / on")
    if not (math.isfinite(job.limit_s) and 0 < job.limit_s <= 604_800 and 0 < job.nodes <= 10_000):
        raise ExecutorError(f"job {job.id}: {job.nodes} nodes for {job.limit_s:g} s; allowed: a week, 10000 nodes")
    if not job.command or any("\0" in word for word in job.command):
        raise ExecutorError(f"job {job.id}: no command that can be run")
    if bad := [name for name in job.environ if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)]:
        raise ExecutorError(f"job {job.id}: {bad[0]!r} is no variable's name")
    if bad := [name for name in job.environ if name.startswith(("SLURM", "SBATCH"))]:
        raise ExecutorError(f"job {job.id}: {bad[0]} is Slurm's own; fix: an option of executor.slurm")


def script(options: SlurmOptions, job: Job, python: str) -> str:
    """The batch script.

    Raises:
        ExecutorError: the job asks for what the options do not give.
    """
    checked(job)
    granted = options.gpus_per_node
    if job.gpus and granted is not None and max(job.gpus) >= granted:
        raise ExecutorError(f"job {job.id}: GPU {max(job.gpus)} of {granted}; fix: executor.slurm.gpus_per_node")
    asked = "\n".join(f"#SBATCH {one}" for one in _directives(options, job))
    run, file = shlex.quote(python), {name: shlex.quote(str(job.folder / name)) for name in (LAUNCHER, TOLD, STATUS)}
    cpus = f" --cpus-per-task={options.cpus_per_node}" if options.cpus_per_node else ""
    return f"""#!/bin/bash
{asked}
umask 077
port=$({run} -I {file[LAUNCHER]} port) || exit 78
export PACELINE_TRIAL_PORT="$port"
srun --nodes={job.nodes} --ntasks={job.nodes} --ntasks-per-node=1{cpus} --cpu-bind=none --kill-on-bad-exit=1 \\
  {run} -I {file[LAUNCHER]} {file[TOLD]}
status=$?
printf '%s\\n' "$status" >{file[STATUS]}.new && mv {file[STATUS]}.new {file[STATUS]}
exit "$status"
"""


def _directives(options: SlurmOptions, job: Job) -> list[str]:
    # sbatch reads % in a path as its own, and a limit as whole minutes; paceline ends the job at its second.
    log = str(job.folder / LOG).replace("%", "%%")
    made = [
        f"--job-name={job_name(options, job)}", f"--comment={comment(options, job)}", f'--output="{log}"',
        "--open-mode=truncate", f"--nodes={job.nodes}", f"--ntasks={job.nodes}", "--ntasks-per-node=1",
        f"--time={math.ceil(job.limit_s / 60) + 1}", "--no-requeue", "--export=ALL",
    ]  # fmt: skip
    made += [f"--nodelist={','.join(job.on)}"] if job.on else []
    made += ["--exclusive"] if options.exclusive else []
    given: dict[str, str | int | None] = {
        "partition": options.partition,
        "account": options.account,
        "qos": options.qos,
        "mem": options.memory,
        "cpus-per-task": options.cpus_per_node,
        "gpus-per-node": options.gpus_per_node or None,
    }
    made += [f"--{name}={value}" for name, value in given.items() if value is not None]
    return made + options.options


def told(job: Job) -> str:
    """What each node is told."""
    whole = {"command": job.command, "gpus": job.gpus, "cpus": job.cpus, "numa": job.numa}
    return json.dumps(whole)


def environment(options: SlurmOptions, added: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """What ``sbatch`` is started with, and so the job: by Slurm's own messages, and in no argument.

    Another job's variables would make sbatch take this for a part of it, and sbatch's own overrule the script: of
    those, the site's defaults are left where the options say nothing.
    """
    kept = {f"SBATCH_{name.upper()}" for name in ("partition", "account", "qos") if getattr(options, name) is None}
    kept |= {"SLURM_CONF", "SLURM_JWT"}
    own = {name: value for name, value in environ.items() if name in kept or not name.startswith(("SLURM", "SBATCH"))}
    return own | dict(added)
