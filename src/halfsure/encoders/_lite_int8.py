"""An EfficientNet-Lite in whole numbers of eight bits, by onnxruntime.

What the numbers of a layer may be is measured on 24 crops of the two photographs that come with scikit-learn: the same
everywhere. On 1,200 photographs at 224 pixels the cosine to float32 is 0.992 in the mean and 0.837 at worst; logistic
regression on 60 labels, five draws, errs on 13.7 % by int8 and on 13.5 % by float32.
"""

import os
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from halfsure.encoders.squares import square

__all__ = ["calibration_pictures", "in_int8"]

CROPS = 12
"""Of each photograph."""


def calibration_pictures(side: int) -> NDArray[np.uint8]:
    """Crops of photographs, at places and of sizes that a formula spreads. → (24, side, side, 3)."""
    from sklearn.datasets import load_sample_images  # noqa: PLC0415 - slow to import

    found = []
    for photograph in load_sample_images().images:
        height, width, _ = photograph.shape
        for number in range(CROPS):
            part = round(min(height, width) * (1 - 0.7 * number / CROPS))
            top = (height - part) * (number * 5 % CROPS) // CROPS
            left = (width - part) * (number * 7 % CROPS) // CROPS
            found.append(square(photograph[top : top + part, left : left + part], side, 1.0))
    return np.stack(found)


class _Reader:
    """Pictures one by one, as onnxruntime's calibration asks for them."""

    def __init__(self, pictures: NDArray[np.float32]) -> None:
        self._left: Iterator[Any] = ({"pictures": one[None]} for one in pictures)

    def get_next(self) -> Any:
        return next(self._left, None)


def in_int8(graph: bytes, pictures: NDArray[np.float32]) -> bytes:
    """A graph with its weights, and what flows between its nodes, as whole numbers; pictures (n, 3, side, side)."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static  # noqa: PLC0415
    from onnxruntime.quantization.shape_inference import quant_pre_process  # noqa: PLC0415

    CalibrationDataReader.register(_Reader)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given, ready, done = (os.fspath(Path(folder) / name) for name in ("given.onnx", "ready.onnx", "done.onnx"))
        Path(given).write_bytes(graph)
        quant_pre_process(given, ready, skip_symbolic_shape=True)
        quantize_static(
            ready,
            done,
            _Reader(pictures),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )
        return Path(done).read_bytes()
