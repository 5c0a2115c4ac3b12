"""A second of global capture right after training steps, whose events nobody has asked after yet."""

import time

import torch

from experiments.gpu.scripts.truth import Truth, blocks, options

WIDTH = 1024


def main() -> None:
    chosen = options(steps=20)
    model = blocks(WIDTH, 4, "cuda")
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    truth, batch = Truth("cuda"), torch.randn(256, WIDTH, device="cuda")

    def train(steps: int) -> None:
        for _ in range(steps):
            model(batch).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            truth.step()

    train(chosen.steps)
    held, graph = torch.zeros(8, device="cuda"), torch.cuda.CUDAGraph()
    train(chosen.steps)  # Nobody has asked yet whether their events were reached.
    with torch.cuda.graph(graph, capture_error_mode="global"):
        held += 1
        time.sleep(1.0)
        held *= 2
    train(chosen.steps)
    graph.replay()
    callables = torch.cuda.make_graphed_callables(blocks(WIDTH, 2, "cuda"), (batch,))
    callables(batch)
    train(chosen.steps)
    truth.save(replayed=held.tolist())


if __name__ == "__main__":
    main()
