"""A pipeline that cuts itself again: 1F1B on torch.distributed.pipelining, from an even cut to the best one.

    torchrun --standalone --nproc-per-node 4 -m paceline.balance.pipeline_example
    torchrun --standalone --nproc-per-node 4 -m paceline.balance.pipeline_example --slow-rank 1 --factor 3

After some steps it measures its layers and devices, writes a checkpoint, and goes on from it by another cut where that
pays. Everything is built again from the checkpoint, by the very way a later start takes (give it ``--checkpoint`` and
start it again), so losses are those of a run that never stopped.

Rule of this file: an ordinary script, as a user would write it, to be copied; what decides is in ``recut``, what
measures in ``layer_costs``, what writes in ``layer_checkpoint``. On a CPU a layer computes a little and then waits,
as a host waits for its device, so that stages need no core each. On CUDA it computes only.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

from paceline.balance import layer_checkpoint
from paceline.balance.layer_checkpoint import Checkpoint, CheckpointError, shape_of
from paceline.balance.layer_costs import LayerCosts, gathered, reference_s
from paceline.balance.recut import Measurement, Recut, Terms, alone_s, bubble, even, recut, slowness
from paceline.balance.stages import stages_s
from paceline.balance.worker import SplitError

WIDTH, ROWS = 32, 4
#: Of a layer's time so much is the way there; the way back is twice as much.
FORWARD = 1 / 3
#: Steps that are timed before it measures and after it went on; the first ones after a start are left out.
WARM_UP = 2


class Waits(torch.autograd.Function):
    """Waits on the way there, and twice as long on the way back."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, wait_s: float) -> torch.Tensor:
        """The same numbers, later."""
        ctx.wait_s = wait_s
        time.sleep(wait_s)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        """The same gradients, later."""
        time.sleep(2 * ctx.wait_s)
        return gradients[0], None


