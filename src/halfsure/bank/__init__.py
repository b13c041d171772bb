"""The bank: pictures and texts through an encoder, once, in plain, weak and strong views; kept on the disk."""

from halfsure.bank.making import banked
from halfsure.bank.mapped_rows import Rows
from halfsure.bank.view import View, views_wanted

__all__ = ["Rows", "View", "banked", "views_wanted"]
