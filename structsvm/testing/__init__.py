"""Checks that every component of a kind must pass; run them on custom oracles, rankers, bandits, interleavers and
users, too.

Each check raises an ``AssertionError`` that describes the violated property, and returns None if all hold.
"""

from typing import TYPE_CHECKING

from structsvm.common.lazy import attach

if TYPE_CHECKING:
    from structsvm.testing.bandits import check_bandit as check_bandit
    from structsvm.testing.clicks import check_click_model as check_click_model
    from structsvm.testing.interleavers import check_interleaver as check_interleaver
    from structsvm.testing.oracles import check_oracle as check_oracle
    from structsvm.testing.problems import (
        check_problem as check_problem,
        check_qp_solver as check_qp_solver,
        check_structured_model as check_structured_model,
    )
    from structsvm.testing.rankers import check_ranker as check_ranker
    from structsvm.testing.selectors import check_selector as check_selector
    from structsvm.testing.worlds import check_world as check_world

__getattr__, __dir__, __all__ = attach(__name__)
