"""How well stragglers are found, on real runs and simulated jobs with known faults, beside other tools' rules."""
