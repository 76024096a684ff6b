"""Bodies and responses of the API, as types that decode requests and generate the OpenAPI description."""

from typing import Annotated, Any, Literal, get_type_hints

from msgspec import UNSET, Meta, Struct, UnsetType, defstruct, field

from structsvm.online.statistics.analysis import Analysis, PairComparison

MAX_ID = 512
"""Maximum number of characters of an id, the limit of Elasticsearch."""

MAX_IDS = 1000
"""Maximum number of documents in a ranking, and of events in a call."""

MOST = 10**12
"""Largest number that a configuration may hold."""

Id = Annotated[str, Meta(min_length=1, max_length=MAX_ID)]
Part = Annotated[float, Meta(ge=0, le=1)]
Level = Annotated[float, Meta(ge=1e-12, le=1 - 1e-12)]
Count = Annotated[int, Meta(ge=0)]
Number = Annotated[int, Meta(ge=1, le=MOST)]
Reason = Annotated[str, Meta(max_length=1000, description="Reason, kept in the record of changes.")]
Served = Literal["interleaved", "production", "winner"]
State = Literal["draft", "running", "paused", "stopped", "killed"]


def said(text: str) -> Meta:
    """Return a description of a field."""
    return Meta(description=text)


WATCHED = ("first_place", "clickless", "slow", "sample_ratio")
"""Guardrails computed from closed impressions."""


class _Strict(Struct, forbid_unknown_fields=True):
    """A body that allows no additional fields."""


# ---- an experiment ---------------------------------------------------------------------------------------------------


class Guardrails(_Strict):
    """Limits that are monitored while an experiment runs."""

    control: Annotated[bool, said("Whether production's lists outside the share are recorded.")] = True
    clickless_margin: Annotated[Part, said("Margin by which the share of clickless lists may rise.")] = 0.05
    slow_ms: Annotated[float, Meta(ge=0, le=1e7, description="Responses that take longer are slow.")] = 1000
    slow_margin: Annotated[Part, said("Margin by which the share of slow responses may rise.")] = 0.05
    late_limit: Annotated[Part, said("Largest share of late clicks.")] = 0.02
    not_compared_limit: Annotated[Part, said("Largest share of requests whose challenger failed.")] = 0.05
    alpha: Annotated[Level, said("Probability of any false alarm, per guardrail and value of share.")] = 0.001
    on_alarm: Annotated[Literal["alarm", "kill"], said("Effect of an alarm.")] = "alarm"


class Stop(_Strict):
    """Conditions under which an experiment ends automatically."""

    max_impressions: Number | None = None
    on_winner: Annotated[
        Literal["keep", "serve_winner", "serve_production"], said("Effect of a decision.")
    ] = "keep"


class EngineUse(_Strict, omit_defaults=True):
    """The engine of one ranker, and its additions to requests."""

    engine: Annotated[str, said("Name of an engine in the configuration file of the service.")]
    body: Annotated[dict[str, Any], said("Merged into the body.")] = field(default_factory=dict)
    params: Annotated[dict[str, str], said("Parameters of the address.")] = field(default_factory=dict)


class Config(_Strict, kw_only=True):
    """The configuration of an experiment."""

    kind: Annotated[
        Literal["interleaving", "bandit"], said("A bandit chooses which two rankers to compare.")
    ] = "interleaving"
    rankers: Annotated[
        list[Id],
        Meta(
            min_length=2,
            max_length=100,
            description="Names of the rankers; at most 10, or 100 for a bandit.",
            examples=[["prod", "new"]],
        ),
    ]
    production: Annotated[Id | None, said("Ranker that serves other requests; the first by default.")] = None
    # methods whose outcomes have few values, so that the stored statistics stay small
    method: Annotated[Literal["team_draft", "optimized"], said("How lists are merged.")] = "team_draft"
    length: Annotated[int, Meta(ge=1, le=MAX_IDS, description="Maximum number of documents in a list.")] = 10
    share: Annotated[Part, said("Share of units (or of requests without a unit) that take part.")] = 1.0
    window_s: Annotated[float, Meta(ge=0.1, le=604_800, description="Seconds in which clicks count.")] = 1800
    unit: Annotated[Literal["session", "user", "request"], said("What is assigned as a whole.")] = "session"
    alpha: Annotated[Level, said("Probability of a wrong decision, over all looks together.")] = 0.05
    actions: Annotated[
        dict[Id, Literal[0, 1]],
        Meta(
            min_length=1,
            max_length=20,
            description="Accepted actions: 1 counts as a click, 0 is only stored.",
        ),
    ] = field(default_factory=lambda: {"click": 1})
    log_query: Annotated[bool, said("Whether the query text is kept.")] = False
    log_rankings: Annotated[bool, said("Whether the rankings are kept.")] = False
    guardrails: Guardrails = field(default_factory=Guardrails)
    stop: Stop = field(default_factory=Stop)
    engines: Annotated[dict[str, EngineUse] | None, said("For the proxy: the engine of each ranker.")] = None
    policy: Annotated[str | None, said("The bandit's policy: rucb by default.")] = None
    policy_options: Annotated[dict[str, Any] | None, said("Options of the bandit's policy.")] = None
    horizon: Annotated[Number | None, said("Number of duels that the bandit plans for.")] = None


