"""A log read as columns: credits equal those of the methods for each impression; repeated lines."""

import gzip
import json
import tracemalloc
from itertools import combinations

import numpy as np
import pytest
from msgspec import structs

from structsvm.common import files
from structsvm.online import clicklog as room, interleaving
from structsvm.online.clicklog import ClickLog, Impression, read_log, write_log
from structsvm.online.interleaving import Shown, crediting
from structsvm.online.interleaving.by_name import NAMES, interleaver
from structsvm.online.statistics import analyse, credit_log, read_credits, simulate_log
from structsvm.online.statistics.features import psi
from structsvm.online.users import CascadeUser
from structsvm.readers import make_ranking
from tests.refusing import refused, rejected

METHODS = [*map(interleaver, NAMES)]
TEAM_DRAFT = interleaving.TeamDraft()
TEAMS = Shown("team_draft", ("a", "b"), 2, ((0, 1),))


def literal(log):
    """Return statistics and outcomes by ``credit`` and ``outcome`` of each impression."""
    method = interleaver(log.method)
    made = {pair: ([], []) for pair in combinations(range(len(log.rankers)), 2)}
    for impression in log.impressions:
        credit = method.credit(impression.shown, impression.clicked)
        outcome = method.outcome(impression.shown, impression.clicked)
        for (i, j), (delta, won) in made.items():
            delta.append(outcome[i, j] if method.draws_outcome else credit[i] - credit[j])
            won.append(outcome[i, j])
    return made


def simulated(method, n, n_rankers=2, *, length=4, **options):
    data = make_ranking(12, 9, 4, grades=3, random_state=2)
    return list(
        simulate_log(
            data,
            data.X[:, :n_rankers],
            method,
            CascadeUser.named("informational", 3),
            n,
            length=length,
            rng=3,
            **options,
        )
    )


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_columns_are_what_the_methods_credit(tmp_path, monkeypatch, method):
    """Columns are equal to the last digit, for several blocks and list lengths, in the order of the file."""
    monkeypatch.setattr(room, "_BLOCK", 4000)
    for n_rankers in (2,) if method.rankings == "2" else (2, 3):
        made = simulated(method, 60, n_rankers, n_users=7)
        made += simulated(method, 40, n_rankers, length=7, n_users=9)
        made = [
            Impression(i.shown.with_impression(k), i.clicks, i.query, None, i.user)
            for k, i in enumerate(made)
        ]
        write_log(tmp_path / "log.jsonl", made)
        log = read_log(tmp_path / "log.jsonl")
        seen = []
        read = read_credits(tmp_path / "log.jsonl", cluster="user", callback=lambda *n, to=seen: to.append(n))
        assert len(seen) > 3
        assert seen[-1] == (100, (tmp_path / "log.jsonl").stat().st_size)
        assert (read.n_impressions, read.n_clicked) == (100, sum(bool(i.clicks) for i in made))
        with monkeypatch.context() as small:
            small.setattr(crediting, "_ENTRIES", 1)  # tables of one impression
            one_by_one = credit_log(log)
        for made_columns in (read, credit_log(log), one_by_one):
            for pair, columns in literal(log).items():
                for own, witness in zip(made_columns.pair(*pair), columns, strict=True):
                    np.testing.assert_array_equal(own, witness)
        users = [i.user for i in made]
        first = list(dict.fromkeys(users))
        np.testing.assert_array_equal(read.codes, [first.index(user) for user in users])
        assert analyse(read, cluster="user") == analyse(log, cluster="user")


