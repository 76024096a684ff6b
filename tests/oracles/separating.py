"""One call of an oracle on whole data, into arrays in which nothing may be left out."""

import numpy as np


def separate(separator, scores, offsets):
    loss, coef = np.full(len(offsets) - 1, np.nan), np.full(len(scores), np.nan)
    separator.separate(scores, 0, len(offsets) - 1, loss, coef)
    return loss, coef


def bind_and_separate(oracle, y, offsets, scores):
    separator = oracle.bind(y, offsets)
    return separator, *separate(separator, scores, offsets)
