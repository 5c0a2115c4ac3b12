"""What a mark costs: ``--marks`` of them at once, recorded by the thread that trains and translated by another."""

import time

import torch

from experiments.gpu.scripts.truth import Truth, blocks, options
from paceline import training

#: The other thread sends five times a second: by then it has sent everything.
SENT_S = 2.0


def main() -> None:
    chosen = options(marks=10_000)
    model = blocks(128, 2, chosen.device)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    truth = Truth(chosen.device)

    def train() -> None:
        model(torch.randn(8, 128, device=chosen.device)).square().mean().backward()
        optimizer.step()
        truth.step()

    for _ in range(20):
        train()
    time.sleep(SENT_S)
    idle_s = others_s()
    time.sleep(SENT_S)
    idle_s = others_s() - idle_s
    before_s, start = others_s(), time.perf_counter()
    for _ in range(chosen.marks // 2):
        with training.phase("other"):
            pass
    recorded_s = time.perf_counter() - start
    train()
    time.sleep(SENT_S)
    truth.save(record_s=recorded_s / chosen.marks, translate_s=(others_s() - before_s - idle_s) / chosen.marks)


def others_s() -> float:
    """Processor seconds of this process's other threads."""
    return time.process_time() - time.thread_time()


if __name__ == "__main__":
    main()
