"""Estimators in scikit-learn's manner that learn from a release.

``fit`` takes a release in place of rows; everything after it takes rows of the analyst's own, in any form that
:func:`m2m.sketch` takes. Categories, dates and truths are encoded inside, as the schema of the release says.

>>> model = LogisticRegression(target="smoker", features=["age", "sex"]).fit(release)
>>> model.feature_names_in_
['age', 'sex']
>>> dict(zip(model.coef_names_, model.coef_))
{'age': ..., 'sex[male]': ...}
>>> import polars
>>> model.predict_proba(polars.DataFrame({"age": [30, 70], "sex": ["male", "female"]})).shape
(2, 2)
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from . import _native as native
from ._data import source
from ._native import Error
from ._release import Release

try:
    import numpy
    from sklearn.base import BaseEstimator, ClassifierMixin, ClusterMixin, RegressorMixin, TransformerMixin
    from sklearn.exceptions import NotFittedError
except ImportError as missing:
    raise Error(f"{missing.name} is not installed, which estimators need; install m2m[sklearn]") from None

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[numpy.float64]
    Self = TypeVar("Self", bound="_Linear")


def _array(raw: tuple[bytes, int]) -> Array:
    numbers, width = raw
    return numpy.frombuffer(numbers, dtype=float).reshape(-1, width).copy()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _release(release: Any) -> Release:
    if not isinstance(release, Release):
        raise Error("fit takes a release; make one with m2m.sketch, or open one with m2m.open")
    return release


def _fitted(estimator: Any, attribute: str) -> None:
    if not hasattr(estimator, attribute):
        raise NotFittedError(f"this {type(estimator).__name__} has not learned anything yet; call fit with a release")


class _Linear(BaseEstimator):  # type: ignore[misc]
    """What linear models share."""

    _learner: str

    #: What was learned, in the command line's words.
    model_: dict[str, Any]

    def __init__(
        self,
        target: str | None = None,
        *,
        features: Sequence[str] | None = None,
        formula: str | None = None,
        alpha: float | None = None,
        fit_intercept: bool = True,
        weights: str | None = None,
    ) -> None:
        self.target = target
        self.features = features
        self.formula = formula
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.weights = weights

    def _formula(self, schema_columns: Sequence[str]) -> str:
        if (self.formula is None) == (self.target is None):
            raise Error("say what is to be explained: give target (and features), or a formula such as y ~ a + b")
        if self.formula is not None:
            return self.formula
        assert self.target is not None
        if isinstance(self.features, str):
            raise Error("the features are one text; give a list of columns")
        features = [name for name in schema_columns if name != self.target] if self.features is None else self.features
        if not features:
            raise Error("there are no features; name columns to explain by")
        terms = " + ".join(map(_quoted, features)) + ("" if self.fit_intercept else " - 1")
        return f"{_quoted(self.target)} ~ {terms}"

    def fit(self: Self, release: Release, y: None = None) -> Self:
        """Learns from a release."""
        release = _release(release)
        self._model = self._learn(release, self._formula(release.columns))
        self._columns = release.columns
        self.model_ = dict(json.loads(self._model.to_json()))
        self._keep()
        return self

    def _learn(self, release: Release, formula: str) -> native.Model:
        return native.fit(release._native, self._learner, formula, self.alpha, self.weights)

    def _keep(self) -> None:
        names = self._model.names()
        first = int(bool(names) and names[0] == "(intercept)")
        coefficients = self.model_["coefficients"]

        def numbers(key: str) -> Array:
            # What could not be told is null in JSON.
            known = [float("nan") if c[key] is None else c[key] for c in coefficients]
            return numpy.array(known, dtype=float).reshape(-1, len(names))

        values, errors = numbers("value"), numbers("std_error")
        constants = numpy.zeros((len(values), 2))
        if first:
            constants = numpy.column_stack([values[:, 0], errors[:, 0]])
        #: The names of the coefficients; a level's is ``column[level]``.
        self.coef_names_ = names[first:]
        self._take(values[:, first:], errors[:, first:], constants[:, 0], constants[:, 1])
        self.feature_names_in_ = self._model.inputs()
        self.n_features_in_ = len(self.feature_names_in_)
        #: About how many rows of the table had all that is needed.
        self.n_rows_ = float(self.model_["rows"])
        #: What to know about the fit.
        self.notes_ = list(self.model_["notes"])

    def _take(self, coef: Array, errors: Array, intercept: Array, intercept_errors: Array) -> None:
        self.coef_ = coef[0]
        self.coef_std_error_ = errors[0]
        self.intercept_ = float(intercept[0])
        self.intercept_std_error_ = float(intercept_errors[0])

    def _scores(self, X: Any) -> Array:  # noqa: N803
        _fitted(self, "model_")
        return _array(self._model.predict(source(X, self.feature_names_in_)))

    def evaluate(self, X: Any) -> dict[str, float]:  # noqa: N803
        """How well it does on rows that have the target too: accuracy and AUC, or RMSE and R²."""
        _fitted(self, "model_")
        return dict(json.loads(self._model.evaluate(source(X, self._columns))))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __getstate__(self) -> dict[str, Any]:
        if hasattr(self, "_model"):
            raise Error("a fitted estimator is not pickled; keep the release, and fit it again where it is needed")
        return dict(super().__getstate__())


class _Regressor(RegressorMixin, _Linear):  # type: ignore[misc]
    def predict(self, X: Any) -> Array:  # noqa: N803
        """The mean for each row; NaN where a feature is missing."""
        return self._scores(X)[:, 0]

    def score(self, X: Any, y: Any = None) -> float:  # noqa: N803
        """The share of the target's variance that is explained, on rows that have the target too.

        :param y: the target, where ``X`` does not hold it
        """
        if y is None:
            return self.evaluate(X).get("r_squared", float("nan"))
        truth, said = numpy.asarray(y, dtype=float), self.predict(X)
        known = ~(numpy.isnan(truth) | numpy.isnan(said))
        residual = ((truth - said)[known] ** 2).sum()
        return float(1.0 - residual / ((truth[known] - truth[known].mean()) ** 2).sum())


class LinearRegression(_Regressor):
    """Least squares.

    >>> model = LinearRegression(target="income", features=["age"]).fit(release)
    >>> model.coef_.shape, model.coef_std_error_.shape
    ((1,), (1,))

    :param target: the column to be explained
    :param features: the columns to explain by; all others unless given
    :param formula: in place of both, such as ``"income ~ age + log(hours) + age:sex"``
    :param weights: of the points: ``"unbiased"``, or ``"positive"``
    """

    _learner = "linear"

    def __init__(
        self,
        target: str | None = None,
        *,
        features: Sequence[str] | None = None,
        formula: str | None = None,
        fit_intercept: bool = True,
        weights: str | None = None,
    ) -> None:
        super().__init__(target, features=features, formula=formula, fit_intercept=fit_intercept, weights=weights)


class Ridge(_Regressor):
    """Least squares with a penalty.

    :param alpha: its strength, on squared coefficients of columns with standard deviation 1, beside the *mean* squared
        error; 0.01 unless given
    """

    _learner = "ridge"


class PoissonRegressor(_Regressor):
    """The mean of counts, as the exponential of a linear function. See :class:`Ridge` for ``alpha``."""

    _learner = "poisson"


class _Classifier(ClassifierMixin, _Linear):  # type: ignore[misc]
    def _keep(self) -> None:
        super()._keep()
        classes = self.model_["classes"]
        self.classes_ = numpy.array([False, True] if classes == ["false", "true"] else classes)

    def _classes_of(self, places: NDArray[numpy.intp], known: NDArray[numpy.bool_]) -> NDArray[Any]:
        if known.all():
            return self.classes_[places]
        # Of a row with a missing feature there is nothing to say.
        found = self.classes_.astype(object)[places]
        found[~known] = None
        return found

    def score(self, X: Any, y: Any = None) -> float:  # noqa: N803
        """The share of rows put into the right class, on rows that have the target too.

        :param y: the target, where ``X`` does not hold it
        """
        if y is None:
            return self.evaluate(X).get("accuracy", float("nan"))
        return float((numpy.asarray(y).astype(object) == self.predict(X).astype(object)).mean())

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        raise NotImplementedError


class LogisticRegression(_Classifier):
    """The probabilities of two or more classes. See :class:`Ridge` for ``alpha``, which is 1e-6 unless given.

    With two classes ``coef_`` holds the log odds of the second; with more, a row for each class but the first, against
    the first.
    """

    _learner = "logistic"

    def _learn(self, release: Release, formula: str) -> native.Model:
        # What stands left of ~, if it is a column.
        target = self.target if self.formula is None else self.formula.partition("~")[0].strip().strip('"')
        levels: list[str] = next(
            (c.get("levels", []) for c in release.schema.to_dict()["column"] if c["name"] == target), []
        )
        learner = "multinomial" if len(levels) > 2 else "logistic"
        return native.fit(release._native, learner, formula, self.alpha, self.weights)

    def _take(self, coef: Array, errors: Array, intercept: Array, intercept_errors: Array) -> None:
        if len(coef) == 1:
            super()._take(coef, errors, intercept, intercept_errors)
            return
        self.coef_, self.coef_std_error_ = coef, errors
        self.intercept_, self.intercept_std_error_ = intercept, intercept_errors  # type: ignore[assignment]

    def predict_proba(self, X: Any) -> Array:  # noqa: N803
        """The probability of each class for each row; NaN where a feature is missing."""
        return self._scores(X)

    def predict_log_proba(self, X: Any) -> Array:  # noqa: N803
        """The logarithms of the probabilities."""
        return numpy.log(self.predict_proba(X))

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """The most probable class of each row; None where a feature is missing."""
        shares = self.predict_proba(X)
        known = numpy.asarray(~numpy.isnan(shares).any(axis=1))
        return self._classes_of(numpy.where(known, numpy.nan_to_num(shares).argmax(axis=1), 0), known)


class LinearSVC(_Classifier):
    """A linear support vector machine with the squared hinge loss, for two classes; ``alpha`` as in :class:`Ridge`."""

    _learner = "svm"

    def decision_function(self, X: Any) -> Array:  # noqa: N803
        """The score of each row, whose sign is the class; NaN where a feature is missing."""
        return self._scores(X)[:, 0]

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """The class of each row; None where a feature is missing."""
        scores = self.decision_function(X)
        return self._classes_of((scores > 0).astype(numpy.intp), ~numpy.isnan(scores))


class _Points(BaseEstimator):  # type: ignore[misc]
    """What is common to estimators over columns as vectors of numbers."""

    columns: Sequence[str] | None

    def _names(self) -> list[str] | None:
        if isinstance(self.columns, str):
            raise Error("the columns are one text; give a list of them")
        return None if self.columns is None else list(self.columns)

    def _begin(self, release: Release) -> None:
        self._release = _release(release)

    def _vectors(self, X: Any) -> Array:  # noqa: N803
        _fitted(self, "_release")
        needed = self._release.columns if self.columns is None else self.columns
        return _array(native.points(self._release._native, source(X, needed), self._names()))


class KMeans(TransformerMixin, ClusterMixin, _Points):  # type: ignore[misc]
    """Groups around centres.

    >>> KMeans(n_clusters=2, columns=["age", "hours"]).fit(release).cluster_centers_.shape
    (2, 2)

    :param columns: all numeric ones unless given
    :param standardise: measure distances in standard deviations, and not in the columns' own units
    """

    def __init__(
        self,
        n_clusters: int = 3,
        *,
        columns: Sequence[str] | None = None,
        standardise: bool = True,
        n_init: int = 5,
        random_state: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.columns = columns
        self.standardise = standardise
        self.n_init = n_init
        self.random_state = random_state

    def fit(self, release: Release, y: None = None) -> KMeans:
        """Learns from a release."""
        self._begin(release)
        found = json.loads(
            native.cluster(
                self._release._native,
                self.n_clusters,
                self._names(),
                self.standardise,
                False,
                self.n_init,
                self.random_state,
            )
        )
        #: The centres, in the columns' own units, the largest group first.
        self.cluster_centers_ = numpy.array([cluster["centre"] for cluster in found["clusters"]])
        #: Each group's share of the rows.
        self.shares_ = numpy.array([cluster["share"] for cluster in found["clusters"]])
        #: The share of the variance that lies between groups.
        self.explained_ = float(found["explained"])
        self.feature_names_in_ = list(found["names"])
        self.n_features_in_ = len(self.feature_names_in_)
        self._scales = numpy.array(found["scales"])
        self.notes_ = list(found["notes"])
        return self

    def transform(self, X: Any) -> Array:  # noqa: N803
        """The distance of each row to each centre."""
        points = self._vectors(X) / self._scales
        centres = self.cluster_centers_ / self._scales
        return numpy.asarray(numpy.sqrt(((points[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)))

    def predict(self, X: Any) -> NDArray[numpy.intp]:  # noqa: N803
        """The group of each row; -1 where something is missing."""
        distances = self.transform(X)
        known = ~numpy.isnan(distances).any(axis=1)
        return numpy.where(known, numpy.nan_to_num(distances).argmin(axis=1), -1)

    def score(self, X: Any, y: None = None) -> float:  # noqa: N803
        """Minus the sum of squared distances to the nearest centre."""
        return -float(numpy.nansum(self.transform(X).min(axis=1) ** 2))


class GaussianMixture(_Points):
    """A mixture of normal laws.

    >>> GaussianMixture(n_components=2, columns=["age", "hours"]).fit(release).means_.shape
    (2, 2)
    """

    def __init__(
        self,
        n_components: int = 3,
        *,
        columns: Sequence[str] | None = None,
        n_init: int = 5,
        random_state: int = 0,
    ) -> None:
        self.n_components = n_components
        self.columns = columns
        self.n_init = n_init
        self.random_state = random_state

    def fit(self, release: Release, y: None = None) -> GaussianMixture:
        """Learns from a release."""
        self._begin(release)
        found = json.loads(
            native.cluster(
                self._release._native, self.n_components, self._names(), True, True, self.n_init, self.random_state
            )
        )
        #: Each law's share of the rows, its mean and its covariance, the largest first.
        self.weights_ = numpy.array([law["share"] for law in found["components"]])
        self.means_ = numpy.array([law["mean"] for law in found["components"]])
        self.covariances_ = numpy.array([law["covariance"] for law in found["components"]])
        self.feature_names_in_ = list(found["names"])
        self.n_features_in_ = len(self.feature_names_in_)
        self.notes_ = list(found["notes"])
        return self

    def _log_shares(self, X: Any) -> Array:  # noqa: N803
        points = self._vectors(X)
        columns = []
        for share, mean, covariance in zip(self.weights_, self.means_, self.covariances_, strict=True):
            factor = numpy.linalg.cholesky(covariance)
            scaled = numpy.linalg.solve(factor, (points - mean).T)
            volume = numpy.log(numpy.diag(factor)).sum() + 0.5 * len(mean) * numpy.log(2 * numpy.pi)
            columns.append(numpy.log(share) - volume - 0.5 * (scaled**2).sum(axis=0))
        return numpy.column_stack(columns)

    def score_samples(self, X: Any) -> Array:  # noqa: N803
        """The log-likelihood of each row; NaN where something is missing."""
        return numpy.asarray(numpy.logaddexp.reduce(self._log_shares(X), axis=1))

    def score(self, X: Any, y: None = None) -> float:  # noqa: N803
        """The mean log-likelihood of the rows."""
        return float(numpy.nanmean(self.score_samples(X)))

    def predict_proba(self, X: Any) -> Array:  # noqa: N803
        """The probability of each law for each row."""
        logs = self._log_shares(X)
        return numpy.asarray(numpy.exp(logs - numpy.logaddexp.reduce(logs, axis=1)[:, None]))

    def predict(self, X: Any) -> NDArray[numpy.intp]:  # noqa: N803
        """The most probable law of each row; -1 where something is missing."""
        logs = self._log_shares(X)
        known = ~numpy.isnan(logs).any(axis=1)
        return numpy.where(known, numpy.nan_to_num(logs).argmax(axis=1), -1)


class PCA(TransformerMixin, _Points):  # type: ignore[misc]
    """The directions in which rows differ most.

    >>> PCA(columns=["age", "hours"]).fit(release).explained_variance_ratio_.sum()
    np.float64(1.0)

    :param standardise: give every column the standard deviation 1 first
    """

    def __init__(
        self, n_components: int | None = None, *, columns: Sequence[str] | None = None, standardise: bool = False
    ) -> None:
        self.n_components = n_components
        self.columns = columns
        self.standardise = standardise

    def fit(self, release: Release, y: None = None) -> PCA:
        """Learns from a release."""
        self._begin(release)
        found = json.loads(native.pca(self._release._native, self._names(), self.standardise))
        kept = found["components"][: self.n_components]
        #: The unit vectors, the one of the largest variance first.
        self.components_ = numpy.array([direction["loadings"] for direction in kept])
        self.explained_variance_ = numpy.array([direction["variance"]["value"] for direction in kept])
        self.explained_variance_std_error_ = numpy.array([direction["variance"]["std_error"] for direction in kept])
        self.explained_variance_ratio_ = numpy.array([direction["share"] for direction in kept])
        self.mean_ = numpy.array(found["means"])
        self._scales = numpy.array(found["scales"])
        self.feature_names_in_ = list(found["names"])
        self.n_features_in_ = len(self.feature_names_in_)
        self.n_components_ = len(kept)
        self.notes_ = list(found["notes"])
        return self

    def transform(self, X: Any) -> Array:  # noqa: N803
        """The places of rows along the directions; NaN where something is missing."""
        return numpy.asarray(((self._vectors(X) - self.mean_) / self._scales) @ self.components_.T)

    def inverse_transform(self, X: Array) -> Array:  # noqa: N803
        """The points at places along the directions."""
        return numpy.asarray((X @ self.components_) * self._scales + self.mean_)
