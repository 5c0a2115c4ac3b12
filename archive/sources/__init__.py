"""What is archived beside the bus: a Prometheus for times that the bus missed, and Slurm's accounting."""
