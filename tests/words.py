"""The vocabulary of the tiny encoder, without its special tokens."""

WORDS = [
    "the",
    "a",
    "cat",
    "dog",
    "bird",
    "sees",
    "hears",
    "chases",
    "not",
    "quickly",
    "and",
    "old",
    "new",
    "house",
    "tree",
]
