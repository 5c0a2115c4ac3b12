"""What goes to the places where people keep their experiments: MLflow, W&B, TensorBoard.

Rule of this folder: it is a process of its own beside a training command, so that a tracker that is down, slow or
wrong costs the training nothing. Decisions (points, findings, which run gets what, what waits) are pure; each tracker
has one door.
"""
