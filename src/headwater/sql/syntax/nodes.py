"""The nodes of a syntax tree that sqlglot has no class for."""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp


class Plus(exp.Unary):
    """`+x`."""


class Joined(exp.Expression):
    """Two sides of FROM. `kind` is inner, left, right or full; `using` a list of identifiers."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "expression": True,
        "kind": True,
        "natural": False,
        "using": False,
        "on": False,
    }


class Hole(exp.Expression):
    """A parameter of a template: `:p1`, `:limit`. It stays in the text."""
