"""The host up to ten steps ahead of its device, or, with ``--item 1``, brought back each step by ``.item()``.

When each step really ended is told by a thread that asks the device all the time.
"""

import threading
import time
from collections import deque
from typing import Any

import torch

from experiments.gpu.scripts.truth import Truth, blocks, options

AHEAD = 10


def main() -> None:
    chosen = options(item=0, steps=80)
    width, rows = (2048, 8192) if chosen.device == "cuda" else (256, 256)
    model = blocks(width, 4, chosen.device)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    truth, batch = Truth(chosen.device), torch.randn(rows, width, device=chosen.device)
    watcher = Watcher(on_gpu=truth.on_gpu)
    ends: deque[Any] = deque()
    for _ in range(chosen.steps):
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        truth.step()
        ends.append(watcher.ends())
        optimizer.zero_grad()
        if chosen.item:
            loss.item()
        elif truth.on_gpu and len(ends) > AHEAD:
            ends.popleft().synchronize()
    truth.save(ended_s=watcher.finish())


class Watcher:
    """Notes when the device gets to where the host was."""

    def __init__(self, *, on_gpu: bool) -> None:
        self._on_gpu = on_gpu
        self._open: deque[Any] = deque()
        self._ended_s: list[float] = []
        self._over = False
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def ends(self) -> Any:
        """A step ends here, as far as the host is concerned."""
        if not self._on_gpu:
            self._ended_s.append(time.time())
            return None
        event = torch.cuda.Event()
        event.record()
        self._open.append(event)
        return event

    def finish(self) -> list[float]:
        """When each step ended, in Unix time."""
        if self._on_gpu:
            torch.cuda.synchronize()
        self._over = True
        self._thread.join()
        return self._ended_s

    def _watch(self) -> None:
        while not self._over or self._open:
            while self._open and self._open[0].query():
                self._ended_s.append(time.time())
                self._open.popleft()
            time.sleep(1e-4)


if __name__ == "__main__":
    main()