class Revision(_Strict):
    """An experiment and its state."""

    key: str
    revision: Annotated[int, said("Number from 1; a change of meaning starts a new revision.")]
    state: State


class Experiment(Config, kw_only=True):
    """The newest revision of an experiment, with all defaults."""

    key: str
    revision: int
    state: State
    created_at: Annotated[int, said("Milliseconds.")]
    engine_hashes: Annotated[dict[str, str] | None, said("Hash of each engine's settings, by ranker.")] = None


class Experiments(_Strict):
    """All experiments."""

    experiments: list[Experiment]


class SetState(_Strict):
    """The new state of an experiment."""

    to: Annotated[Literal["running", "paused", "stopped", "killed"], Meta(examples=["running"])]
    reason: Reason = ""


class Kill(_Strict):
    """The reason for killing all experiments."""

    reason: Reason = ""


class Killed(_Strict):
    """The experiments that were killed."""

    killed: list[str]


class Acknowledge(_Strict):
    """The alarm to acknowledge; all by default."""

    guardrail: str | None = None
    reason: Reason = ""


class Acknowledged(_Strict):
    """The guardrails that were restarted."""

    acknowledged: list[str]


class Change(_Strict):
    """A change to an experiment, with its time, author and reason."""

    id: int
    at: Annotated[int, said("Milliseconds.")]
    who: Annotated[str, said("Id of the key, or the origin of the change.")]
    key: str
    what: str
    reason: str


class Changes(_Strict):
    """The changes of an experiment, newest first."""

    changes: list[Change]


# ---- lists and clicks ------------------------------------------------------------------------------------------------


_Context = Annotated[
    dict[str, Any] | None,
    Meta(
        description='{"page": 1, "sort": null, "bot": false}; lists sorted by the user '
        "and lists for bots come from production."
    ),
]


class Assign(_Strict):
    """A request whose rankings are to be computed."""

    request_id: Annotated[Id, Meta(examples=["req-7"])]
    unit: Id | None = None
    context: _Context = None


class Assigned(_Strict, omit_defaults=True):
    """The rankings that a request needs."""

    serve: Served
    rankers: Annotated[list[str], said("Rankers whose rankings are needed.")]
    assignment: Annotated[str | None, said("To pass to show; bandits need it.")] = None
    why: Annotated[str | None, said("Why the list is not interleaved; if control, still call show.")] = None


class Show(_Strict):
    """Rankings to merge."""

    request_id: Annotated[Id, Meta(examples=["req-7"])]
    rankings: Annotated[
        dict[str, Annotated[list[Id], Meta(max_length=MAX_IDS)]],
        Meta(
            description="Document ids by ranker, best first.",
            examples=[{"prod": ["d1", "d2", "d3"], "new": ["d2", "d9", "d1"]}],
        ),
    ]
    length: Annotated[Annotated[int, Meta(ge=1)] | None, said("Number of documents on this page.")] = None
    offset: Annotated[int, Meta(ge=0, le=MAX_IDS, description="Number of documents on earlier pages.")] = 0
    unit: Id | None = None
    query: Annotated[Annotated[str, Meta(max_length=2000)] | None, said("Stored only with log_query.")] = None
    assignment: Annotated[str | None, said("Value returned by assign.")] = None
    elapsed_ms: Annotated[
        Annotated[float, Meta(ge=0, le=1e8)] | None, said("Time taken to rank, for the guardrail slow.")
    ] = None
    context: _Context = None

    @property
    def last(self) -> int:
        """Number of documents up to the end of this page."""
        return self.offset + (self.length or 0)


class Shown(_Strict, kw_only=True, omit_defaults=True):
    """The list to show."""

    token: Annotated[str | None, said("Token to send with clicks; null if nothing is recorded.")]
    query_id: Annotated[str | None, said("The token, under its name in UBI.")]
    serve: Served
    why: Annotated[str | None, said("Why the list is not interleaved.")] = None
    documents: Annotated[list[str] | None, said("Null if production's ranking was not given; show it then.")]
    replayed: Annotated[bool, said("Whether the list was shown before under this request id.")]


class Click(Struct):
    """A click on a document, which is identified by its id or its rank."""

    token: Annotated[Any, said("Token of the list.")]
    document: Annotated[Any, said("Id of the document, unless place is given.")] = None
    place: Annotated[Any, said("Rank of the document, from 1, unless document is given.")] = None
    action: Annotated[Any, said("An action that the experiment accepts.")] = "click"
    dwell_s: Annotated[Any, said("Seconds that the user spent on the document.")] = None


