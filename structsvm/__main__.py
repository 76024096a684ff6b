"""``python -m structsvm``: the command line without an installed script."""

import sys

from structsvm.cli import main

if __name__ == "__main__":
    sys.exit(main())
