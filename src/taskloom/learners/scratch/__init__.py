"""Learners trained from scratch. Importing this package registers them; torch is imported only when
one is fitted.
"""

from importlib import import_module as _import_module
from pkgutil import iter_modules as _iter_modules

for _module in _iter_modules(__path__):
    if not _module.ispkg:  # the networks themselves import torch
        _import_module(f"{__name__}.{_module.name}")
