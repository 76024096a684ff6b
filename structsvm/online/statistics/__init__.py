"""Who wins, how surely, and how many more queries it takes: test statistics for interleaving logs.

============================ ================================================================================
``click_features``, ``psi``  the fourteen click features of the thesis, and ``Psi`` of every query
``max_mean_difference`` ...  weights for clicks, learned from pairs of rankers whose order is known
``learn_weights``            the same from logs, to keep in a file (``ClickWeights``)
``sign_test`` ...            four tests whether a statistic is centred at zero
``sample_size_curve`` ...    how many queries a p-value needs, by resampling or by the normal approximation
``confidence_sequence`` ...  intervals and p-values that hold however often one looks
``holm`` ...                 p-values of several comparisons
``analyse``                  all of it, for one log
``simulate_log``             a log from labelled data, rankers and a click model
============================ ================================================================================

Names load when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from structsvm.online.statistics.always_valid import ConfidenceSequence, confidence_sequence
    from structsvm.online.statistics.analysis import Analysis, PairComparison, analyse
    from structsvm.online.statistics.click_weights import LEARNERS, ClickWeights, learn_weights
    from structsvm.online.statistics.corrections import benjamini_hochberg, holm
    from structsvm.online.statistics.credited import CreditedLog, credit_log, read_credits
    from structsvm.online.statistics.features import FEATURES, click_features, psi
    from structsvm.online.statistics.learning import inverse_rank_test, inverse_z_test, max_mean_difference
    from structsvm.online.statistics.sample_size import (
        SampleSizeCurve,
        queries_needed,
        sample_size_curve,
    )
    from structsvm.online.statistics.significance import (
        TESTS,
        TestResult,
        sign_test,
        t_test,
        wilcoxon_test,
        z_test,
    )
    from structsvm.online.statistics.simulated_log import simulate_log

__all__ = [
    "FEATURES",
    "LEARNERS",
    "TESTS",
    "Analysis",
    "ClickWeights",
    "ConfidenceSequence",
    "CreditedLog",
    "PairComparison",
    "SampleSizeCurve",
    "TestResult",
    "analyse",
    "benjamini_hochberg",
    "click_features",
    "confidence_sequence",
    "credit_log",
    "holm",
    "inverse_rank_test",
    "inverse_z_test",
    "learn_weights",
    "max_mean_difference",
    "psi",
    "queries_needed",
    "read_credits",
    "sample_size_curve",
    "sign_test",
    "simulate_log",
    "t_test",
    "wilcoxon_test",
    "z_test",
]

_HOME = {
    "FEATURES": "features",
    "LEARNERS": "click_weights",
    "TESTS": "significance",
    "Analysis": "analysis",
    "ClickWeights": "click_weights",
    "ConfidenceSequence": "always_valid",
    "CreditedLog": "credited",
    "PairComparison": "analysis",
    "SampleSizeCurve": "sample_size",
    "TestResult": "significance",
    "analyse": "analysis",
    "benjamini_hochberg": "corrections",
    "click_features": "features",
    "confidence_sequence": "always_valid",
    "credit_log": "credited",
    "holm": "corrections",
    "inverse_rank_test": "learning",
    "inverse_z_test": "learning",
    "learn_weights": "click_weights",
    "max_mean_difference": "learning",
    "psi": "features",
    "queries_needed": "sample_size",
    "read_credits": "credited",
    "sample_size_curve": "sample_size",
    "sign_test": "significance",
    "simulate_log": "simulated_log",
    "t_test": "significance",
    "wilcoxon_test": "significance",
    "z_test": "significance",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
