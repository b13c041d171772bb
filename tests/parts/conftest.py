"""Doctests would import the file of toy parts as a module of this package, and so register them for every test."""

collect_ignore = ["toy.py"]
