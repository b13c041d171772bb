"""Plain data → HTML, by the templates. Jinja2 escapes every value on its way into them."""

from base64 import b64encode
from functools import cache
from hashlib import sha256

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from halfsure._shown import harmless
from halfsure.report.reading import PARTS
from halfsure.report.wording import listed, percent, signed

__all__ = ["environment", "render"]


def render(template: str | Template, **values: object) -> str:
    """A template, by its name, filled in; no character of the result is an order to whoever shows it."""
    return harmless(environment().get_template(template).render(values))


@cache
def environment() -> Environment:
    """Where templates are found, and how values get into them."""
    made = Environment(
        loader=PackageLoader("halfsure.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    made.filters |= {"digest": _digest, "listed": listed, "part_name": PARTS.get, "percent": percent, "signed": signed}
    return made


def _digest(script: str) -> str:
    """What a Content-Security-Policy knows a script by."""
    return b64encode(sha256(script.encode()).digest()).decode()
