"""The page templates that are shipped beside this module, filled in with everything escaped."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from specverify.errors import MissingDependencyError
from specverify.report.characters import printable

if TYPE_CHECKING:
    from markupsafe import Markup

__all__ = ["asset", "filled", "trusted"]

_FOLDER = Path(__file__).resolve().parent / "templates"


def asset(name: str) -> str:
    """Text of a shipped style sheet or script."""
    return (_FOLDER / name).read_text(encoding="utf-8")


def trusted(markup: str) -> Markup:
    """Markup of our own making, which must not be escaped."""
    from markupsafe import Markup

    return Markup(markup)


def filled(template: str, **values: Any) -> str:
    """A template with its values; whatever is not :func:`trusted` is escaped.

    Raises:
        MissingDependencyError: If jinja2 is not installed.
    """
    try:
        import jinja2
    except ImportError:
        raise MissingDependencyError("jinja2", "report") from None
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return printable(environment.get_template(template).render(**values))
