"""Optional packages: a message that says how to install them."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needed(by: str, install: str) -> Iterator[None]:
    """If an import in this block fails, raise ImportError with the command that installs the missing package."""
    try:
        yield
    except ModuleNotFoundError as error:
        if f"{error.name}".startswith("structsvm"):
            raise
        raise ImportError(f"{by} needs {error.name}: pip install {install}", name=error.name) from error
