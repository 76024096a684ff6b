"""Test statistics for interleaving logs: who wins, with what confidence, and how many more queries a decision needs.

============================ ================================================================================
``click_features``, ``psi``  the fourteen click features of the thesis, and ``Psi`` of every query
``max_mean_difference`` ...  weights for clicks, learned from pairs of rankers whose order is known
``learn_weights``            the same from logs, to keep in a file (``ClickWeights``)
``sign_test`` ...            four tests of whether a statistic is centred at zero
``queries_needed``           number of queries a p-value needs, by the normal approximation
``confidence_sequence`` ...  intervals and p-values that are valid at every look
``holm`` ...                 p-values of several comparisons
``analyse``                  all of it, for one log
``RunningStatistics``        the same for a log that grows
``simulate_log``             a log from labelled data, rankers and a click model
============================ ================================================================================

Names load when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from structsvm.common.lazy import attach

if TYPE_CHECKING:
    from structsvm.metrics.significance import holm as holm
    from structsvm.online.statistics.always_valid import ConfidenceSequence as ConfidenceSequence
    from structsvm.online.statistics.always_valid import confidence_sequence as confidence_sequence
    from structsvm.online.statistics.analysis import Analysis as Analysis
    from structsvm.online.statistics.analysis import analyse as analyse
    from structsvm.online.statistics.click_weights import ClickWeights as ClickWeights
    from structsvm.online.statistics.click_weights import learn_weights as learn_weights
    from structsvm.online.statistics.credited_log import credit_log as credit_log
    from structsvm.online.statistics.credited_log import read_credits as read_credits
    from structsvm.online.statistics.sample_size import queries_needed as queries_needed
    from structsvm.online.statistics.significance import sign_test as sign_test
    from structsvm.online.statistics.significance import t_test as t_test
    from structsvm.online.statistics.significance import wilcoxon_test as wilcoxon_test
    from structsvm.online.statistics.significance import z_test as z_test
    from structsvm.online.statistics.simulated_log import simulate_log as simulate_log

__getattr__, __dir__, __all__ = attach(__name__)
