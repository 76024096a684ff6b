"""scikit-learn estimators that wrap the trainers; the numerical work is done in other packages.

The errors that ``input_rows`` raises for invalid rows and labels name the row and the query.
"""

from typing import TYPE_CHECKING

from structsvm.common.lazy import attach

if TYPE_CHECKING:
    from structsvm.estimators.choosing_C import crossed as crossed, select_C as select_C
    from structsvm.estimators.cross_validation import cross_validate_C as cross_validate_C
    from structsvm.estimators.fusion import FusionModel as FusionModel, fusion_path as fusion_path
    from structsvm.estimators.hybrid import HybridWeights as HybridWeights, hybrid_weights as hybrid_weights
    from structsvm.estimators.structural import model_path as model_path
    from structsvm.estimators.view import as_regressor as as_regressor

__getattr__, __dir__, __all__ = attach(__name__)
