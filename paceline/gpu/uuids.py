"""One name for an AMD GPU, however it is reported, and for any GPU in a cluster.

Rule of this file: pure. ROCm knows a GPU by 16 hexadecimal digits (rocminfo: ``GPU-8af705259683161c``; the kernel:
``unique_id``; AMD SMI: the serial number of the chip). HIP hands them out as the 16 *letters* of a UUID, and PyTorch
writes those letters in hexadecimal: ``38616637-3035-3235-3936-383331363163``. No UUID of NVIDIA's has 16 bytes that are
all such letters.
"""

#: How the UUID of a GPU begins, and that of an instance of a GPU under MIG.
GPU, INSTANCE = "GPU-", "MIG-"
_DIGITS = frozenset(b"0123456789abcdef")
_SERIAL = 16


def canonical(name: str) -> str | None:
    """``name`` as rocminfo writes it where it is an AMD GPU's; any other name as it is; None where it names nothing.

    >>> canonical("GPU-38616637-3035-3235-3936-383331363163")
    'GPU-8af705259683161c'
    >>> canonical("GPU-51ed0000-0000-4000-8000-000000000000"), canonical("cuda:0"), canonical("GPU-XX")
    ('GPU-51ed0000-0000-4000-8000-000000000000', 'cuda:0', None)
    """
    body = name.removeprefix(GPU)
    if body == name:
        return name or None
    if body in ("", "XX", "N/A"):  # ROCm's word for a GPU without one.
        return None
    try:
        letters = bytes.fromhex(body.replace("-", ""))
    except ValueError:
        return name
    if letters.startswith(b"XX\0"):
        return None
    if len(letters) == _SERIAL and set(letters.lower()) <= _DIGITS:
        return GPU + letters.decode("ascii").lower()
    return GPU + body.lower() if len(body) == _SERIAL else name


def in_cluster(node: str, name: str) -> str:
    """The name of a GPU of ``node`` that no other GPU of its cluster has: its UUID, or its name with the node's.

    >>> in_cluster("a", "GPU-8af705259683161c"), in_cluster("a", "gpu 0"), in_cluster("b", "gpu 0")
    ('GPU-8af705259683161c', 'a/gpu 0', 'b/gpu 0')
    """
    return name if name.startswith((GPU, INSTANCE)) else f"{node}/{name}"


def of_serial(serial: str) -> str | None:
    """The name of the GPU whose chip has ``serial``; None where it has none.

    >>> of_serial("0x8AF705259683161C"), of_serial("N/A"), of_serial("0x0000000000000000")
    ('GPU-8af705259683161c', None, None)
    """
    digits = serial.lower().removeprefix("0x")
    try:
        told = int(digits, 16)
    except ValueError:
        return None
    return f"{GPU}{told:016x}" if 0 < told < 1 << 64 else None
