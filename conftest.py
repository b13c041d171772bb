"""What pytest leaves alone where an optional package is missing; `tests/kernels/test_gpu.py` says that it is."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("triton") else ["src/halfsure/kernels/gpu.py", "tests/kernels/in_interpreter.py"]