def test_unusual_lines_are_read_among_ordinary_ones(tmp_path):
    """Read records as strings, typed and tuple ids, clicks by document, bold words, missing feedback, spaces."""
    texts = []
    for k, impression in enumerate(simulated(TEAM_DRAFT, 60)):
        line = impression.to_dict()
        shown = line["shown"]
        if k % 7 == 1:
            line["shown"] = json.dumps(shown)
        elif k % 7 == 2:
            shown["documents"] = [{"tuple": [d, "x"]} for d in shown["documents"]]
        elif k % 7 == 3:
            line["clicks"] = [{"document": shown["documents"][1]}, {"rank": 1}, {"rank": 1}]
        elif k % 7 == 4:
            line |= {"query_words": 2, "title_bold": [1] * 4, "abstract_bold": [0] * 4}
        elif k % 7 == 5:
            del line["clicks"]
        elif k % 7 == 6:
            shown["evidence"][0][-1] = None
        texts.append(" " * (k % 3) + json.dumps(line) + "\r" * (k % 2))
    path = tmp_path / "log.jsonl"
    path.write_bytes("\n".join(texts).encode())
    for policy in ("skip", "no_click"):
        log = read_log(path, missing_feedback=policy)
        read = read_credits(path, missing_feedback=policy)
        assert (read.n_missing_feedback, read.n_impressions) == (log.n_missing_feedback, len(log.impressions))
        np.testing.assert_array_equal(read.pair(0, 1).delta, literal(log)[0, 1][0])


def test_weighted_clicks_are_those_of_the_features(tmp_path):
    made = simulated(TEAM_DRAFT, 80, 3)
    write_log(tmp_path / "log.jsonl", made)
    w = np.random.default_rng(0).normal(size=14)
    read = read_credits(tmp_path / "log.jsonl", weights=w)
    for i, j in combinations(range(3), 2):
        np.testing.assert_allclose(
            read.pair(i, j).delta, psi(ClickLog.of(made), i, j) @ w, rtol=1e-13, atol=1e-13
        )
    assert analyse(read) == analyse(ClickLog.of(made), weights=w)
    rejected("weights: expected none for a credited log; pass them to read_credits", analyse, read, weights=w)
    rejected("weights: expected 14 finite numbers", read_credits, tmp_path / "log.jsonl", weights=[1.0])


def both_refuse(path, message, **options):
    for read in (read_log, read_credits):
        rejected(message, read, path, **options)


# -- repeated lines ----------------------------------------------------------------------------------------


def lines(tmp_path, *texts):
    path = tmp_path / "log.jsonl"
    path.write_text("".join(text + "\n" for text in texts))
    return path


def line(rank, **keys):
    return json.dumps({"shown": TEAMS.to_dict(), "clicks": [{"rank": rank}]} | keys)


def test_a_repeated_impression_counts_once(tmp_path):
    """This holds if ignored keys differ and if the id is in the record; ids of different types differ."""
    in_record = json.dumps({"shown": TEAMS.with_impression("i1").to_dict(), "clicks": [{"document": "a"}]})
    path = lines(
        tmp_path,
        line(1, impression="i1"),
        line(2, impression=1),
        line(2, impression="1"),
        in_record,
        line(1, impression="i1", server="other"),
        line(1, impression="i2"),
        line(2, impression=1),
    )
    log, read = read_log(path), read_credits(path)
    assert (log.n_repeated, read.n_repeated) == (3, 3)
    assert [i.shown.impression for i in log.impressions] == ["i1", 1, "1", "i2"]
    np.testing.assert_array_equal(read.pair(0, 1).delta, [1, -1, -1, 1])
    assert analyse(read) == analyse(log)
    assert "3 lines repeat the impression id of an earlier one and were left out" in analyse(read).notes
    assert ClickLog.of([*log.impressions, *log.impressions]).n_repeated == 4


@pytest.mark.parametrize(
    "other",
    [
        line(2, impression="i1"),
        line(1, impression="i1", user="u"),
        line(1, impression="i1", shown=TEAMS.to_dict() | {"documents": ["a", "c"]}),
        line(1, impression="i1", clicks=[{"rank": 1}, {"rank": 2}]),
        line(1, impression="i1", shown=TEAMS.to_dict() | {"evidence": [[1, 0]]}),
    ],
)
def test_an_id_of_two_impressions_is_refused(tmp_path, other):
    path = lines(tmp_path, line(1), line(1, impression="i1"), line(2, impression="i0"), other)
    both_refuse(path, r"log\.jsonl:4: .* to agree with .*log\.jsonl:2, got other clicks")


