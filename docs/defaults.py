"""A Griffe extension: each parameter has its own default where several share an entry of a docstring.

Of "n_layers, d_model : int" Griffe gives both that of the first.
"""

from __future__ import annotations

from typing import Any

from griffe import Class, DocstringSectionParameters, Extension, Function


class OwnDefaults(Extension):
    """Set the defaults that docstrings' parameters are shown with to those of the signature."""

    def on_function(self, *, func: Function, **_: Any) -> None:
        """Of a function or method."""
        _set_defaults(func)

    def on_class(self, *, cls: Class, **_: Any) -> None:
        """Of a class, whose docstring has the parameters of its `__init__`; that of a dataclass is not known yet."""
        if "__init__" in cls.members:
            _set_defaults(cls)


def _set_defaults(documented: Class | Function) -> None:
    if documented.docstring is None:
        return
    defaults = {parameter.name: parameter.default for parameter in documented.parameters}
    for section in documented.docstring.parsed:
        if isinstance(section, DocstringSectionParameters):
            for parameter in section.value:
                if parameter.name in defaults:
                    parameter.value = None if defaults[parameter.name] is None else str(defaults[parameter.name])
