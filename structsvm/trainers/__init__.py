"""Trainers: minimise the training objective of a problem and certify the distance to the optimum.

``path`` trains for one C or several, with the trainer that ``choosing_solver`` picks from its table; ``contract``
defines the interface of a trainer; ``certificate`` holds the bounds and decides when training stops; ``passes`` reads
the features through ``row_kernels``.
"""

from typing import TYPE_CHECKING

from structsvm.common.lazy import attach

if TYPE_CHECKING:
    from structsvm.trainers.certificate import (
        CertificateError as CertificateError,
        ConvergenceWarning as ConvergenceWarning,
        Fit as Fit,
        NothingLearnedWarning as NothingLearnedWarning,
    )
    from structsvm.trainers.contract import Options as Options
    from structsvm.trainers.passes import RankingProblem as RankingProblem
    from structsvm.trainers.path import fit_path as fit_path, train as train

__getattr__, __dir__, __all__ = attach(__name__)
