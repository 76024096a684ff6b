"""Run the command line by ``python -m structsvm``, without an installed script."""

import sys

from structsvm.cli import main

if __name__ == "__main__":
    sys.exit(main())
