"""Pictures in every format that is opened."""

import io
from pathlib import Path

import numpy as np
from hypothesis import strategies as st
from PIL import Image

from halfsure.data import DataError
from halfsure.data.images import decode
from tests.fuzz.strategies import mutated
from tests.fuzz.target import Target

PIXELS = np.arange(5 * 7 * 4, dtype=np.uint8).reshape(5, 7, 4)


def encoded(kind: str, mode: str, **options: object) -> bytes:
    file = io.BytesIO()
    Image.fromarray(PIXELS).convert(mode).save(file, kind, **options)
    return file.getvalue()


def turned() -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 6
    return encoded("JPEG", "RGB", exif=exif)


PICTURES = {
    "PNG": [encoded("PNG", mode) for mode in ("L", "RGB", "RGBA", "P", "1", "LA", "I;16")],
    "JPEG": [encoded("JPEG", "L"), encoded("JPEG", "CMYK"), turned()],
    "GIF": [encoded("GIF", "P"), encoded("GIF", "L")],
    "BMP": [encoded("BMP", "RGB"), encoded("BMP", "P"), encoded("BMP", "1")],
    "TIFF": [
        encoded("TIFF", "RGB"),
        *(encoded("TIFF", "L", compression=way) for way in ("tiff_lzw", "tiff_deflate", "packbits")),
    ],
    "WEBP": [encoded("WEBP", "RGB"), encoded("WEBP", "RGBA", lossless=True)],
    "PPM": [encoded("PPM", "RGB"), encoded("PPM", "L"), b"P2\n2 2\n255\n1 2 3 4\n", b"P1\n2 2\n1 0 0 1\n"],
}


def read(data: bytes, folder: Path) -> None:
    (folder / "a.png").write_bytes(data)
    decode([folder / "a.png"], len(data) % 3 + 3 if len(data) % 2 else None)


TARGETS = [
    *(Target(f"{kind} picture", mutated(*files), read, (DataError,)) for kind, files in PICTURES.items()),
    Target("no picture", st.binary(max_size=60), read, (DataError,)),
]
