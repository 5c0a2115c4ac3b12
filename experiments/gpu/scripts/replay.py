"""A whole training step captured once and replayed: Python sees nothing of it but the replay."""

import resource
from typing import Any

import torch

from experiments.gpu.scripts.truth import Truth, blocks, options

WIDTH = 512


def main() -> None:
    chosen = options(replays=200)
    model = blocks(WIDTH, 6, "cuda")
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    truth, batch = Truth("cuda"), torch.randn(256, WIDTH, device="cuda")

    def step() -> Any:
        optimizer.zero_grad(set_to_none=True)
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(5):
            step()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    torch.cuda.synchronize()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    losses = []
    for number in range(chosen.replays):
        graph.replay()
        truth.step()
        if number % 50 == 0:
            losses.append(float(loss))
    torch.cuda.synchronize()
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    truth.save(losses=losses, grown_mib=grown / 1024)


if __name__ == "__main__":
    main()
