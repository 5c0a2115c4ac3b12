"""A made-up month of 10,000 GPUs in an archive: how large it is, how soon it answers, and how fast rows come in."""
