"""From click logs to rankers: propensities, click models, training, counterfactual evaluation and judgments.

A log is read as :class:`ClickCells` (how often each document of a query was shown and clicked at each position);
:func:`harvest` estimates from these counts how often users examine each position. All other functions and classes build
on the counts and on these propensities.
"""

from typing import TYPE_CHECKING

from structsvm.common.lazy import attach

if TYPE_CHECKING:
    from structsvm.clicks.cascades import (
        CascadeModel as CascadeModel,
        ClickChainModel as ClickChainModel,
        DependentClickModel as DependentClickModel,
        DynamicBayesianModel as DynamicBayesianModel,
        SimplifiedDynamicBayesianModel as SimplifiedDynamicBayesianModel,
    )
    from structsvm.clicks.cells import ClickCells as ClickCells
    from structsvm.clicks.evaluation import (
        CounterfactualEstimate as CounterfactualEstimate,
        evaluate_from_clicks as evaluate_from_clicks,
    )
    from structsvm.clicks.holding_out import divide_by_query as divide_by_query
    from structsvm.clicks.interleaving_log import cells_of_log as cells_of_log
    from structsvm.clicks.judging import ClickJudgments as ClickJudgments, judgments as judgments
    from structsvm.clicks.losses import click_weights as click_weights
    from structsvm.clicks.position_based import (
        PositionBasedModel as PositionBasedModel,
        UserBrowsingModel as UserBrowsingModel,
    )
    from structsvm.clicks.propensities import (
        Propensities as Propensities,
        TrustBias as TrustBias,
        harvest as harvest,
        trust_bias as trust_bias,
    )
    from structsvm.clicks.quality import held_out_quality as held_out_quality, model_quality as model_quality
    from structsvm.clicks.reading import read_clicks as read_clicks
    from structsvm.clicks.session_text import read_sessions as read_sessions
    from structsvm.clicks.svm import ClickSVM as ClickSVM, ClickSVMCV as ClickSVMCV
    from structsvm.clicks.tables import read_table as read_table
    from structsvm.clicks.team_drafts import (
        read_team_draft_table as read_team_draft_table,
        read_team_draft_ubi as read_team_draft_ubi,
    )
    from structsvm.clicks.ubi import read_ubi as read_ubi

__getattr__, __dir__, __all__ = attach(
    __name__,
    label={"log": "cells_of_log", "sessions": "read_sessions", "table": "read_table", "ubi": "read_ubi"},
    abbreviation={
        "CCM": "ClickChainModel",
        "DCM": "DependentClickModel",
        "DBN": "DynamicBayesianModel",
        "SDBN": "SimplifiedDynamicBayesianModel",
        "PBM": "PositionBasedModel",
        "UBM": "UserBrowsingModel",
    },
)