def test_a_list_logged_before_its_clicks_is_one_impression(tmp_path):
    path = lines(tmp_path, json.dumps({"shown": TEAMS.to_dict(), "impression": 7}), line(2, impression=7))
    for log in (read_log(path), read_credits(path)):
        assert (log.n_missing_feedback, log.n_repeated, analyse(log).n_impressions) == (1, 0, 1)
    both_refuse(path, "one line", missing_feedback="no_click")


def test_identical_lines_without_an_id_are_noted_and_kept(tmp_path):
    path = lines(
        tmp_path, *[line(1)] * 2, *[line(2)] * 2, line(1) + "\r", line(2, impression=1), line(2, impression=1)
    )
    log, read = read_log(path), read_credits(path)
    assert (log.n_identical, read.n_identical, log.n_repeated, read.n_repeated) == (3, 3, 1, 1)
    assert analyse(read) == analyse(log)
    assert any(note.startswith("3 lines without an impression id equal") for note in analyse(read).notes)
    assert analyse(read).n_impressions == 6


# -- what is refused, besides what tests/online/test_clicklog.py has -----------------------------------------


@pytest.mark.parametrize("duels", [False, True])
def test_few_impressions_without_the_id_for_clusters_are_left_out(tmp_path, duels):
    """They may be less than one in twenty of the distinct impressions; the others count as without them."""
    among = {"among": ["a", "b", "c"]} if duels else {}
    among["rankers"] = ["a", "b"]
    named = [line(1 + k % 2, user=f"u{k % 7}", impression=k, **among) for k in range(41)]
    without = [line(1 + k % 2, impression=f"w{k}", **among) for k in range(3)]
    path = lines(tmp_path, named[0], without[0], *named[1:], without[1], named[5], without[1])
    read = analyse(read_credits(path, cluster="user"), cluster="user")
    assert read == analyse(read_log(path), cluster="user")
    assert (read.n_impressions, read.n_clusters, read.n_repeated) == (41, 7, 2)
    assert read.notes[0].startswith("2 impressions have no user and were left out")
    rest = analyse(read_credits(lines(tmp_path, *named), cluster="user"), cluster="user")
    assert read.pairs == rest.pairs
    path = lines(tmp_path, named[0], *without, *named[1:])
    for run in (lambda: read_credits(path, cluster="user"), lambda: analyse(read_log(path), cluster="user")):
        refused(r"expected a 'user' in every impression, but .*:2 has none", run)


def test_the_longest_line_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(room, "_LONGEST", 500)
    path = lines(tmp_path, line(1), line(1, padding="x" * 500))
    both_refuse(path, r"log\.jsonl:2: expected one list and its clicks per line, got")


# -- memory, and the command -------------------------------------------------------------------------------


def test_memory_is_a_few_numbers_an_impression(tmp_path):
    """Impression objects take about 2 KB each."""
    made = simulated(TEAM_DRAFT, 500)
    path = tmp_path / "log.jsonl"
    write_log(path, [structs.replace(i, shown=structs.replace(i.shown, impression=None)) for i in made] * 20)
    tracemalloc.start()
    read = read_credits(path)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert read.n_impressions == 10_000
    assert kept < 100 * 10_000


def test_an_expansion_beyond_what_is_stated_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "FREE_BYTES", 1 << 20)
    path = tmp_path / "log.jsonl.gz"
    [one] = simulated(TEAM_DRAFT, 1)
    text = (json.dumps(one.to_dict()) + " " * 2_000_000 + "\n").encode() * 3
    path.write_bytes(gzip.compress(text))
    both_refuse(path, "decompression bomb", max_expansion=100)
    for read in (read_log, read_credits):
        read(path, max_expansion=np.inf)
