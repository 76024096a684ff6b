"""Which of several models, prompts or rankers is best, from pairwise votes."""
