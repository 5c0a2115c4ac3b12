"""Which finding gives which action: one row a kind and cause.

Rule of this file: data and words. A row's texts may name ``{job}``, ``{where}`` (the ranks or devices, and their nodes)
and ``{nodes}``. What a suggestion is worth and which commands it has is made from it in ``finding_rules``.
"""

from dataclasses import dataclass
from typing import Literal

from paceline.events.suggestions import Action, Risk

#: What is lost: a share of the job's time; all of it; GPUs that are held; nothing that is measured.
Loss = Literal["pace", "standstill", "idle", "unmeasured"]
Commands = Literal[
    "none", "drain", "elsewhere", "restart", "dump", "gpu", "power", "link", "node", "memory", "cpu", "measure"
]

#: A cause that findings do not name apart: throttling at the power cap.
POWER_CAP = "power_cap"


@dataclass(frozen=True)
class FindingRow:
    """What is suggested of a finding."""

    action: Action
    #: Who is to act: on the job, or on its node.
    on: Literal["job", "node"]
    title: str
    steps: tuple[str, ...]
    risk: Risk = "low"
    risk_reason: str = ""
    commands: Commands = "none"
    loss: Loss = "pace"
    #: Only of findings as grave as this.
    critical: bool = False
    #: A text to put into a file.
    manifest: str = ""
    #: Steps in place of those and of commands once the job has ended, and its processes are gone; (): the same.
    afterwards: tuple[str, ...] = ()
    #: Titles in place of that where it accuses several, or neither a rank, a device nor a node; "": the same.
    title_many: str = ""
    title_none: str = ""


#: What a script adds to be balanced: gradients stay those of equal shares, for any split.
BALANCE_LINES = """\
# in the training script; docs/balancing.md says what is exact and what is not
from paceline.balance import BalancedSampler, balance

sampler = BalancedSampler(dataset, global_batch=256)  # in place of DistributedSampler and batch_size: of all ranks
loader = DataLoader(dataset, batch_sampler=sampler, num_workers=4)
balancer = balance(model, optimizer, sampler)  # once the model is wrapped in DDP or sharded by FSDP
# in the loop, in place of loss.backward():
balancer.backward(loss)
"""
_RESTARTS = "the job starts again from its last checkpoint; work since then is repeated"

