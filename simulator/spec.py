"""What to simulate: the job's shape, its noise, its pauses and its faults.

Rule of this file: frozen data, checked when it is made. Ranks are laid out as Megatron-LM lays them out: tensor
innermost, then data, then pipeline, so rank = (pp x dp_size + dp) x tp_size + tp.
"""

from dataclasses import dataclass, field, replace

from paceline.events import RANK_LIMIT

from .fault import Fault

RANKS_A_NODE = 8
#: Share of a step's own work in each phase; backward takes twice the forward (Kaplan et al. 2020: 2 and 4 flops).
DATA, OPTIMIZER = 0.015, 0.035
#: What a fast network moves in an all-reduce, bytes a second of bus bandwidth.
BUS_BYTES_PER_S = 100e9


class SpecError(ValueError):
    """A job that cannot be: why, on one line."""


@dataclass(frozen=True)
class Noise:
    """How unsteady a healthy job is. All but the tail are standard deviations of log time.

    ``op``: each op of each step; ``device``: one rank against another, for good; ``node``: a node's drift, shared by
    its ranks; ``job``: what all share in a step. ``tail``: how often an op is hit by a hiccup of Pareto (1.5) length.
    """

    op: float = 0.02
    device: float = 0.005
    node: float = 0.005
    job: float = 0.005
    tail: float = 0.002

    def scaled(self, factor: float) -> "Noise":
        """The same, ``factor`` times as large."""
        return Noise(self.op * factor, self.device * factor, self.node * factor, self.job * factor, self.tail * factor)


