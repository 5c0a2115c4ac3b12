"""A rank as people start it by srun or mpirun: who it is comes from the launcher, the rest is the demo's training.

MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 mpirun -n 4 python experiments/slurm/train.py --seconds 10
"""

import os

#: What PyTorch asks for, and what Open MPI, MPICH and Slurm call it; the first that is there.
NAMES = {
    "RANK": ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"),
    "WORLD_SIZE": ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"),
}

if __name__ == "__main__":
    from paceline.training.example import main  # imports PyTorch: whoever reads the names above needs none

    for name, others in NAMES.items():
        os.environ.setdefault(name, next(os.environ[other] for other in others if other in os.environ))
    main()
