"""A safetensors file taken apart and put together byte by byte, and its checksum by the words of the format."""

import hashlib
import json
import struct
from typing import Any

__all__ = ["about", "assembled", "parts", "signed", "with_about"]

KINDS = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "BOOL": "bool", "U8": "uint8"}
KINDS |= {"I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "C64": "complex64"}


def parts(content: bytes) -> tuple[dict[str, Any], bytes]:
    """Its header and the bytes of its tensors."""
    (size,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + size]), content[8 + size :]


def assembled(header: Any, tensors: bytes = b"") -> bytes:
    """A file with this header, whatever that is."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + tensors


def about(content: bytes) -> dict[str, Any]:
    """What it says of its tensors."""
    found: dict[str, Any] = json.loads(parts(content)[0]["__metadata__"]["halfsure"])
    del found["sha256"]  # whoever writes a file can leave it out
    return found


def with_about(content: bytes, told: Any) -> bytes:
    """The same tensors with another meaning, and no checksum."""
    header, tensors = parts(content)
    header["__metadata__"]["halfsure"] = told if isinstance(told, str) else json.dumps(told)
    return assembled(header, tensors)


def signed(content: bytes) -> bytes:
    """The same file under a checksum that is right; what cannot have one stays as it is."""
    try:
        header, tensors = parts(content)
        text = header["__metadata__"]["halfsure"].rpartition(', "sha256": ')[0] + "}"
        text = header["__metadata__"]["halfsure"] if text == "}" else text
        digest = hashlib.sha256(text.encode())
        for name in sorted(header.keys() - {"__metadata__"}):
            kind, shape, (begin, end) = (header[name][key] for key in ("dtype", "shape", "data_offsets"))
            digest.update(f"\0{name}\0torch.{KINDS[kind]}\0{tuple(shape)}\0".encode() + tensors[begin:end])
        header["__metadata__"]["halfsure"] = f'{text[:-1]}, "sha256": "{digest.hexdigest()}"}}'
        return assembled(header, tensors)
    except (ValueError, KeyError, TypeError, AttributeError, struct.error, RecursionError):
        return content
