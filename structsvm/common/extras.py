"""Optional packages: a message that says how to install them."""

from collections.abc import Iterator
from contextlib import contextmanager

SOURCE = "."
"""What pip installs: the folder of the source. The distribution is on no package index, where anyone could register its
name; once it has an address, this is the only line to change."""


def extra(name: str) -> str:
    """Return the argument of pip for an optional part, such as ``'.[trees]'``, and the folder to call it in."""
    return f"'{SOURCE}[{name}]' in the source folder of structsvm"


@contextmanager
def needed(by: str, install: str) -> Iterator[None]:
    """If an import in this block fails, raise ImportError with the command that installs the missing package."""
    try:
        yield
    except ModuleNotFoundError as error:
        if f"{error.name}".startswith("structsvm"):
            raise
        raise ImportError(f"{by} needs {error.name}: pip install {install}", name=error.name) from error
