"""Tensors and JSON in one safetensors file, under one checksum: the form of models and checkpoints.

Nothing in such a file can run code, and it claims no more memory than it has bytes.
"""

import errno
import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from halfsure._disk import parse_json, reason
from halfsure.training.errors import RunError

__all__ = ["pack", "unpack"]

KINDS = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.bool: "BOOL"}
KINDS |= {torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8"}
KINDS |= {torch.complex64: "C64"}
CHECKSUM = ', "sha256": '  # always the last entry


def pack(about: dict[str, Any], tensors: dict[str, Tensor]) -> bytes:
    """The content of a file. safetensors' own writer takes three times the memory, and aborts where there is less."""
    if odd := [name for name, x in tensors.items() if x.dtype not in KINDS or x.layout is not torch.strided]:
        raise RunError(f"{odd[0]} cannot be saved: it is {tensors[odd[0]].layout} of {tensors[odd[0]].dtype}")
    aligned = sorted(tensors, key=lambda name: -tensors[name].itemsize)  # the widest first
    try:
        flat = {name: tensors[name].detach().cpu().contiguous() for name in aligned}
    except RuntimeError as error:  # torch's word for too little memory
        raise MemoryError from error
    told, end = json.dumps(about), 0
    header: dict[str, Any] = {"__metadata__": {"halfsure": f'{told[:-1]}{CHECKSUM}"{_digest(told, flat)}"}}'}}
    for name, value in flat.items():
        header[name] = {"dtype": KINDS[value.dtype], "shape": [*value.shape], "data_offsets": [end, end + value.nbytes]}
        end += value.nbytes
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    if len(head) > 10**8:  # safetensors would not read it
        raise OSError(errno.EFBIG, "the evaluations take more than 100 MB")
    return b"".join([len(head).to_bytes(8, "little"), head, *map(_bytes, flat.values())])


def unpack(file: Path) -> tuple[Any, dict[str, Tensor]]:
    """JSON and tensors, whose memory is the file's. What is no such file, or not as written, is a `ValueError`."""
    try:
        with safe_open(file, "pt") as opened:
            text = (opened.metadata() or {}).get("halfsure", "null")
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 - not a dict
    except (SafetensorError, TypeError) as error:  # the other is torch's, of shapes beyond its numbers
        raise ValueError(f"{reason(error):.200}") from None
    if odd := {value.dtype for value in tensors.values()} - KINDS.keys():
        raise ValueError(f"it holds numbers of the kind {odd.pop()}")
    about = parse_json(text.encode())
    told, signed, checksum = text.rpartition(CHECKSUM)
    if signed and checksum != f'"{_digest(told + "}", tensors)}"}}':
        raise ValueError("it is not what was written")
    return about, tensors


def _digest(told: str, tensors: dict[str, Tensor]) -> str:
    """The SHA-256 of all that a file means: no bit of it can change unnoticed."""
    digest = hashlib.sha256(told.encode())
    for name, value in sorted(tensors.items()):
        digest.update(f"\0{name}\0{value.dtype}\0{tuple(value.shape)}\0".encode())
        digest.update(_bytes(value))
    return digest.hexdigest()


def _bytes(tensor: Tensor) -> memoryview:
    return tensor.as_strided([tensor.numel()], [1]).view(torch.uint8).numpy().data
