"""Pictures of the real runs: how long steps take, and the loss over time."""

from pathlib import Path
from typing import Any

import numpy as np

#: Those that a picture can tell apart; the tables have all.
SHOWN = {"uniform": "#8a8f98", "EWMA speed": "#c2882f", "ours": "#2f6fd0", "oracle": "#2f9e6e"}
#: Steps over which the loss is averaged.
MEAN_OF = 9


def draw(found: dict[str, Any], path: Path) -> None:
    """A row a model: step times where the fastest rank fails slow, and the loss by then."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, rows = pyplot.subplots(max(1, len(found)), 2, figsize=(11, 3.2 * max(1, len(found))), squeeze=False)
    for (kind, parts), (left, right) in zip(found.items(), rows, strict=False):
        runs = parts["slowed in the middle"]
        for name, colour in SHOWN.items():
            if name not in runs:
                continue
            at_s, loss = np.array(runs[name]["at_s"]), np.array(runs[name]["loss"])
            left.plot(np.arange(1, at_s.size), np.diff(at_s) * 1e3, color=colour, label=name, linewidth=1)
            means = np.convolve(loss, np.ones(MEAN_OF) / MEAN_OF, "valid")
            right.plot(at_s[-means.size :], means, color=colour, label=name, linewidth=1)
        left.set(
            title=f"{kind}: the fastest rank three times slower in the middle", xlabel="step", ylabel="step time, ms"
        )
        right.set(title="the same steps over time", xlabel="time, s", ylabel=f"loss, mean of {MEAN_OF} steps")
        right.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
