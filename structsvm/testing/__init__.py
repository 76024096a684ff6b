"""Checks that every part of a kind must pass; run them on your own oracle, ranker, bandit, interleaver or user too.

Each raises an ``AssertionError`` that says what does not hold, and returns nothing when all is well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from structsvm.lazy import attach

if TYPE_CHECKING:
    from structsvm.testing.bandits import check_bandit as check_bandit
    from structsvm.testing.clicks import check_click_model as check_click_model
    from structsvm.testing.interleavers import check_interleaver as check_interleaver
    from structsvm.testing.oracles import check_oracle as check_oracle
    from structsvm.testing.rankers import check_ranker as check_ranker

__getattr__, __dir__, __all__ = attach(__name__, __file__)
