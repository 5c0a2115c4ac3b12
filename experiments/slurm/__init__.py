"""A real Slurm on one machine: two slurmds, jobs as people start them, and what Paceline says of each."""
