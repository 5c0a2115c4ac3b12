"""Matrix products by type of number: what a device computes in a second.

Rule of this file: PyTorch is an argument. A product of two square matrices of side n is 2 n^3 operations. What a
device or this PyTorch cannot do is an ``UnmeasuredError`` with its reason. On CUDA and ROCm these paths follow the
documented interface and were not run on hardware.
"""

from collections.abc import Callable
from typing import Any

from . import timing
from .target import Target, UnmeasuredError

#: The name of a speed -> PyTorch's name of its type.
TYPES = {
    "gemm_float32": "float32",
    "gemm_tf32": "float32",
    "gemm_bfloat16": "bfloat16",
    "gemm_float16": "float16",
    "gemm_float64": "float64",
    "gemm_fp8": "float8_e4m3fn",
}
#: Sides of matrices, the largest that fits the time is taken.
CPU_SIDES, GPU_SIDES = (128, 256, 512, 1024, 2048), (512, 1024, 2048, 4096, 8192)
#: Compute capabilities from which on NVIDIA's GPUs have TF32 and fp8.
TF32_FROM, FP8_FROM = (8, 0), (8, 9)


def measure(target: Target, name: str, budget_s: float) -> tuple[list[float], str]:
    """Operations a second, a sample each; and how they were measured.

    Raises:
        UnmeasuredError: this device or this PyTorch cannot.
    """
    _refuse(target, name)
    torch = target.torch
    before = torch.get_float32_matmul_precision()
    # "highest" keeps float32 what it says; "high" is TensorFloat-32 on those that have it.
    torch.set_float32_matmul_precision("high" if name == "gemm_tf32" else "highest")
    try:
        return _measured(target, name, budget_s)
    finally:
        torch.set_float32_matmul_precision(before)


def _measured(target: Target, name: str, budget_s: float) -> tuple[list[float], str]:
    sides = GPU_SIDES if target.is_gpu else CPU_SIDES

    def once(side: int) -> float:
        operation = _product(target, name, side)
        target.timer(operation, 1)
        return target.timer(operation, 1)

    side = timing.fitting(sides, once, budget_s)
    seconds = timing.sample(target.timer, _product(target, name, side), budget_s)
    return [2.0 * side**3 / each for each in seconds], f"n = {side}"


def _refuse(target: Target, name: str) -> None:
    torch = target.torch
    if getattr(torch, TYPES[name], None) is None:
        raise UnmeasuredError(f"PyTorch {torch.__version__} has no {TYPES[name]}")
    if name not in ("gemm_tf32", "gemm_fp8"):
        return
    if not target.is_gpu or torch.version.hip:
        raise UnmeasuredError("of NVIDIA GPUs alone")
    needs = TF32_FROM if name == "gemm_tf32" else FP8_FROM
    has = torch.cuda.get_device_capability(target.device)
    if has < needs:
        raise UnmeasuredError(f"compute capability {has[0]}.{has[1]}; it needs {needs[0]}.{needs[1]}")
    if name == "gemm_fp8" and not hasattr(torch.nn.functional, "scaled_mm"):
        raise UnmeasuredError(f"PyTorch {torch.__version__} has no torch.nn.functional.scaled_mm; 2.10 and newer do")


def _product(target: Target, name: str, side: int) -> Callable[[], object]:
    torch, device = target.torch, target.device
    kind = getattr(torch, TYPES[name])
    if name == "gemm_fp8":
        return _fp8_product(torch, device, side)
    left = torch.randn(side, side, device=device, dtype=torch.float32).to(kind)
    right = torch.randn(side, side, device=device, dtype=torch.float32).to(kind)
    out = torch.empty(side, side, device=device, dtype=kind)
    return lambda: torch.mm(left, right, out=out)


def _fp8_product(torch: Any, device: Any, side: int) -> Callable[[], object]:
    """One scale a matrix; the right one lies column by column, as cuBLASLt wants it."""
    functional, kind = torch.nn.functional, torch.float8_e4m3fn
    left = torch.randn(side, side, device=device).to(kind)
    right = torch.randn(side, side, device=device).to(kind).t()
    scale = torch.ones((), device=device, dtype=torch.float32)
    recipe = functional.ScalingType.TensorWise
    return lambda: functional.scaled_mm(
        left, right, scale, recipe, scale, recipe, output_dtype=torch.bfloat16, use_fast_accum=True
    )
