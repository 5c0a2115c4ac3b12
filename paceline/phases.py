"""The phases of a step, and how many steps may go untold between two that are reported.

Rule of this file: constants alone, for it is imported in the user's training process.
"""

#: Phases of a training iteration: disjoint, and they add up to the step.
#: ``prepare`` is the time right before a forward that no loader accounts for: hand-made batches, collation, copies to
#: the device. ``communication`` is time in which the training thread (or CUDA stream) stood waiting for other ranks.
#: ``idle`` is time in which the rank's device had no kernel, though its data was there: it waited for its host. Only
#: what tells of a device's time has it, as a profiler's trace does.
PHASES = (
    "data",
    "prepare",
    "forward",
    "backward",
    "optimizer",
    "communication",
    "evaluation",
    "checkpoint",
    "other",
    "idle",
)
#: Steps that a rank leaves out on purpose between two that it tells, at most.
MOST_LEFT_OUT = 63
