"""From click logs to rankers: propensities, click models, training, counterfactual evaluation and judgments.

A log is read as :class:`ClickCells` (how often each document of a query was shown and clicked at each position);
:func:`harvest` estimates from these counts how often users examine each position. All other functions and classes build
on the counts and on these propensities.
"""

from typing import TYPE_CHECKING

from structsvm.common.lazy import attach

if TYPE_CHECKING:
    from structsvm.clicks.cascades import CascadeModel as CascadeModel
    from structsvm.clicks.cascades import ClickChainModel as ClickChainModel
    from structsvm.clicks.cascades import DependentClickModel as DependentClickModel
    from structsvm.clicks.cascades import DynamicBayesianModel as DynamicBayesianModel
    from structsvm.clicks.cascades import SimplifiedDynamicBayesianModel as SimplifiedDynamicBayesianModel
    from structsvm.clicks.cells import ClickCells as ClickCells
    from structsvm.clicks.evaluation import CounterfactualEstimate as CounterfactualEstimate
    from structsvm.clicks.evaluation import evaluate_from_clicks as evaluate_from_clicks
    from structsvm.clicks.holding_out import divide_by_query as divide_by_query
    from structsvm.clicks.interleaving_log import cells_of_log as cells_of_log
    from structsvm.clicks.judging import ClickJudgments as ClickJudgments
    from structsvm.clicks.judging import judgments as judgments
    from structsvm.clicks.losses import click_weights as click_weights
    from structsvm.clicks.position_based import PositionBasedModel as PositionBasedModel
    from structsvm.clicks.position_based import UserBrowsingModel as UserBrowsingModel
    from structsvm.clicks.propensities import Propensities as Propensities
    from structsvm.clicks.propensities import TrustBias as TrustBias
    from structsvm.clicks.propensities import harvest as harvest
    from structsvm.clicks.propensities import trust_bias as trust_bias
    from structsvm.clicks.quality import held_out_quality as held_out_quality
    from structsvm.clicks.quality import model_quality as model_quality
    from structsvm.clicks.reading import read_clicks as read_clicks
    from structsvm.clicks.session_text import read_sessions as read_sessions
    from structsvm.clicks.svm import ClickSVM as ClickSVM
    from structsvm.clicks.svm import ClickSVMCV as ClickSVMCV
    from structsvm.clicks.tables import read_table as read_table
    from structsvm.clicks.team_drafts import read_team_draft_table as read_team_draft_table
    from structsvm.clicks.team_drafts import read_team_draft_ubi as read_team_draft_ubi
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
