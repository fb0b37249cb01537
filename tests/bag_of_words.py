"""What counting words achieves on a task: the floor that reading a sentence has to beat."""

import re
from collections.abc import Sequence

from acl_bert.data.sources import Example


def bag_of_words_accuracy(train: Sequence[Example], dev: Sequence[Example]) -> float:
    """Accuracy on `dev` of a logistic regression over word counts, each text's words its own."""
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression

    def words(example: Example) -> list[str]:
        return [
            f"{position}:{word}"
            for position, text in enumerate(example.text)
            for word in re.findall(r"\w+", text.lower())
        ]

    count = CountVectorizer(analyzer=words)
    model = LogisticRegression(max_iter=1000)
    model.fit(count.fit_transform(train), [example.label for example in train])
    return float(model.score(count.transform(dev), [example.label for example in dev]))
