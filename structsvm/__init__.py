"""Learning to rank with structural SVMs, trained to the exact optimum with a certificate.

Public names are imported on first use, and with them Numba, scikit-learn, cvxpy and matplotlib, so that
``import structsvm`` is fast.

"The thesis" in docstrings is Y. Yue, "New learning frameworks for information retrieval", PhD thesis, Cornell
University, 2011.
"""

from typing import TYPE_CHECKING

from structsvm._version import __version__ as __version__
from structsvm.common.lazy import attach
from structsvm.common.namesake import refuse_namesake

if TYPE_CHECKING:
    from structsvm import (
        clicks as clicks,
        estimators as estimators,
        export as export,
        features as features,
        metrics as metrics,
        online as online,
        oracles as oracles,
        plots as plots,
        protocols as protocols,
        qp as qp,
        readers as readers,
        testing as testing,
        trainers as trainers,
    )
    from structsvm.clicks.svm import ClickSVM as ClickSVM
    from structsvm.common.candidates import CandidateSet as CandidateSet
    from structsvm.estimators.accuracy import AccuracySVM as AccuracySVM
    from structsvm.estimators.co_regularized import CoRegularizedSGD as CoRegularizedSGD
    from structsvm.estimators.cross_validation import StructuralRankerCV as StructuralRankerCV
    from structsvm.estimators.diverse_ranker import DiverseRanker as DiverseRanker
    from structsvm.estimators.diversity import SVMDiv as SVMDiv
    from structsvm.estimators.lambdarank import LambdaRank as LambdaRank
    from structsvm.estimators.ordinal import OrdinalSVM as OrdinalSVM
    from structsvm.estimators.pairwise import PairwiseSVM as PairwiseSVM
    from structsvm.estimators.pairwise_sgd import PairwiseSGD as PairwiseSGD
    from structsvm.estimators.query_folds import QueryKFold as QueryKFold
    from structsvm.estimators.structural import (
        SVMNDCG as SVMNDCG,
        StructuralRanker as StructuralRanker,
        SVMMap as SVMMap,
        SVMRoc as SVMRoc,
    )
    from structsvm.estimators.tree import TreeRanker as TreeRanker, TreeRankerCV as TreeRankerCV
    from structsvm.export.model_file import load as load
    from structsvm.features.input_rows import FeatureScaleWarning as FeatureScaleWarning
    from structsvm.features.scaling import QueryScaler as QueryScaler
    from structsvm.queries import QueryData as QueryData, SingleQueryWarning as SingleQueryWarning

refuse_namesake(__file__)

__getattr__, __dir__, __all__ = attach(__name__)
__all__ += ["__version__"]
