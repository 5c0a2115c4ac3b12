"""NCCL Inspector's JSON (NVIDIA/nccl, plugins/profiler/inspector, formats 4.0 to 4.3): its lines, the calls in them."""