class Layer(nn.Module):
    """A residual block that takes ``cost_ms`` there and back besides what it computes."""

    def __init__(self, cost_ms: float, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)  # the same layer has the same weights on whichever stage it is
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.wait_s = cost_ms * FORWARD / 1e3

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Adds to what comes in."""
        out = x + self.down(nn.functional.gelu(self.up(x)))
        return Waits.apply(out, self.wait_s) if self.wait_s else out  # type: ignore[no-any-return]


class Training:
    """One start of the training, with one cut, from the beginning or from a checkpoint, until it ends or cuts again."""

    def __init__(self, options: argparse.Namespace, cut: list[int], found: Checkpoint | None) -> None:
        began = time.perf_counter()
        self.options, self.cut = options, cut
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.device = torch.device(options.device, self.rank) if options.device == "cuda" else torch.device("cpu")
        self.step = found.step if found else 0
        self.first = sum(cut[: self.rank])
        total = len(options.costs_ms)
        slow = options.factor if self.rank == options.slow_rank else 1.0
        model = [Layer(slow * cost, seed) for seed, cost in enumerate(options.costs_ms)]
        self.shapes = [shape_of(layer) for layer in model]
        self.parameters = [sum(one.numel() for one in layer.parameters()) for layer in model]
        self.layers = {index: model[index].to(self.device) for index in range(self.first, self.first + cut[self.rank])}
        # like the layers that decide: a small one tells more of what a call costs than of the device
        self.reference = Layer(slow * max(options.costs_ms), total).to(self.device)
        stage = nn.Sequential(*self.layers.values())
        self.optimizer = torch.optim.AdamW(stage.parameters(), lr=1e-3)
        if found:
            layer_checkpoint.load(found, self.layers, self.optimizer, shapes=self.shapes)
        pipeline = PipelineStage(stage, self.rank, self.world, self.device)
        self.schedule = Schedule1F1B(pipeline, options.microbatches, loss_fn=nn.functional.mse_loss)
        self.took_s: list[float] = []
        self.losses: dict[int, float] = {}
        dist.barrier()
        self.start_s = time.perf_counter() - began

    def run(self) -> Recut | None:
        """Trains; what was decided where it measured on the way, None where it came to the end."""
        while self.step < self.options.steps:
            if self.step == self.options.measure_at and not self.options.no_recut:
                decided = self.decide()
                self.options.no_recut = True
                if decided.pays:
                    return decided
            self.took_s.append(self.train())
        return None

    def train(self) -> float:
        """One step; its seconds."""
        dist.barrier()
        began = time.perf_counter()
        chance = torch.Generator().manual_seed(self.step)  # a batch is its step's, whoever asks
        x, y = (torch.randn(self.options.microbatches * ROWS, WIDTH, generator=chance) for _ in range(2))
        losses: list[torch.Tensor] = []
        given = [x.to(self.device)] if self.rank == 0 else []
        if self.rank == self.world - 1:
            self.schedule.step(*given, target=y.to(self.device), losses=losses)
            self.losses[self.step] = float(torch.stack(losses).detach().mean())
        else:
            self.schedule.step(*given)
        self.optimizer.step()
        self.optimizer.zero_grad()
        dist.barrier()
        self.step += 1
        return time.perf_counter() - began

    def decide(self) -> Recut:
        """Measures layers and devices during one more step, and says by which cut to go on."""
        costs = LayerCosts(list(self.layers.values()), self.device)
        with costs.sampling():
            self.train()
        layers_s, errors_s = costs.seconds()
        reference = reference_s(self._reference, self.device)
        began = time.perf_counter()
        self.saved, size = self.save()
        save_s = time.perf_counter() - began
        total = len(self.shapes)
        own = self.rank, self.world, self.device
        seen = Measurement(
            gathered(layers_s, self.first, total, self.device),
            gathered(errors_s, self.first, total, self.device),
            gathered([reference[0]], *own),
            gathered([reference[1]], *own),
            _most(self.usual_s(), self.device),
        )
        terms = Terms(
            self.options.microbatches,
            self.parameters,
            self.left,
            self.options.restart_s + _most(self.start_s, self.device),
            _least(size / save_s, self.device),
        )
        decided = recut(seen, self.cut, terms)
        self.tell(seen, decided)
        return decided

    def save(self) -> tuple[Checkpoint, int]:
        """A checkpoint of all ranks."""
        root = Path(self.options.checkpoint)
        return layer_checkpoint.save(root, self.step, self.cut, self.layers, self.optimizer, shapes=self.shapes)

    @property
    def left(self) -> int:
        """Steps in which a new cut can pay."""
        return int(max(self.options.horizon, self.options.steps - self.step))

    def usual_s(self) -> float:
        """The median step since this start."""
        return statistics.median(self.took_s[WARM_UP:] or self.took_s or [float("nan")])

    def tell(self, seen: Measurement, decided: Recut) -> None:
        """What was measured and decided, in words."""
        try:
            slow, layers_s = slowness(seen.references_s), alone_s(seen, self.cut)
        except SplitError:
            say(f"step {self.step}: {decided.why}")
            return
        each = bubble(stages_s(layers_s, slow, self.cut), self.options.microbatches, seen.step_s)
        say(f"cut {self.cut}: a step takes {seen.step_s * 1e3:.0f} ms, of which stages wait {each:.0%}")
        say(f"layers, ms a micro-batch: {' '.join(f'{one * 1e3:.1f}' for one in layers_s)}")
        say(f"devices, times slower: {' '.join(f'{one:.2f}' for one in slow)}")
        move = decided.move
        say(
            f"best cut {decided.best}: {decided.step_s[1] * 1e3:.0f} ms expected, {decided.gain:+.0%} steps a second "
            f"(noise {decided.noise:.1%}); it costs {move.cost_s:.2f} s, "
            f"which pays after {move.break_even_steps:.0f} of {self.left} steps"
        )
        say(f"step {self.step}: {decided.why}")

    def _reference(self) -> None:
        x = torch.ones(ROWS, WIDTH, device=self.device, requires_grad=True)
        self.reference(x).sum().backward()
        self.reference.zero_grad()


def train(options: argparse.Namespace) -> None:
    """From the beginning, or from the newest checkpoint, to the last step."""
    found = layer_checkpoint.newest(Path(options.checkpoint))
    cut = even(len(options.costs_ms), dist.get_world_size())
    if found and len(found.cut) == dist.get_world_size():
        cut = found.cut
    if found:
        say(f"goes on at step {found.step} from {found.folder}")
    training = Training(options, cut, found)
    losses: dict[int, float] = training.losses
    decided = training.run()
    if decided:
        before_s = decided.step_s[0]
        began = time.perf_counter()
        found = layer_checkpoint.cut_anew(training.saved, decided.after)
        del training  # nothing is carried over but what the checkpoint holds
        training = Training(options, found.cut, found)
        say(f"restarted from {found.folder.name} in {time.perf_counter() - began:.2f} s, cut {found.cut}")
        training.run()
        losses.update(training.losses)
        if training.took_s:
            after_s = _most(training.usual_s(), training.device)
            got = f"{before_s / after_s - 1:+.0%} steps a second, {decided.gain:+.0%} expected"
            say(f"a step takes {after_s * 1e3:.0f} ms: {got}")
    if options.losses and dist.get_rank() == dist.get_world_size() - 1:
        Path(options.losses).write_text(json.dumps(losses))
    if options.keep_last:
        training.save()
    say(f"trained to step {training.step}")


def _most(value: float, device: torch.device) -> float:
    """The largest of all ranks' numbers; NaN where one is."""
    return max(gathered([value], dist.get_rank(), dist.get_world_size(), device), key=lambda one: (one != one, one))


