"""Arithmetic on forms: which monotone function results, in closed form where there is one.

The callers see to it that the arguments are in the domain: finite, not zero, of one sign for powers
and logarithms.
"""

from __future__ import annotations

import math

from specverify.exact.forms import Form

__all__ = ["exp", "log", "over", "plus", "power", "then", "times"]


def then(form: Form, operation: str, constant: float = 0.0) -> Form:
    """The form with one more step in its chain."""
    return form._replace(chain=(*form.chain, (operation, constant)))


def plus(form: Form, constant: float) -> Form:
    """``form + constant``."""
    kind, shift, scale, chain = form
    if not chain and kind in "UEL":
        return Form(kind, shift + constant, scale)
    return then(form, "add", constant)


def times(form: Form, constant: float) -> Form:
    """``form * constant``."""
    kind, shift, scale, chain = form
    if chain:
        return then(form, "multiply", constant)
    return Form(kind, shift if kind in "PQ" else shift * constant, scale * constant)


def over(form: Form, divisor: float) -> Form:
    """``form / divisor``, rounded as a division and not as a product with the reciprocal."""
    kind, shift, scale, chain = form
    if chain:
        return then(form, "multiply", 1.0 / divisor)
    return Form(kind, shift if kind in "PQ" else shift / divisor, scale / divisor)


def power(form: Form, exponent: float) -> Form:
    """``form ** exponent``, for a nonnegative form."""
    kind, shift, scale, chain = form
    if not chain and kind in "UE" and shift == 0:
        return Form("Q" if kind == "U" else "P", exponent, scale**exponent)
    if not chain and kind in "PQ":
        return Form(kind, shift * exponent, scale**exponent)
    return then(form, "power", exponent)


def log(form: Form) -> tuple[Form, bool]:
    """``ln form``, and whether it is to be read at one minus the uniform."""
    kind, shift, scale, chain = form
    if not chain:
        if kind == "U" and shift == 0:
            return Form("E", math.log(scale), -1.0), False
        if kind == "U" and shift == -scale:
            return Form("E", math.log(shift), -1.0), True
        if kind == "E" and shift == 0:
            return Form("L", math.log(scale), 1.0), False
        if kind == "P":
            return Form("L", math.log(scale), shift), False
        if kind == "Q":
            return Form("E", math.log(scale), -shift), False
    return then(form, "log"), False


def exp(form: Form) -> Form:
    """``e ** form``."""
    kind, shift, scale, chain = form
    if not chain and kind == "E":
        return Form("Q", -scale, math.exp(shift))
    if not chain and kind == "L":
        return Form("P", scale, math.exp(shift))
    return then(form, "exp")
