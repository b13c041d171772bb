"""Text that can be shown and passed on: it gives no orders to a terminal or a page, and does not tell whose it was."""

import getpass
import os
import platform
import re
from pathlib import Path

__all__ = ["duration", "harmless", "nameless", "path_from", "without_places"]

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


def duration(seconds: float) -> str:
    """A time as people say it.

    Examples:
        >>> from halfsure._shown import duration
        >>> duration(12.3), duration(200), duration(4000)
        ('12 s', '3 min 20 s', '1 h 06 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


ABSOLUTE = re.compile(r"(?<![\w.~/\\-])(?:~[\w.-]*|[A-Za-z]:)?[/\\](?:[^\s/\\:;,'\"()]+[/\\])+")
"""The folders of an absolute path, up to its last name."""


def path_from(folder: Path, path: str | os.PathLike[str]) -> str:
    """A path as a run in `folder` may keep it: `../data/x.csv`, or `./x.csv` if the way there tells whose it is.

    It does if it leads through folders that hold the user's home, or by the name of the user, the home or the host.
    """
    whole, base, home = (Path(one).expanduser().resolve() for one in (path, folder, Path.home()))
    try:
        way = Path(os.path.relpath(whole, base))
        shared = Path(os.path.commonpath([whole, base]))
    except ValueError:  # on two drives
        return f"./{nameless(whole)}"
    if shared == Path(shared.anchor) or shared in home.parents or _private() & {*way.parts}:
        return f"./{nameless(whole)}"
    return (
        f"{way.as_posix()}/." if way == Path("..") else way.as_posix() if ".." in way.parts else f"./{way.as_posix()}"
    )


def nameless(path: Path) -> str:
    """What a file or folder is called; somebody's home is only called data."""
    name = path.expanduser().resolve().name
    return "data" if name in _private() else name


def without_places(text: str, *known: Path) -> str:
    """The same text without the folders of absolute paths; `known` are paths that may be in it.

    Examples:
        >>> from halfsure._shown import without_places
        >>> without_places("there is no file /home/alice/data/x.csv; give --test=/srv/y.csv")
        'there is no file x.csv; give --test=y.csv'
    """
    folders = {one for path in (*known, Path.home() / "x", Path.cwd() / "x") for one in (path, path.resolve())}
    for folder in sorted((str(one.parent) for one in folders if one.is_absolute()), key=len, reverse=True):
        text = text.replace(folder.rstrip(os.sep) + os.sep, "") if len(folder) > 1 else text
    text = text.replace(str(Path.home()), "~")
    for name in filter(None, _private()):  # also on a way that is not absolute
        text = re.sub(rf"(?:[^\s'\"=]*[/\\])?(?<![\w.-]){re.escape(name)}[/\\]", "", text)
    return ABSOLUTE.sub("", text)


def _private() -> set[str]:
    """The names of the user, the home and the host."""
    home = Path.home().resolve().name
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):  # a user without a name
        user = home
    return {user, home, platform.node()}
