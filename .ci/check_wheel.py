"""Check what a wheel holds: the package with its type marker and licence, nothing else, and names that cannot clash.

python .ci/check_wheel.py dist/structsvm_ranking-0.1.0-py3-none-any.whl
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path, PurePosixPath


def problems(wheel: Path, source: Path) -> list[str]:
    """Return what is wrong with a wheel, compared with the package in ``source``."""
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    found = []
    tops = {PurePosixPath(name).parts[0] for name in names}
    infos = {top for top in tops if top.endswith(".dist-info")}
    if len(infos) != 1 or not next(iter(infos)).startswith("structsvm_ranking-"):
        found.append(f"expected one structsvm_ranking-*.dist-info, got {sorted(infos)}")
    if extra := tops - infos - {"structsvm"}:
        found.append(f"expected nothing beside the package, got {sorted(extra)}")
    if not any(name.endswith("/LICENSE") for name in names):
        found.append("expected the licence")
    ours = {name for name in names if name.startswith("structsvm/")}
    wanted = {
        path.relative_to(source).as_posix()
        for path in (source / "structsvm").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    if missing := sorted(wanted - ours):
        found.append(
            f"expected all files of the package, {missing[0]} and {len(missing) - 1} more are missing"
        )
    if strange := sorted(ours - wanted):
        found.append(f"expected files of the package only, got {strange[0]} and {len(strange) - 1} more")
    if "structsvm/py.typed" not in ours:
        found.append("expected structsvm/py.typed")
    return found


def main() -> int:
    """Check the wheels named on the command line; the exit code is 1 if something is wrong."""
    source = Path(__file__).resolve().parent.parent
    found = [f"{path}: {problem}" for path in sys.argv[1:] for problem in problems(Path(path), source)]
    print("\n".join(found) or f"{' '.join(sys.argv[1:])}: complete")
    return int(bool(found) or len(sys.argv) < 2)


if __name__ == "__main__":
    raise SystemExit(main())
