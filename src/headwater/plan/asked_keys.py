"""The keys by which the instances of a template ask for the rows of its table: what a table that is held by key holds.

By the columns that are compared by `=`; where there are none, by the first that is compared with a list. A column that
is asked for by bounds is no key.
"""

from __future__ import annotations

from headwater.model.value import Row
from headwater.plan.template import Instance, Template


def key_columns(template: Template) -> tuple[str, ...]:
    """None of a template that does not ask by key."""
    return template.keys or _listed(template)


def asked_keys(template: Template, instance: Instance) -> tuple[Row, ...]:
    """The values of these columns that an instance asks for."""
    if template.keys:
        return (instance.keyed(template),)
    listed = _listed(template)
    selected = instance.selected(template)
    return tuple((value,) for one, values in selected if one.op == "in" and (one.column,) == listed for value in values)


def _listed(template: Template) -> tuple[str, ...]:
    return next(((one.column,) for one in template.selectors if one.op == "in"), ())
