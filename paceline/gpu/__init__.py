"""GPUs: what NVML answers about one, for every process of ours that asks, and every fact that is NVIDIA's."""
