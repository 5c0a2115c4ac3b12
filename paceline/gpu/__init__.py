"""GPUs: what their drivers answer about one, for every process of ours that asks, and every fact that is a vendor's."""
