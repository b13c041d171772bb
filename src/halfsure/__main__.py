"""`python -m halfsure` is the command `halfsure`."""

import sys

from halfsure.cli import main

sys.exit(main())
