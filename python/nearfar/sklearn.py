"""A head as a transformer of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from . import functions

__all__ = ["NearfarEmbedder"]


class NearfarEmbedder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Trains a head on labelled rows; ``transform`` embeds rows, ``score`` is precision@1 of given rows among each other.

    ``config`` has the settings of :func:`nearfar.train`. After ``fit``, ``report_`` says how the head compares with the rows as they are
    and with a linear map, and ``verdict_`` in a sentence.
    """

    def __init__(
        self,
        config: dict[str, Any] | None = None,
        budget: int | str | None = None,
        engine: str | None = None,
        random_state: int = 0,
    ) -> None:
        self.config = config
        self.budget = budget
        self.engine = engine
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> NearfarEmbedder:
        """Trains on rows ``[rows, columns]`` and a class of each."""
        X, y = validate_data(self, X, y, dtype=np.float32)
        config = {"seed": self.random_state, **(self.config or {})}
        self.head_ = functions.train(X, y, config, budget=self.budget, engine=self.engine)
        self.report_ = self.head_.report
        self.verdict_ = self.report_.get("verdict")
        self._n_features_out = self.head_(X[:1], budget=self.budget, engine=self.engine).shape[1]
        return self

    def transform(self, X: Any) -> Any:
        """Embeddings of unit length, ``[rows, embedding_size]``."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float32)
        return self.head_(X, budget=self.budget, engine=self.engine)

    def score(self, X: Any, y: Any) -> float:
        """Precision@1 of these rows, each among the others, by their embeddings."""
        found = functions.evaluate(self.transform(X), y, at=[1], nearest=True, budget=self.budget, engine=self.engine)
        return float(found["precision_at_1"])
