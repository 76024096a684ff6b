"""Refuse to run if another project with the import name structsvm is installed in the same folder: each breaks the
other."""

from pathlib import Path

from structsvm.common.extras import SOURCE


def refuse_namesake(package: str) -> None:
    """Raise ImportError if another distribution is installed in the folder of this package."""
    folder = Path(package).parent.parent
    for pattern in ("structsvm-*.dist-info", "structsvm-*.egg-info"):
        for record in folder.glob(pattern):
            raise ImportError(
                f"structsvm: another project of this name, {record.stem}, is installed in {folder}, and its files "
                "are mixed with those of structsvm-ranking; keep one of them: pip uninstall structsvm "
                f"structsvm-ranking, then pip install {SOURCE} in the source folder of this package",
                name="structsvm",
            )
