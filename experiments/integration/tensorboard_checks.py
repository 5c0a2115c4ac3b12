"""TensorBoard: our event file and the script's, read by its own ``EventAccumulator`` and ``DirectoryWatcher``."""

from pathlib import Path
from typing import Any

from experiments.integration.check import Check, expect, slow_rank, tracked


def _read(folder: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    return EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0}).Reload()


def one_run(folder: Path) -> str:
    """The writer's folder is found; ours is below it, and the script's curve is whole."""
    kept = folder / "runs"
    tracked(folder, ["--track", "auto"], slow_rank("tensorboard", 40.0), {"KEPT_IN": str(kept)})
    return _judged(kept, kept / "paceline")


def named_folder(folder: Path) -> str:
    """``--track tensorboard=DIR``, and a script that writes elsewhere."""
    kept, named = folder / "runs", folder / "named"
    options = ["--track", f"tensorboard={named}"]
    tracked(folder, options, slow_rank("tensorboard", 40.0), {"KEPT_IN": str(kept)})
    return _judged(kept, named / "paceline")


def _judged(theirs: Path, ours: Path) -> str:
    script, paceline = _read(theirs), _read(ours)
    losses = [event.step for event in script.Scalars("loss")]
    expect(losses == list(range(0, 5 * len(losses), 5)) and len(losses) > 3, f"the script's steps: {losses}")
    points = [event.step for event in paceline.Scalars("paceline/step_s")]
    expect(len(points) >= 10 and points == sorted(set(points)), f"points at steps {points}")
    expect("paceline/phase/backward_s" in paceline.Tags()["scalars"], f"tags: {paceline.Tags()}")
    expect(paceline.Scalars("paceline/findings")[-1].value >= 1, "no finding was counted")
    (text,) = paceline.Tensors("paceline/finding")[-1].tensor_proto.string_val
    expect("Rank 1" in text.decode(), f"the finding's text: {text!r}")
    expect(bool(paceline.Tensors("paceline/summary")), "no summary")
    return f"{len(points)} points up to step {points[-1]} in {ours.name}, the script's {len(losses)} where they were"


CHECKS = (Check("tensorboard", one_run), Check("tensorboard-named-folder", named_folder))
