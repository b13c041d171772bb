"""Text from files, folders and data sets → text that can be shown: it gives no orders to a terminal or a page."""

import re

__all__ = ["harmless"]

# Control characters but for tab and end of line, marks that turn the direction of text around or cannot be seen, line
# separators, and halves of letters. The joiners U+200C and U+200D stay: words of many languages are written with them.
ORDERS = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)


def harmless(text: str) -> str:
    r"""The same text with � for every character that is an order rather than a letter.

    Examples:
        >>> from halfsure._shown import harmless
        >>> harmless("cat\x1b]0;dog\x07")
        'cat�]0;dog�'
    """
    return ORDERS.sub("�", text)
