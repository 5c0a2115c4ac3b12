"""The demo's training with a run of a tracker open in rank 0: ``slow_rank.py mlflow|wandb|tensorboard OPTIONS``.

Rule of this file: an ordinary script: what it logs of its own is what the checks look for beside ours.
"""

import os
import sys
from collections.abc import Callable
from typing import Any

from torch import nn

from paceline.training import example

KEPT, FIRST = sys.argv.pop(1), os.environ.get("RANK", "0") == "0"
logged = 0


def open_run() -> tuple[Callable[[int, float], Any], Callable[[], Any]]:
    """What the script logs to, as ``log(step, loss)``, and how it is closed."""
    if KEPT == "mlflow":
        import mlflow

        mlflow.start_run(run_name="theirs")
        return lambda step, loss: mlflow.log_metric("loss", loss, step), mlflow.end_run
    if KEPT == "wandb":
        import wandb

        run = wandb.init(project="integration", mode="offline", dir=os.environ["KEPT_IN"])
        return lambda step, loss: run.log({"loss": loss}, step=step), run.finish
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(os.environ["KEPT_IN"])
    return lambda step, loss: writer.add_scalar("loss", loss, step), writer.close


def follow(log: Callable[[int, float], Any]) -> None:
    """Log a loss each five optimizer steps, as a script would, by the loss function that the training calls."""
    compute = nn.functional.cross_entropy

    def cross_entropy(*args: Any, **kwargs: Any) -> Any:
        global logged
        loss = compute(*args, **kwargs)
        if logged % 5 == 0:
            log(logged, float(loss.detach()))
        logged += 1
        return loss

    nn.functional.cross_entropy = cross_entropy


if FIRST:
    log, close = open_run()
    follow(log)
example.main()
if FIRST:
    close()
