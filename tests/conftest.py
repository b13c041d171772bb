"""Settings every test runs under."""

import signal

import torch
from hypothesis import settings

torch.set_num_threads(1)
# A shared machine can be slow at any moment: no deadline. The same examples on every run: a failure is a failure.
settings.register_profile("short", deadline=None, derandomize=True, max_examples=50, print_blob=True)
# Rare examples need many tries: `make test-slow` runs every property again, with --hypothesis-profile long.
settings.register_profile("long", settings.get_profile("short"), max_examples=500)
settings.load_profile("short")

# Where tests run in the background, Ctrl-C may come ignored, and what is ignored stays so: here it is to be heard.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
