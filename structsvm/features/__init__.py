"""Features from scores, texts and columns: scaling, binning, words, leaves of trees, and fusion without learning.

``smooth_similarity`` smooths the similarities of documents, and ``soft_subtopics`` turns marks into labels.
``binning`` turns scores, such as those of TREC runs (``readers.run_features``), into step functions. ``leaves`` maps
rows to leaves of boosted trees, which are stored as a ``forest``; ``boosters`` reads forests from other libraries.
"""

from typing import TYPE_CHECKING

from structsvm.common.lazy import attach

if TYPE_CHECKING:
    from structsvm.features.binning import BinnedFeatures as BinnedFeatures
    from structsvm.features.fusion import (
        comb_mnz as comb_mnz,
        comb_sum as comb_sum,
        reciprocal_rank_fusion as reciprocal_rank_fusion,
    )
    from structsvm.features.leaves import LeafFeatures as LeafFeatures
    from structsvm.features.marks import soft_subtopics as soft_subtopics
    from structsvm.features.scaling import QueryScaler as QueryScaler
    from structsvm.features.word_counts import smooth_similarity as smooth_similarity
    from structsvm.features.word_features import Level as Level, WordFeatures as WordFeatures

__getattr__, __dir__, __all__ = attach(__name__)
