"""Test statistics for interleaving logs: the winner, its significance, and the number of queries needed.

============================ ================================================================================
``click_features``, ``psi``  the fourteen click features of the thesis, and ``Psi`` of every query
``max_mean_difference`` ...  weights for clicks, learned from pairs of rankers of which the better is known
``learn_weights``            weights learned from logs, which can be saved (``ClickWeights``)
``sign_test`` ...            four tests of whether a statistic is centred at zero
``queries_needed``           number of queries to reach a p-value, by the normal approximation
``confidence_sequence`` ...  intervals and p-values that are valid at every look
``holm`` ...                 corrections of p-values for several comparisons
``analyse``                  analysis of one log by all of these methods
``RunningStatistics``        the same analysis for a growing log
``simulate_log``             simulated log from labelled data, rankers and a click model
============================ ================================================================================

A module is imported when one of its names is first used.
"""

from typing import TYPE_CHECKING

from structsvm.common.lazy import attach

if TYPE_CHECKING:
    from structsvm.metrics.tests import holm as holm
    from structsvm.online.evidence.always_valid import (
        ConfidenceSequence as ConfidenceSequence,
        confidence_sequence as confidence_sequence,
    )
    from structsvm.online.statistics.analysis import Analysis as Analysis, analyse as analyse
    from structsvm.online.statistics.click_weights import (
        ClickWeights as ClickWeights,
        learn_weights as learn_weights,
    )
    from structsvm.online.statistics.conversions import ABTest as ABTest, ab_test as ab_test
    from structsvm.online.statistics.credited_log import (
        credit_log as credit_log,
        read_credits as read_credits,
    )
    from structsvm.online.statistics.sample_size import queries_needed as queries_needed
    from structsvm.online.statistics.significance import (
        sign_test as sign_test,
        t_test as t_test,
        wilcoxon_test as wilcoxon_test,
        z_test as z_test,
    )
    from structsvm.online.statistics.simulated_log import simulate_log as simulate_log

__getattr__, __dir__, __all__ = attach(__name__)
