"""What a worker holds, stores and takes to come back, against ranks and jobs; and what more workers bring."""
