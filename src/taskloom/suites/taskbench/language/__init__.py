"""A small typed language of word and sequence functions: parsing, formatting, types, normal form,
English descriptions.

The nodes of expressions, with one class per operator, are in `operators.py`.

>>> from taskloom.suites.taskbench.language import name, read
>>> name(read("map{λx. union(mother(x), father(x))}"))
'map(union(father, mother))'
"""

from taskloom.suites.taskbench.language.operators import map_filter, name, normal
from taskloom.suites.taskbench.language.parser import (
    ExpressionError,
    parse,
    read,
    read_typed,
    type_of,
)
from taskloom.suites.taskbench.language.printer import (
    LEVELS,
    describe,
    show,
    show_paper,
    show_reference,
)
from taskloom.suites.taskbench.language.types import Type

__all__ = [
    "LEVELS",
    "ExpressionError",
    "Type",
    "describe",
    "map_filter",
    "name",
    "normal",
    "parse",
    "read",
    "read_typed",
    "show",
    "show_paper",
    "show_reference",
    "type_of",
]
