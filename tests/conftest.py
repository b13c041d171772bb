"""Settings every test runs under."""

import torch
from hypothesis import settings

torch.set_num_threads(1)
# A shared machine can be slow at any moment: no deadline. The same examples on every run: a failure is a failure.
settings.register_profile("halfsure", deadline=None, derandomize=True, max_examples=150, print_blob=True)
settings.load_profile("halfsure")