class Clicks(Struct):
    """Clicks; an invalid click does not prevent the others from being accepted."""

    events: Annotated[list[Any], Meta(min_length=1, max_length=MAX_IDS)]


class Rejected(_Strict):
    """An event that was not accepted."""

    index: Annotated[int, said("Index of the event, from 0.")]
    code: str


class Taken(_Strict):
    """Numbers of clicks by outcome."""

    accepted: Annotated[Count, said("Recorded now.")] = 0
    duplicate: Annotated[Count, said("Recorded before.")] = 0
    late: Annotated[Count, said("After the window: stored, never counted.")] = 0
    rejected: list[Rejected] = []
    ignored: Annotated[Count | UnsetType, said("UBI events of other lists or other actions.")] = UNSET


# ---- reports ---------------------------------------------------------------------------------------------------------


class Verdict(_Strict):
    """The result, valid at every look."""

    winner: Annotated[str | None, said("The decision, which is final.")]
    sentence: str
    p: float | None = None
    decided_at: Annotated[int | None, said("Number of impressions at the decision.")] = None


def _fields_of(kind: type) -> list[tuple[str, Any, None]]:
    """Return the fields of a dataclass, each of which may be null."""
    return [(name, one | None, None) for name, one in get_type_hints(kind).items()]


_OF_PAIR: Any = defstruct("_OfPair", _fields_of(PairComparison), kw_only=True)
_OF_ANALYSIS: Any = defstruct("_OfAnalysis", _fields_of(Analysis), kw_only=True)


class Pair(_OF_PAIR):
    """Comparison of two rankers; all figures but the always-valid ones assume one look at a fixed number of lists."""


class Guardrail(_Strict, omit_defaults=True):
    """The state of a guardrail."""

    name: str
    alarm: bool
    value: float
    limit: float
    n: int
    text: str
    lower: float | None = None
    upper: float | None = None


class NotCompared(_Strict):
    """Requests whose challenger failed."""

    n: int
    why: dict[str, int]


class Point(_Strict):
    """Statistics after ``n`` impressions, for the pairs of the report."""

    n: int
    at: Annotated[int, said("Milliseconds.")]
    pairs: list[dict[str, float]]


class Player(_Strict):
    """A ranker of a bandit."""

    name: str
    duels: int
    wins: float
    losses: float
    ties: int
    share: Annotated[float, said("Share of the next duels.")]
    in_play: bool


class Bandit(_Strict):
    """The state of a bandit."""

    policy: str
    n_duels: int
    best: str
    rankers: list[Player]
    wins: Annotated[list[list[float]], said("Duels that the row won against the column; ties count half.")]


class Report(_OF_ANALYSIS, kw_only=True):  # type: ignore[call-arg]  # mypy does not know created types
    """Verdict, figures, guardrails and health; other fields describe how the figures were computed."""

    experiment: Experiment
    verdict: Verdict
    winner: Annotated[str | None, said("Winner of the lists counted so far; valid at every look.")]
    winner_p_value: Annotated[float | None, said("p-value that decides the winner.")] = None
    fixed_sample_winner: Annotated[
        str | None, said("Winner if analysed once, at a size fixed in advance.")
    ] = None
    n_impressions: Annotated[Count, said("Impressions whose window is over.")]
    n_clicked: Count
    more_queries: Annotated[float | None, said("Queries until a decision is expected.")] = None
    pairs: list[Pair]
    series: list[Point]
    pending: Annotated[Count, said("Impressions whose window is open.")]
    late: Annotated[Count, said("Clicks after their window.")]
    caution: Annotated[str | None, said("Warning that lists of the same unit are counted as independent.")]
    same: Annotated[Count, said("Lists on which the rankers agreed.")]
    control: Annotated[Count, said("Lists of production alone, for comparison.")]
    not_compared: NotCompared
    guardrails: list[Guardrail]
    bandit: Bandit | None
    as_of_seq: Annotated[int, said("Sequence number of the last counted impression.")]
    as_of: Annotated[int | None, said("When this impression was shown, in milliseconds.")]
    lag_s: Annotated[float, said("Delay of the counting in seconds.")]


class Live(_Strict):
    """Whether the process responds."""

    live: bool


class Ready(_Strict):
    """Whether lists can be recorded and closed, and what prevents it."""

    ready: bool
    writer: bool
    closer: bool
    closing_fails: Annotated[dict[str, str], said("Why experiments cannot be closed.")]
    last_commit_s: float | None
    closer_lag_s: Annotated[float, said("Time that the oldest due impression has waited.")]


class Problem(_Strict):
    """The problem of a refused call."""

    code: Annotated[str, said("One word for programs.")]
    message: Annotated[str, said("One sentence for people.")]


class Error(_Strict):
    """The reason why a call was refused."""

    error: Problem
