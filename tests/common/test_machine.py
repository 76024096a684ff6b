"""Memory that is returned to the system."""

from pathlib import Path

import numpy as np
import pytest

from structsvm.common.machine import return_freed_memory

STATUS = Path("/proc/self/statm")


def resident() -> int:
    """Return the resident memory in MB, counted in pages of 4 kB."""
    return int(STATUS.read_text().split()[1]) * 4096 >> 20


def test_freed_blocks_go_back_to_the_system():
    if not STATUS.exists():
        pytest.skip("no /proc")
    blocks = [np.ones(12_000) for _ in range(2500)]  # of 96 kB each: from the heap
    kept = blocks[::250]  # so that the heap's end stays where it is
    full = resident()
    del blocks
    if not return_freed_memory():
        pytest.skip("the C library has no malloc_trim")
    assert full - resident() > 150
    assert all((block == 1).all() for block in kept)