@dataclass(frozen=True)
class Spec:
    """One job. ``step_s`` is about what a step takes when nothing is wrong, ``communication`` the share of transfers.

    ``uneven`` is the standard deviation of log sequence length, 0 for equal ones. ``stage_skew`` maps a stage to how
    much longer its layers take. ``phases=False`` sends collectives alone, without step numbers, as NCCL's own plugins
    do. Pauses are in steps between and seconds each; 0 is never. Nodes have ``ranks_a_node`` ranks each, the names
    ``node_names`` (none: ``node-0000`` on), hang from switches with ``nodes_a_switch`` each (0: nobody knows), and have
    clocks that are ``clocks_ahead_s`` seconds ahead (none: right).
    """

    ranks: int = 8
    steps: int = 200
    dp: int = 0
    tp: int = 1
    pp: int = 1
    fsdp: bool = False
    step_s: float = 0.5
    microbatches: int = 0
    collectives: int = 1
    communication: float = 0.08
    phases: bool = True
    seed: int = 0
    noise: Noise = field(default_factory=Noise)
    uneven: float = 0.0
    stage_skew: dict[int, float] = field(default_factory=dict)
    rank_skew: dict[int, float] = field(default_factory=dict)
    trend: tuple[tuple[int, float], ...] = ()
    early_exits: float = 0.0
    evaluate_every: int = 0
    evaluate_s: float = 10.0
    checkpoint_every: int = 0
    checkpoint_s: float = 5.0
    faults: tuple[Fault, ...] = ()
    job: str = "simulated"
    attempt: int = 0
    cluster: str = "simulated"
    began_s: float = 1_767_225_600.0
    conditions: bool = True
    ranks_a_node: int = RANKS_A_NODE
    node_names: tuple[str, ...] = ()
    nodes_a_switch: int = 0
    clocks_ahead_s: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "dp", self.dp or max(self.ranks // max(self.tp * self.pp, 1), 1))
        object.__setattr__(self, "microbatches", self.microbatches or (2 * self.pp if self.pp > 1 else 1))
        self._check_shape()
        object.__setattr__(self, "faults", tuple(map(self._placed, self.faults)))
        if not 1e-4 <= self.step_s <= 3600 or self.steps < 1:
            raise SpecError(f"steps {self.steps}, step_s {self.step_s}: at least 1 step, of 0.0001 to 3600 s")
        if not 0 <= self.communication < 0.9:
            raise SpecError(f"communication {self.communication}: a share of the step, 0 to 0.9")
        if self.collectives < 0 or self.microbatches < 1 or not 0 <= self.uneven < 2:
            raise SpecError("collectives from 0, microbatches from 1, uneven 0 to 2")
        for stage, factor in self.stage_skew.items():
            if not 0 <= stage < self.pp or factor <= 0:
                raise SpecError(
                    f"stage skew {stage}={factor}: stages run from 0 to {self.pp - 1}, factors are positive"
                )
        self._check_life()
        for fault in self.faults:
            if fault.kind in ("link", "hang") and not self.collectives:
                raise SpecError(f"a fault of kind {fault.kind} shows in collectives: 1 or more of them a step")
            if any(not 0 <= rank < self.ranks for rank in fault.ranks):
                raise SpecError(f"fault {fault.kind} on ranks {fault.ranks}: ranks run from 0 to {self.ranks - 1}")

    def _check_life(self) -> None:
        if any(not 0 <= rank < self.ranks or factor <= 0 for rank, factor in self.rank_skew.items()):
            raise SpecError(f"rank skew {self.rank_skew}: ranks run from 0 to {self.ranks - 1}, factors are positive")
        points = [step for step, _ in self.trend]
        if points != sorted(set(points)) or any(factor <= 0 for _, factor in self.trend):
            raise SpecError(f"trend {self.trend}: steps ascend, factors are positive")
        if not 0 <= self.early_exits <= 1:
            raise SpecError(f"early exits {self.early_exits}: a share of the steps, 0 to 1")

    def _placed(self, fault: Fault) -> Fault:
        """``fault`` with all the ranks of its nodes and switches."""
        if fault.switches and not self.nodes_a_switch:
            raise SpecError(f"fault {fault.kind} on switches {fault.switches}: say how many nodes hang from each")
        each = self.nodes_a_switch
        nodes = {*fault.nodes, *(switch * each + at for switch in fault.switches for at in range(each))}
        strange = sorted(node for node in nodes if not 0 <= node < self.nodes)
        if strange and (fault.nodes or min(strange) != self.nodes):
            raise SpecError(f"fault {fault.kind} on node {strange[0]}: nodes run from 0 to {self.nodes - 1}")
        mine = {node * self.ranks_a_node + at for node in nodes for at in range(self.ranks_a_node)}
        ranks = tuple(sorted({*fault.ranks, *(rank for rank in mine if rank < self.ranks)}))
        return replace(fault, ranks=ranks, nodes=tuple(sorted(nodes - {*strange})), switches=())

    def _check_shape(self) -> None:
        if min(self.ranks, self.dp, self.tp, self.pp) < 1 or self.ranks >= RANK_LIMIT:
            raise SpecError(f"ranks, dp, tp and pp are 1 or more, and ranks at most {RANK_LIMIT - 1:,}")
        if self.dp * self.tp * self.pp != self.ranks:
            raise SpecError(
                f"dp {self.dp} x tp {self.tp} x pp {self.pp} is {self.dp * self.tp * self.pp}, not {self.ranks} ranks"
            )

    @property
    def own_s(self) -> float:
        """Nominal seconds a step of a rank's work: what transfers and the pipeline's bubble leave of the step."""
        busy = self.microbatches / (self.microbatches + self.pp - 1)
        return self.step_s * (1 - self.communication) * busy

    @property
    def transfer_s(self) -> float:
        """Nominal time in which a step only moves gradients."""
        return self.step_s * self.communication

    @property
    def blocks(self) -> int:
        """How often the ranks meet in a step's forward, and in its backward, where parameters are sharded."""
        return max(self.collectives, 1) if self.fsdp and self.pp == 1 else 1

    @property
    def nodes(self) -> int:
        """How many nodes its ranks need."""
        return -(-self.ranks // self.ranks_a_node)

    def node_name(self, number: int) -> str:
        """What node ``number`` is called."""
        return self.node_names[number] if self.node_names else f"node-{number:04d}"

    def switch_name(self, number: int) -> str | None:
        """What the switch of node ``number`` is called."""
        return f"switch-{number // self.nodes_a_switch}" if self.nodes_a_switch else None

    def steps_within(self, cells: int) -> int:
        """How many steps' work fits into ``cells`` numbers; one at least."""
        return max(cells // self.cells, 1)

    @property
    def cells(self) -> int:
        """About how many numbers the work of one step is."""
        return self.ranks * (2 * self.microbatches * self.blocks + 10)

    def place(self, rank: int) -> tuple[int, int, int]:
        """The rank's dp, tp and pp."""
        return rank // self.tp % self.dp, rank % self.tp, rank // (self.tp * self.dp)
