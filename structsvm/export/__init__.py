"""Model files, models in the formats of search engines, and PyTerrier stages."""

from typing import TYPE_CHECKING

from structsvm.common.lazy import attach

if TYPE_CHECKING:
    from structsvm.export.card import model_card as model_card
    from structsvm.export.checking import ExportCheck as ExportCheck, check_export as check_export
    from structsvm.export.linear import linear_form as linear_form
    from structsvm.export.model_file import load as load
    from structsvm.export.pyterrier import (
        Diversify as Diversify,
        Fusion as Fusion,
        PyTerrierRanker as PyTerrierRanker,
    )
    from structsvm.export.search_engines import (
        FORMATS as FORMATS,
        export_model as export_model,
        write_export as write_export,
    )
    from structsvm.export.terms import score_difference as score_difference

__getattr__, __dir__, __all__ = attach(__name__)
