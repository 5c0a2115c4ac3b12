"""Which frames of a stack are the user's, and which place of the code to name.

Rule of this file: pure. A frame is the user's unless its file is of the standard library, of an installed package, or
of a library that is named here: py-spy shortens paths, so that ``torch/utils/data/dataloader.py`` is all it says.
"""

import re
import sys
from collections.abc import Iterable, Sequence

from .evidence import Place

_INSTALLED = re.compile(
    r"(?:^|/)(?:site-packages|dist-packages)/|(?:^|/)lib/python3[\d.]*/|^<(?:frozen|string|__array)"
    r"|(?:^|/)megatron/core/rerun_state_machine\.py$"  # Where Megatron's checks raise; it runs from its own checkout.
)
_LIBRARIES = frozenset(
    [
        "distributed_c10d.py",
        "c10d_logger.py",
        "torch",
        "torchvision",
        "torchaudio",
        "torchrun",
        "fsspec",
        "s3fs",
        "gcsfs",
        "numpy",
        "pandas",
        "pyarrow",
        "PIL",
        "cv2",
        "webdataset",
        "datasets",
        "transformers",
        "accelerate",
        "deepspeed",
        "lightning",
        "pytorch_lightning",
        "lightning_fabric",
        "ray",
        "apex",
        "xformers",
        "flash_attn",
        "triton",
        "tqdm",
        "wandb",
        "mlflow",
        "requests",
        "urllib3",
        "aiohttp",
        "boto3",
        "botocore",
        "h5py",
        "zarr",
        "streaming",
        "megatron",
        "nemo",
        "peft",
        "trl",
        "colossalai",
        "fairscale",
        "tensorboard",
        "safetensors",
        "huggingface_hub",
        "tokenizers",
        "sklearn",
        "scipy",
        "paceline",
    ]
)
_COLLECTIVE = re.compile(
    r"^(?:all_reduce|all_gather\w*|_all_gather_base|reduce_scatter\w*|_reduce_scatter_base|broadcast\w*|barrier|"
    r"monitored_barrier|reduce|gather\w*|scatter\w*|all_to_all\w*|send\w*|recv\w*|isend|irecv|batch_isend_irecv|"
    r"all_reduce_coalesced|_wait_for\w*)$"
)


#: Parts of PyTorch that may take minutes while other ranks wait.
_WORK = (
    (
        re.compile(r"(?:^|/)(?:torch/serialization\.py|torch/distributed/checkpoint/|safetensors/)"),
        "saves or loads a checkpoint",
    ),
    (re.compile(r"(?:^|/)(?:torch/(?:_dynamo|_inductor|_functorch)/|triton/)"), "compiles"),
    (re.compile(r"(?:^|/)torch/nn/modules/module\.py"), "runs a model"),
)


def is_library(file: str) -> bool:
    """Whether a file is not the user's.

    >>> is_library("torch/utils/data/dataloader.py"), is_library("selectors.py"), is_library("/workspace/train.py")
    (True, True, False)
    """
    if _INSTALLED.search(file):
        return True
    if file.startswith("/"):
        return False
    head = file.partition("/")[0]
    return head in _LIBRARIES or head.removesuffix(".py") in sys.stdlib_module_names


def users(frames: Iterable[Place]) -> list[Place]:
    """The user's frames, in their order."""
    return [frame for frame in frames if not is_library(frame.file)]


def innermost(frames: Sequence[Place]) -> Place | None:
    """The user's innermost frame of a stack whose innermost frame comes first."""
    own = users(frames)
    return own[0] if own else None


def waits_in_collective(frames: Sequence[Place]) -> str:
    """The collective of PyTorch's that a stack stands in, or ""."""
    for frame in frames:
        if not is_library(frame.file):
            return ""
        if "torch/distributed" in frame.file and _COLLECTIVE.match(frame.function):
            return frame.function
    return ""


def waits_for_device(frames: Sequence[Place]) -> str:
    """The function of PyTorch's in which a stack waits for its GPU, or "": on a GPU that is how a collective is waited
    for."""
    frame = frames[0] if frames else None
    waits = frame is not None and frame.function == "synchronize" and re.search(r"(?:^|/)torch/cuda/", frame.file)
    return frame.function if frame is not None and waits else ""


def works_at(frames: Sequence[Place]) -> str:
    """What a stack seems to work at, though it may be stuck there: a checkpoint, compiling, a model; or "".

    >>> works_at([Place("torch/serialization.py", 944, "save"), Place("train.py", 80, "main")])
    'saves or loads a checkpoint'
    """
    for frame in frames:
        for path, work in _WORK:
            if path.search(frame.file):
                return work
    return ""


def in_loader(frames: Sequence[Place]) -> bool:
    """Whether a stack waits for a worker of a data loader."""
    return any(frame.file.endswith("torch/utils/data/dataloader.py") for frame in frames)


def full(place: Place, known: Iterable[str]) -> Place:
    """``place`` with its whole path, where exactly one path of ``known`` ends with it."""
    if place.file.startswith("/"):
        return place
    ends = "/" + place.file
    paths = {path for path in known if path.startswith("/") and path.endswith(ends)}
    return Place(paths.pop(), place.line, place.function) if len(paths) == 1 else place
