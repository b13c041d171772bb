"""Settings: every part declares its own; here they are composed, checked, read and listed."""

from halfsure.settings.declare import (
    EVERYDAY,
    PATH,
    Between,
    Count,
    Form,
    Fraction,
    Positive,
    Setting,
    Settings,
    Size,
    declared,
)
from halfsure.settings.registry import Part, find, load_parts, parts, register

__all__ = [
    "EVERYDAY",
    "PATH",
    "Between",
    "Count",
    "Form",
    "Fraction",
    "Part",
    "Positive",
    "Setting",
    "Settings",
    "Size",
    "declared",
    "find",
    "load_parts",
    "parts",
    "register",
]
