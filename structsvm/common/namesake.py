"""Another project on the package index is imported by this name, too; two of them in one folder break both."""

from __future__ import annotations

from pathlib import Path

__all__ = ["refuse_namesake"]


def refuse_namesake(package: str) -> None:
    """Raise where another distribution has written into the folder of this package.

    This distribution is called ``structsvm-ranking``; one called ``structsvm`` in the same folder has put its files
    among ours, or ours among its.

    Parameters
    ----------
    package : str
        ``__file__`` of the package.

    Raises
    ------
    ImportError
        With what to do.

    Examples
    --------
    >>> import structsvm
    >>> refuse_namesake(structsvm.__file__)
    """
    folder = Path(package).parent.parent
    for pattern in ("structsvm-*.dist-info", "structsvm-*.egg-info"):
        for record in folder.glob(pattern):
            raise ImportError(
                f"structsvm: another project of this name, {record.stem}, is installed in {folder}, and its files "
                "are mixed with those of structsvm-ranking; keep one of them: pip uninstall structsvm "
                "structsvm-ranking, then pip install structsvm-ranking",
                name="structsvm",
            )
