"""Makes the classes of this package known to Keras by name, without importing Keras or the classes."""

import importlib.machinery
import sys
from collections.abc import Callable, Iterable
from importlib.abc import MetaPathFinder
from typing import Any

_REGISTRY = "keras.src.saving.object_registration"


def register_when_imported(names: Iterable[str], find: Callable[[str], Any]) -> None:
    """Registers classes as Keras' files name them: now, or when Keras is imported.

    The decorator of a class replaces its entry as soon as the class itself is imported.

    Args:
      names: of the classes.
      find: imports the class of a name.
    """

    def register(registry: Any) -> None:
        registry.get_custom_objects().update({f"albert_tf>{name}": _stand_in(name, find) for name in names})

    if _REGISTRY in sys.modules:
        register(sys.modules[_REGISTRY])
    else:
        sys.meta_path.insert(0, _AfterImport(register))


def _stand_in(name: str, find: Callable[[str], Any]) -> type:
    """A class whose `from_config` is that of another one, which it imports."""
    return type(name, (), {"from_config": staticmethod(lambda config: find(name).from_config(config))})


class _AfterImport(MetaPathFinder):
    """Calls a function with the module of Keras' registry once it is imported."""

    def __init__(self, call: Callable[[Any], None]):
        self._call = call

    def find_spec(self, fullname, path, target=None):
        if fullname != _REGISTRY:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec and spec.loader:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                self._call(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
