"""Lists, ids and tokens from keyed hashes."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from structsvm.live.contract.tokens import Secrets, bucket, impression_id
from structsvm.live.experiment.draw import draw, page_of, reachable
from structsvm.online.interleaving import Shown, TeamDraft
from structsvm.online.interleaving.merging import enumerate_choices
from structsvm.online.interleaving.team_draft import draft

SALT = b"s" * 16


def test_longer_rankings_change_nothing():
    """Ranks that a draft cannot reach are left out: the lists are those of whole rankings, choice by choice."""
    rng = np.random.default_rng(0)
    for _ in range(60):
        length, n = int(rng.integers(1, 4)), int(rng.integers(2, 4))
        sizes = rng.integers(1, 12, size=n)
        rankings = [tuple(rng.permutation(12)[:size].tolist()) for size in sizes]
        assert every_draft(reachable(rankings, length), length) == every_draft(rankings, length)


def every_draft(rankings, length):
    def run(choose):
        documents, teams = draft(rankings, length, choose)
        return Shown("m", documents, len(rankings), (teams,))

    return enumerate_choices(run)


@pytest.mark.parametrize("n", [2, 3])
def test_draws_have_the_probabilities_of_the_method(n):
    rankings = [["a", "b", "c", "d"], ["c", "a", "d", "e"], ["e", "d", "a", "b"]][:n]
    expected = {(shown.documents, shown.evidence): p for shown, p in TeamDraft().distribution(rankings, 3)}
    counts = dict.fromkeys(expected, 0)
    n_draws = 6000
    for k in range(n_draws):
        shown = draw("team_draft", rankings, 3, SALT, f"request {k}")
        counts[shown.documents, shown.evidence] += 1
    chi = sum((counts[key] - n_draws * p) ** 2 / (n_draws * p) for key, p in expected.items())
    assert chi < len(expected) + 5 * np.sqrt(2 * len(expected))


def test_optimized_lists_are_the_same_again():
    rankings = [["a", "b", "c", "d"], ["c", "a", "d", "b"]]
    lists = [draw("optimized", rankings, 3, SALT, f"r{k % 5}") for k in range(10)]
    assert lists[:5] == lists[5:]
    assert len(set(lists)) > 1


def test_ids_and_shares_are_spread():
    ids = {impression_id(SALT, f"r{k}", offset) for k in range(1000) for offset in (0, 10)}
    assert len(ids) == 2000
    shares = np.array([bucket(SALT, f"unit {k}") for k in range(4000)])
    counts = np.histogram(shares, bins=20, range=(0, 1))[0]
    assert ((counts - 200) ** 2 / 200).sum() < 19 + 5 * np.sqrt(38)
    other = np.array([bucket(b"t" * 16, f"unit {k}") for k in range(4000)])
    assert abs(np.corrcoef(shares, other)[0, 1]) < 0.08


@pytest.mark.parametrize("rankings", [["abcdef", "bdafce"], ["abcdef", "bdafce", "facbed"]])
@pytest.mark.parametrize("offset", [1, 2, 3, 4, 5])
def test_later_pages_are_fair_whatever_the_page_before_was(rankings, offset):
    """Enumerate all lists with their probabilities: each counted rank belongs to each ranker equally often."""
    n, length = len(rankings), 6
    before = {}
    for shown, p in TeamDraft().distribution(list(map(list, rankings)), length):
        (teams,) = shown.evidence
        (later,) = page_of(shown, offset).evidence
        sums = before.setdefault(
            (shown.documents[:offset], teams[:offset]), np.zeros((length - offset, n + 1))
        )
        for place, team in enumerate(later):
            sums[place, n if team is None else team] += p
    for sums in before.values():
        counts = sums[:, n] == 0
        assert counts.tolist() == [place >= -offset % n for place in range(length - offset)]
        equal = np.repeat(sums.sum(axis=1, keepdims=True) / n, n, axis=1)
        np.testing.assert_allclose(sums[counts, :n], equal[counts], rtol=1e-12)


def test_workers_that_start_at_once_agree_on_the_secret(tmp_path, monkeypatch):
    path, link, others = tmp_path / "secret", os.link, []

    def another_comes_first(own, target):
        monkeypatch.setattr(os, "link", link)
        others.append(Secrets.of_file(path))
        link(own, target)

    monkeypatch.setattr(os, "link", another_comes_first)
    assert Secrets.of_file(path).fingerprint == others[0].fingerprint
    assert [file.name for file in tmp_path.iterdir()] == ["secret"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_secret_is_made_where_there_are_no_hard_links(tmp_path, monkeypatch):
    """The secret is the same if several workers create it at once."""
    together = threading.Barrier(8)

    def link(*_):
        together.wait(60)
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", link)
    with ThreadPoolExecutor(8) as workers:
        made = [one.fingerprint for one in workers.map(Secrets.of_file, [tmp_path / "secret"] * 8)]
    assert set(made) == {Secrets.of_file(tmp_path / "secret").fingerprint}
    assert [file.name for file in tmp_path.iterdir()] == ["secret"]


@pytest.mark.parametrize("call", ["open", "fsync", "link"])
def test_a_worker_that_ends_while_it_makes_the_secret_leaves_no_empty_file(tmp_path, monkeypatch, call):
    def ends(*_):
        assert not (tmp_path / "secret").exists()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, call, ends)
        with pytest.raises(KeyboardInterrupt):
            Secrets.of_file(tmp_path / "secret")
    assert not list(tmp_path.iterdir())
    assert (
        Secrets.of_file(tmp_path / "secret").fingerprint == Secrets.of_file(tmp_path / "secret").fingerprint
    )
