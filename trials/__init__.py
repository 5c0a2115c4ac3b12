"""Trial jobs: short runs of a training command over placements, and which of them is fastest."""
