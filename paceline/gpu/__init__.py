"""What NVML answers about a GPU, for every process of ours that asks: questions, answers, readings, refusals."""
