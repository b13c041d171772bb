"""`python -m halfsure` is the command `halfsure`."""

from halfsure.cli import program

program()
