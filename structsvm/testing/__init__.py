"""Checks that every part of a kind must pass; run them on your own oracle, ranker, bandit, interleaver or user too.

Each raises an ``AssertionError`` that says what does not hold, and returns nothing when all is well.
"""

from __future__ import annotations

from structsvm.testing.bandits import check_bandit
from structsvm.testing.clicks import check_click_model
from structsvm.testing.interleavers import check_interleaver
from structsvm.testing.oracles import check_oracle
from structsvm.testing.rankers import check_ranker

__all__ = ["check_bandit", "check_click_model", "check_interleaver", "check_oracle", "check_ranker"]
