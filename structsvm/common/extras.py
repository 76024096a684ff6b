"""Optional packages: a message that says how to install them."""

from collections.abc import Iterator
from contextlib import contextmanager

SOURCE = "."
"""What pip installs: the folder of the source. The distribution is on no package index, where anyone could register its
name; once it has an address, this is the only line to change."""


def extra(name: str) -> str:
    """Return the arguments of pip for an optional part: its packages, which pip finds from any folder.

    If the source is not installed, the result names the extra and the source folder instead.
    """
    from importlib import metadata  # takes as long as the rest of import structsvm

    try:
        lines = metadata.requires("structsvm-ranking") or []
    except metadata.PackageNotFoundError:
        lines = []
    parts = [line.replace('"', "'").split(";") for line in lines]
    packages = [f"'{part[0].strip()}'" for part in parts if f"extra == '{name}'" in part[-1]]
    return " ".join(packages) or f"'{SOURCE}[{name}]' in the source folder of structsvm"


@contextmanager
def needed(by: str, install: str) -> Iterator[None]:
    """If an import in this block fails, raise ImportError with the command that installs the missing package."""
    try:
        yield
    except ModuleNotFoundError as error:
        if f"{error.name}".startswith("structsvm"):
            raise
        raise ImportError(f"{by} needs {error.name}: pip install {install}", name=error.name) from error
