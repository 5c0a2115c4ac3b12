"""Ray's own daemons as two nodes of this machine, and what Paceline says of the training on them."""
