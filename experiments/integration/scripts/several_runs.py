"""One process, several runs of MLflow: one closed early, one after it with a nested one, and steps with none open.

Rule of this file: it says which run was open during which of its optimizer steps, on standard output.
"""

import json
import time

import mlflow
import torch

model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
steps: dict[str, list[int]] = {}
done = 0


def train(name: str, seconds: float = 5.0) -> None:
    """Train for a while under what is open now."""
    global done
    begin, until = done, time.monotonic() + seconds
    while time.monotonic() < until:
        model(torch.randn(8, 64)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        time.sleep(0.05)
        done += 1
    steps[name] = [begin, done]


def run_id() -> str:
    return mlflow.active_run().info.run_id  # type: ignore[no-any-return]


with mlflow.start_run():
    first = run_id()
    train("first")
train("none")
with mlflow.start_run():
    outer = run_id()
    train("outer")
    with mlflow.start_run(nested=True):
        inner = run_id()
        train("inner")
print(json.dumps({"runs": {"first": first, "outer": outer, "inner": inner}, "steps": steps}))