def _least(value: float, device: torch.device) -> float:
    return min(gathered([value], dist.get_rank(), dist.get_world_size(), device))


def shared_folder(at_end: contextlib.ExitStack, device: str) -> str:
    """A folder that rank 0 makes and removes at the end; its name goes to all as bytes."""
    name = b""
    if dist.get_rank() == 0:
        name = os.fsencode(at_end.enter_context(tempfile.TemporaryDirectory(prefix="paceline-pipeline-")))
    told = torch.zeros(4096, dtype=torch.uint8)
    told[: len(name)] = torch.tensor(list(name), dtype=torch.uint8)
    told = told.to(device)
    dist.broadcast(told, 0)
    return os.fsdecode(bytes(told.tolist()).rstrip(b"\0"))


def say(text: str) -> None:
    """On rank 0 only."""
    if dist.get_rank() == 0:
        print(text, flush=True)


def options_of(arguments: list[str]) -> argparse.Namespace:
    """The command line, read and checked."""
    parser = argparse.ArgumentParser(
        prog="pipeline_example",
        description="A pipeline that measures its layers and moves them between stages where that saves time.",
        epilog="example: torchrun --standalone --nproc-per-node 4 -m paceline.balance.pipeline_example --slow-rank 1",
    )
    costs = "6,6,6,2,2,2,2,2,2,2,2,2"
    parser.add_argument("--steps", type=int, default=60, help="of training (60)")
    parser.add_argument("--microbatches", type=int, default=8, help="of a step, at least as many as ranks (8)")
    parser.add_argument("--costs-ms", default=costs, help=f"of each layer there and back, a micro-batch ({costs})")
    parser.add_argument("--slow-rank", type=int, default=-1, help="a rank whose device is slower (none)")
    parser.add_argument("--factor", type=float, default=2.0, help="by how much (2)")
    parser.add_argument("--measure-at", type=int, default=12, help="the step at which it measures (12)")
    parser.add_argument("--horizon", type=int, default=0, help="steps in which it can pay, where later starts go on")
    parser.add_argument("--restart-s", type=float, default=0.0, help="what a restart costs besides building the stages")
    parser.add_argument("--checkpoint", default="", help="folder of checkpoints, to go on from (a temporary one)")
    parser.add_argument("--keep-last", action="store_true", help="write a checkpoint at the end, too")
    parser.add_argument("--losses", default="", help="file for the loss of each step")
    parser.add_argument("--no-recut", action="store_true", help="keep the cut, to compare with")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="on which it trains (cpu)")
    options = parser.parse_args(arguments)
    try:
        options.costs_ms = [float(one) for one in options.costs_ms.split(",")]
    except ValueError:
        parser.error(f"--costs-ms {options.costs_ms!r}: it takes numbers with commas between them")
    if not all(0 <= one <= 1000 for one in options.costs_ms) or not 1 <= options.factor <= 100:
        parser.error("--costs-ms are from 0 to 1000, and --factor is from 1 to 100")
    if not 0 <= options.steps <= 10**6 or not 0 <= options.horizon <= 10**9 or not 0 <= options.restart_s <= 1e6:
        parser.error("--steps and --restart-s are from 0 to 1000000, and --horizon is from 0 to 1000000000")
    if not 1 <= options.measure_at <= 10**6 or not -1 <= options.slow_rank <= 10**6:
        parser.error("--measure-at is from 1 to 1000000, and --slow-rank is a rank, or -1 for none")
    if options.device == "cuda" and (any(options.costs_ms) or options.slow_rank >= 0):
        parser.error("on cuda layers compute and do not wait: give --costs-ms 0,0,0,… and no --slow-rank")
    return options


def main() -> None:
    """Trains as the command line says; run it by torchrun."""
    options = options_of(sys.argv[1:])
    if "RANK" not in os.environ:
        sys.exit("start it by torchrun: torchrun --standalone --nproc-per-node 4 -m paceline.balance.pipeline_example")
    torch.set_num_threads(1)
    world = int(os.environ["WORLD_SIZE"])
    if options.microbatches < world or options.microbatches > 4096:
        sys.exit(f"--microbatches {options.microbatches}: 1F1B needs at least one a stage, {world}, and 4096 at most")
    if options.slow_rank >= world:
        sys.exit(f"--slow-rank {options.slow_rank}: there are ranks 0 to {world - 1}")
    if options.device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if options.device == "cuda" else "gloo", timeout=timedelta(seconds=60))
    try:
        with contextlib.ExitStack() as at_end:
            options.checkpoint = options.checkpoint or shared_folder(at_end, options.device)
            train(options)
    except (CheckpointError, SplitError) as error:
        sys.exit(f"pipeline_example: {error}")
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
