"""Random and damaged input for everything that reads: `make fuzz`, and a small part of it in the tests.

    python -m tests.fuzz [--inputs 100000] [--target NAME …] [--seed 0]

A `Target` is a reader with inputs to give it. It has to take an input or to refuse it by the exceptions it promises, in
seconds, within a gigabyte or two, and without touching a file outside the folder it was given.
"""