#: (kind, cause) -> row; a cause of "" stands for all that have no row of their own.
FINDING_TABLE: dict[tuple[str, str], FindingRow] = {
    ("straggler", "worker_compute"): FindingRow(
        "rebalance",
        "job",
        "Give {where} less work, or its work to another device",
        (
            "Run the same step alone on that device. Slow again: check the device. "
            "Fast: check that rank's code path or data.",
            "Until then give each rank as many samples as its speed allows, measured as it goes: a BalancedSampler, "
            "balance(model, optimizer, sampler), and balancer.backward(loss) in the script (docs/balancing.md).",
            "If other jobs are slow on that device, too, it is the hardware: test it (dcgmi diag -r 3).",
        ),
        "medium",
        "gradients stay exact, but BatchNorm sees uneven batches: SyncBatchNorm; the script starts again",
        "gpu",
        manifest=BALANCE_LINES,
        title_many="Give {where} less work, or their work to other devices",
    ),
    ("straggler", "throttling"): FindingRow(
        "fix_cooling",
        "node",
        "Fix the cooling or power supply of {where}",
        (
            "Look at fans, air flow, dust and neighbours; of a power brake, at supplies and cables.",
            "Until it is fixed start the job without that node, or lower the power limit of that GPU.",
        ),
        "low",
        "checking costs nothing; a repair takes the node out of service",
        "gpu",
    ),
    ("straggler", POWER_CAP): FindingRow(
        "raise_power_cap",
        "node",
        "Raise the power cap of {where}, or cap its peers alike",
        (
            "Compare its power limit with its peers': nvidia-smi -q -d POWER.",
            "Set it to theirs (nvidia-smi -i GPU -pl WATTS), if the rack's power and cooling allow.",
        ),
        "medium",
        "more power is more heat: the rack must be able to supply and cool it",
        "power",
        title_many="Raise the power cap of {where}, or cap their peers alike",
    ),
    ("straggler", "cpu_contention"): FindingRow(
        "give_cpus",
        "job",
        "Give {where} processors of its own",
        (
            "Where the finding names a CPU quota: raise it (Kubernetes: resources.limits.cpu; docker update --cpus).",
            "Find what else runs on its cores (top, taskset -p PID) and move it.",
            "Pin ranks apart (Slurm: --cpus-per-task and --cpu-bind=cores; Kubernetes: whole CPUs, requests = limits).",
            "Ask for more CPUs a rank where its loader workers have to share them.",
        ),
        commands="cpu",
        title_many="Give {where} processors of their own",
    ),
    ("straggler", "input_pipeline"): FindingRow(
        "feed_input",
        "job",
        "Feed {where} faster: more loader workers, prefetching, or storage",
        (
            "Raise the DataLoader's num_workers and prefetch_factor, with persistent_workers=True and pin_memory=True.",
            "Look at the disk or network that this node reads from: its peers read fast enough.",
        ),
        commands="cpu",
    ),
    ("straggler", "garbage_collection"): FindingRow(
        "tune_host",
        "job",
        "Keep Python's collector out of the steps of {where}",
        (
            "Call gc.collect() and gc.freeze() after set-up.",
            "Or gc.disable(), and gc.collect() on every rank at the same step, every few hundred steps.",
        ),
        "low",
        "memory of cycles grows until it is collected: watch it",
    ),
    ("straggler", "host_bound"): FindingRow(
        "tune_host",
        "job",
        "Launch faster on {where}: its GPU waits for its host",
        (
            "Look for Python between the launches and synchronising calls: .item(), .cpu(), prints, logging.",
            "torch.compile or CUDA graphs launch less; fused optimizers (fused=True) too.",
            "Look at what else runs on that rank's cores.",
        ),
        commands="cpu",
        title_many="Launch faster on {where}: their GPUs wait for their hosts",
    ),
    ("straggler", "memory_pressure"): FindingRow(
        "tune_host",
        "job",
        "Free memory on the node of {where}: it swaps or waits for memory",
        (
            "See who uses it (free -m, smem); use fewer loader workers, and no other jobs on that node.",
            "Turn swap off, or ask the scheduler for more memory a node.",
        ),
        commands="memory",
        title_many="Free memory for {where}: they swap or wait for memory",
    ),
    ("straggler", "link"): FindingRow(
        "move_job",
        "job",
        "Move {job} off the slow link of {where}",
        (
            "Start the job again without that node, or without that switch.",
            "Then check the node's cable, switch port and NIC counters: errors, a lower speed, retransmits.",
        ),
        "medium",
        _RESTARTS,
        "elsewhere",
    ),
    ("stage_imbalance", ""): FindingRow(
        "rebalance",
        "job",
        "Cut {job} into even pipeline stages",
        (
            "Move layers from the longest stage to a shorter one; embedding and loss count as layers.",
            "No device is to blame: other nodes would be as slow.",
        ),
        "medium",
        "checkpoints must be split again for the new stages",
    ),
    ("data_imbalance", ""): FindingRow(
        "rebalance",
        "job",
        "Give the ranks of {job} batches of equal length",
        (
            "Sort or bucket sequences by length, or fill batches up to a number of tokens instead of samples.",
            "No device is to blame: the rank with the longest sequences changes from step to step.",
        ),
        "low",
        "batches of similar length are less random: shuffle the buckets",
    ),
    ("data_bound", ""): FindingRow(
        "feed_input",
        "job",
        "Feed {job} faster: all of its ranks wait for data",
        (
            "Raise the DataLoader's num_workers and prefetch_factor, with persistent_workers=True and pin_memory=True.",
            "Decode less in the step: cached or pre-processed samples, larger files, decoding on the GPU.",
            "If the workers wait as well, storage is too slow: local disks, a cache, more reading clients.",
        ),
    ),
    ("communication_bound", ""): FindingRow(
        "overlap_communication",
        "job",
        "Overlap, bucket or compress the communication of {job}",
        (
            "Overlap it with backward: DDP's buckets (bucket_cap_mb), FSDP's prefetching, no synchronising calls.",
            "Accumulate gradients over more micro-batches, so that there is less of it.",
            "Send bf16 instead of fp32 (DDP's bf16_compress_hook); shard within a node rather than across.",
        ),
        "medium",
        "compressed or rarer gradients can change how a model converges: compare the loss",
    ),
    ("hang", ""): FindingRow(
        "restart_job",
        "job",
        "Check {where}, which {job} waits for, and restart the job",
        (
            "Look at the stacks of the missing processes (py-spy dump) and at their nodes' kernel logs (dmesg).",
            "Start the job again from its last checkpoint; without that node if the node is at fault.",
        ),
        "medium",
        _RESTARTS,
        "dump",
        "standstill",
        afterwards=(
            "Look at the line of code that the finding names and at what it waits for there, and at that node's "
            "kernel log (dmesg -T).",
            "Start the job again from its last checkpoint; without that node if the node is at fault.",
        ),
        title_none="Find out what {job} waits for, and restart it",
    ),
    ("collective_mismatch", ""): FindingRow(
        "inspect_job",
        "job",
        "Make all ranks of {job} call the same collectives: see {where}",
        (
            "Look for what only some ranks do on the way to that line: a branch on the rank or on its data, a skipped "
            "batch, an early return, an exception that is caught.",
            "Let all ranks call it, with the same operation, size and type; start the job again. "
            "TORCH_DISTRIBUTED_DEBUG=DETAIL names the first call that differs.",
        ),
        "medium",
        _RESTARTS,
        "dump",
        "standstill",
        afterwards=(
            "Look for what only some ranks do on the way to that line: a branch on the rank or on its data, a skipped "
            "batch, an early return, an exception that is caught.",
            "Start the job again with TORCH_DISTRIBUTED_DEBUG=DETAIL: it names the first call that differs.",
        ),
        title_none="Make all ranks of {job} call the same collectives",
    ),
    ("order_deadlock", ""): FindingRow(
        "inspect_job",
        "job",
        "Use the process groups of {job} in the same order on all ranks",
        (
            "Compare the stacks of two ranks that wait in different groups (py-spy dump): each waits for the other.",
            "Call the collectives of these groups in one order on every rank, also in hooks and in threads; "
            "start the job again.",
        ),
        "medium",
        _RESTARTS,
        "dump",
        "standstill",
        afterwards=(
            "Call the collectives of these groups in one order on every rank, also in hooks and in threads; "
            "start the job again.",
        ),
    ),
    ("network", ""): FindingRow(
        "inspect_node",
        "node",
        "Check the network of {where}",
        (
            "Look at the card, cable and switch port (ibstat, ip -s link), and at the kernel's log (dmesg).",
            "Start the job again with NCCL_DEBUG=INFO, without that node if its link stays down; ncclras shows who "
            "is connected.",
        ),
        commands="link",
        loss="standstill",
    ),
    ("waiting", ""): FindingRow(
        "inspect_job",
        "job",
        "Let the ranks of {job} wait less for {where}: it is no hang",
        (
            "Nothing has to be ended: that rank still works.",
            "Where it happens often, write checkpoints in the background (torch.distributed.checkpoint.async_save), "
            "and evaluate on all ranks.",
        ),
        loss="unmeasured",
        title_none="Let the ranks of {job} wait less for each other: it is no hang",
    ),
    ("died", ""): FindingRow(
        "restart_job",
        "job",
        "Fix what ended {where}, and restart {job}",
        (
            "Do what the finding names as next: look at its line of code, or at the kernel log of that node.",
            "Start the job again from its last checkpoint; without that node if the node is at fault.",
        ),
        "low",
        _RESTARTS,
        loss="unmeasured",
    ),
    ("node_silent", ""): FindingRow(
        "inspect_node",
        "node",
        "Check {nodes}: it sends nothing",
        (
            "Check whether it answers, and whether `paceline run` or the collector runs there and reaches Kafka.",
            "If it is dead, drain it and start its jobs again without it.",
        ),
        commands="node",
        loss="unmeasured",
        title_many="Check {nodes}: they send nothing",
    ),
    ("below_rating", ""): FindingRow(
        "measure_node",
        "node",
        "Find out why {nodes} is below its rated speed",
        (
            "A low gemm: clocks, power cap, cooling, and what else runs there (nvidia-smi -q -d PERFORMANCE,POWER).",
            "Low memory speed: of a GPU its memory clocks and errors; of a processor missing modules, NUMA settings.",
            "Low pcie: width and generation of the link (lspci -vv). Low disk: smartctl, and who else uses it.",
            "Low all_reduce: NVLink or the network: links that are down or slow, NCCL's transport.",
            "Then measure it again with nothing else running (paceline benchmark).",
        ),
        commands="measure",
        loss="unmeasured",
        title_many="Find out why {nodes} are below their rated speed",
    ),
    ("slowdown", "input_pipeline"): FindingRow(
        "feed_input",
        "job",
        "Feed {job} faster: its input has become slower for all ranks",
        (
            "Look at what they all read from: storage, its network, its cache, its other users.",
            "Raise the DataLoader's num_workers and prefetch_factor.",
        ),
    ),
    ("slowdown", "garbage_collection"): FindingRow(
        "tune_host",
        "job",
        "Keep Python's collector out of the steps of {job}",
        (
            "Call gc.collect() and gc.freeze() after set-up; look for what grows, for collections grow with it.",
            "Or gc.disable(), and gc.collect() on every rank at the same step, every few hundred steps.",
        ),
    ),
    ("slowdown", "host_bound"): FindingRow(
        "tune_host",
        "job",
        "Launch faster in {job}: its GPUs now wait for their hosts",
        (
            "Look at what changed at that step: logging, .item(), hooks, shapes that are compiled again.",
            "torch.compile or CUDA graphs launch less.",
        ),
    ),
    ("slowdown", ""): FindingRow(
        "inspect_job",
        "job",
        "See what changed in {job} when all of it became slower",
        (
            "Compare a minute from before with one of now: paceline record, then paceline analyze --panel.",
            "Look for what all ranks share: the code's schedule, storage, the network, the power of the room.",
        ),
    ),
    ("device_fault", ""): FindingRow(
        "cordon_node",
        "node",
        "Drain {nodes}: {where} is faulty",
        (
            "Let no new job onto the node, and move the one that runs there at its next checkpoint.",
            "Reset the GPU (nvidia-smi --gpu-reset) and test it (dcgmi diag -r 3) before it takes work again.",
            "If it comes again, have the GPU replaced.",
        ),
        "medium",
        "the node's other GPUs take no new work either",
        "drain",
        "unmeasured",
        critical=True,
        title_many="Drain {nodes}: {where} are faulty",
    ),
    ("device_fault", "throttling"): FindingRow(
        "fix_cooling",
        "node",
        "Fix the cooling or power supply of {where}",
        (
            "Look at fans, air flow, dust and neighbours; of a power brake, at supplies and cables.",
            "Until it is fixed start jobs without that node, or lower the power limit of that GPU.",
        ),
        "low",
        "checking costs nothing; a repair takes the node out of service",
        "gpu",
        "unmeasured",
    ),
    ("idle_device", ""): FindingRow(
        "free_devices",
        "job",
        "Free the GPUs that {job} holds and does not use",
        (
            "Ask the owner whether they are still needed: a notebook, an unused server, a job that ended.",
            "End what holds them, or ask for fewer GPUs next time.",
        ),
        "medium",
        "what the process holds in memory is lost",
        loss="idle",
    ),
    ("out_of_memory_risk", ""): FindingRow(
        "smaller_batch",
        "job",
        "Make the batch of {job} smaller before {where} runs out of memory",
        (
            "A smaller batch with more accumulation steps keeps the gradient the same.",
            "Or activation checkpointing, sharded optimizer state, PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.",
            "If memory grows from step to step, look for what is kept: losses without .item(), growing caches.",
        ),
        "low",
        "a smaller batch may be slower",
        loss="unmeasured",
        title_many="Make the batch of {job} smaller before {where} run out of memory",
    ),
    ("configuration_mismatch", ""): FindingRow(
        "align_configuration",
        "job",
        "Set up the ranks of {job} alike",
        (
            "Set the same versions and variables on every node: the evidence names each that differs, and where.",
            "Start the job again.",
        ),
        "low",
        _RESTARTS,
        loss="unmeasured",
    ),
}
#: Causes that speak against hardware where they come again in other jobs.
OF_HARDWARE = frozenset({"worker_compute", "throttling", "link"})


def row_of(kind: str, cause: str) -> FindingRow | None:
    """The row of a finding; None: nothing is suggested of it.

    >>> row_of("straggler", "garbage_collection").action, row_of("slowdown", "unknown").action
    ('tune_host', 'inspect_job')
    >>> row_of("straggler", "unknown"), row_of("insufficient_data", "unknown")
    (None, None)
    """
    return FINDING_TABLE.get((kind, cause)) or FINDING_TABLE.get((kind, ""))
