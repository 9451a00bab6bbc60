"""Estimators on a release are near those on the rows, and keep scikit-learn's conventions."""

from __future__ import annotations

from typing import Any
from unittest import SkipTest

import numpy
import polars
import pytest
import sklearn.linear_model
from sklearn.base import RegressorMixin, clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.utils.estimator_checks import estimator_checks_generator
from sklearn.utils.validation import check_is_fitted

import m2m
import m2m.learn

ALL = [
    m2m.LinearRegression(target="income"),
    m2m.Ridge(target="income", alpha=0.1),
    m2m.PoissonRegressor(target="hours", features=["age", "sex"]),
    m2m.LogisticRegression(target="smoker"),
    m2m.LinearSVC(target="smoker"),
    m2m.KMeans(n_clusters=2, columns=["age", "hours"]),
    m2m.GaussianMixture(n_components=2, columns=["age", "hours"]),
    m2m.PCA(columns=["age", "hours", "income"]),
]


@pytest.fixture(scope="module")
def known(frame: polars.DataFrame) -> polars.DataFrame:
    return frame.drop_nulls()


@pytest.mark.parametrize("estimator", ALL, ids=lambda e: type(e).__name__)
def test_conventions(estimator: Any, release: m2m.Release, known: polars.DataFrame) -> None:
    fresh = clone(estimator)
    assert fresh.get_params() == estimator.get_params()
    assert type(fresh).__name__ in repr(fresh)
    use = "transform" if isinstance(fresh, m2m.PCA) else "predict"
    with pytest.raises(Exception, match="has not learned anything yet"):
        getattr(fresh, use)(known)
    for name in fresh.get_params():
        fresh.set_params(**{name: getattr(estimator, name)})
    before = dict(fresh.get_params())
    assert fresh.fit(release) is fresh
    assert fresh.get_params() == before
    assert len(fresh.feature_names_in_) == fresh.n_features_in_
    assert len(getattr(fresh, use)(known)) == len(known)
    with pytest.raises(m2m.Error, match="fit takes a release"):
        fresh.fit(known)


#: Some of scikit-learn's checks that have to be among those that apply.
APPLY = {
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimators_unfitted",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_set_params",
    "check_valid_tag_types",
}


@pytest.mark.parametrize("estimator", ALL, ids=lambda e: type(e).__name__)
def test_the_checks_of_scikit_learn_that_apply(estimator: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that do not fit.

    All others begin with `fit(X, y)` for arrays of their own, where ours take a release, and say so. What they go on to
    ask is asked below, of an estimator that was fitted to one.
    """
    fitted: list[Any] = []
    original = m2m.learn._release
    monkeypatch.setattr(m2m.learn, "_release", lambda given: fitted.append(given) or original(given))
    done = set()
    for given, check in estimator_checks_generator(estimator, legacy=True):
        fitted.clear()
        try:
            check(given)
        except SkipTest:
            # Arrays of other libraries, which scikit-learn looks at only if it is told to.
            continue
        except Exception:
            if not fitted:
                raise
        if not fitted:
            done.add(getattr(check, "func", check).__name__)
    assert done >= APPLY


@pytest.mark.parametrize("estimator", ALL, ids=lambda e: type(e).__name__)
def test_a_fitted_estimator_treats_each_row_by_itself(
    estimator: Any, release: m2m.Release, known: polars.DataFrame
) -> None:
    fitted = clone(estimator).fit(release)
    check_is_fitted(fitted)
    again = clone(estimator).fit(release, None)
    rows = known[:200]
    state = dict(vars(fitted))
    for name in ("predict", "predict_proba", "decision_function", "transform", "score_samples"):
        if not hasattr(fitted, name):
            continue
        found = getattr(fitted, name)(rows)
        assert len(found) == len(rows)
        numpy.testing.assert_array_equal(getattr(again, name)(rows), found)
        if found.dtype.kind == "f":
            same: Any = numpy.testing.assert_allclose
        else:
            same = numpy.testing.assert_array_equal
        same(getattr(fitted, name)(rows.reverse())[::-1], found)
        same(numpy.concatenate([getattr(fitted, name)(rows[at : at + 50]) for at in range(0, 200, 50)]), found)
    assert all(vars(fitted)[name] is value for name, value in state.items())
    assert set(vars(fitted)) == set(state)
    if isinstance(fitted, RegressorMixin):
        assert not hasattr(fitted, "decision_function")


def test_least_squares_is_near_that_of_the_rows(release: m2m.Release, known: polars.DataFrame) -> None:
    model = m2m.LinearRegression(target="income", features=["age", "hours"]).fit(release)
    rows = sklearn.linear_model.LinearRegression().fit(known[["age", "hours"]].to_numpy(), known["income"].to_numpy())
    assert model.coef_names_ == ["age", "hours"]
    # Beyond 8 standard errors with a chance below 1e-9.
    assert (abs(model.coef_ - rows.coef_) < 8 * model.coef_std_error_).all()
    assert abs(model.intercept_ - rows.intercept_) < 8 * model.intercept_std_error_
    assert model.score(known) == pytest.approx(
        rows.score(known[["age", "hours"]].to_numpy(), known["income"].to_numpy()), abs=0.03
    )
    assert model.score(known, known["income"]) == pytest.approx(model.score(known))
    by_hand = model.intercept_ + known[["age", "hours"]].to_numpy() @ model.coef_
    assert numpy.allclose(model.predict(known), by_hand)
    # The target is not needed to predict, nor are other columns.
    assert numpy.allclose(model.predict(known.select("hours", "age").to_pandas()), by_hand)
    formula = m2m.LinearRegression(formula="income ~ age + hours").fit(release)
    assert numpy.allclose(formula.coef_, model.coef_)
    assert formula.score(known) == pytest.approx(model.score(known))
    without = m2m.LinearRegression(target="income", features=["age"], fit_intercept=False).fit(release)
    assert without.intercept_ == 0.0


def test_logistic_regression_is_near_that_of_the_rows(release: m2m.Release, known: polars.DataFrame) -> None:
    model = m2m.LogisticRegression(target="smoker", features=["age", "sex"]).fit(release)
    assert model.coef_names_ == ["age", "sex[male]"]
    assert model.classes_.tolist() == [False, True]
    shares = model.predict_proba(known)
    assert shares.shape == (len(known), 2)
    assert numpy.allclose(shares.sum(axis=1), 1)
    encoded = numpy.column_stack([known["age"], known["sex"] == "male"])
    rows = sklearn.linear_model.LogisticRegression(C=1e9).fit(encoded, known["smoker"])
    ours = roc_auc_score(known["smoker"], shares[:, 1])
    best = roc_auc_score(known["smoker"], rows.predict_proba(encoded)[:, 1])
    assert best - 0.02 < ours <= best + 1e-3
    assert model.score(known) == pytest.approx((model.predict(known) == known["smoker"].to_numpy()).mean())
    assert model.evaluate(known)["auc"] == pytest.approx(ours)
    svm = m2m.LinearSVC(target="smoker", features=["age", "sex"]).fit(release)
    assert svm.score(known) == pytest.approx(model.score(known), abs=0.03)
    assert ((svm.decision_function(known) > 0) == svm.predict(known)).all()


def test_several_classes() -> None:
    random = numpy.random.default_rng(3)
    x = random.random(9000)
    kind = numpy.where(x + random.normal(0, 0.1, 9000) < 0.33, "a", numpy.where(x < 0.66, "b", "c"))
    frame = polars.DataFrame({"x": x, "kind": kind})
    schema = m2m.Schema([m2m.number("x", 0, 1), m2m.category("kind", ["a", "b", "c"])])
    model = m2m.LogisticRegression(target="kind").fit(m2m.sketch(frame, schema, epsilon=5))
    assert model.coef_.shape == (2, 1)
    assert model.intercept_.shape == (2,)
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.predict_proba(frame).shape == (9000, 3)
    assert model.score(frame) > 0.75
    formula = m2m.LogisticRegression(formula="kind ~ x").fit(m2m.sketch(frame, schema, epsilon=5))
    assert formula.classes_.tolist() == ["a", "b", "c"]


def test_rows_with_missing_features_have_no_prediction(release: m2m.Release) -> None:
    rows = polars.DataFrame({"age": [30, None, 50], "sex": ["male", "female", "neither"]})
    model = m2m.LogisticRegression(target="smoker", features=["age", "sex"]).fit(release)
    assert numpy.isnan(model.predict_proba(rows)).tolist() == [[False] * 2, [True] * 2, [True] * 2]
    assert model.predict(rows)[1] is None
    regression = m2m.LinearRegression(target="income", features=["age", "sex"]).fit(release)
    assert numpy.isnan(regression.predict(rows)).tolist() == [False, True, True]


def test_groups_and_components(release: m2m.Release, known: polars.DataFrame) -> None:
    groups = m2m.KMeans(n_clusters=2, columns=["hours"]).fit(release)
    # A fifth of the people do not work, and the others work about 38 hours.
    assert sorted(groups.cluster_centers_[:, 0]) == pytest.approx([0, 37.5], abs=4)
    assert groups.shares_ == pytest.approx([0.8, 0.2], abs=0.03)
    assert (groups.predict(known) == (known["hours"].to_numpy() < 18)).mean() > 0.98
    mixture = m2m.GaussianMixture(n_components=2, columns=["hours"]).fit(release)
    assert mixture.predict_proba(known).shape == (len(known), 2)
    assert numpy.isfinite(mixture.score(known))
    assert (mixture.predict(known) == mixture.predict_proba(known).argmax(axis=1)).all()
    components = m2m.PCA(n_components=2, columns=["age", "hours", "income"], standardise=True).fit(release)
    centred = known[["age", "hours", "income"]].to_numpy()
    expected = numpy.linalg.eigvalsh(numpy.corrcoef(centred.T))[::-1][:2]
    assert components.explained_variance_ == pytest.approx(expected, abs=0.1)
    places = components.transform(known)
    assert places.shape == (len(known), 2)
    whole = m2m.PCA(columns=["age", "hours", "income"]).fit(release)
    assert numpy.allclose(whole.inverse_transform(whole.transform(known)), centred)


def test_any_estimator_with_weights_learns_from_a_release(release: m2m.Release, known: polars.DataFrame) -> None:
    sample, weights = release.weighted_sample(20_000)
    points = sample.to_polars()
    kept = points["smoker"].is_not_null().to_numpy()

    def features(frame: polars.DataFrame) -> Any:
        return frame.select("age", "hours", "income", polars.col("sex") == "male").to_numpy()

    model = HistGradientBoostingClassifier(max_iter=30)
    model.fit(features(points)[kept], points["smoker"].to_numpy()[kept].astype(bool), sample_weight=weights[kept])
    assert roc_auc_score(known["smoker"], model.predict_proba(features(known))[:, 1]) > 0.72


@pytest.mark.parametrize(
    ("estimator", "words"),
    [
        (m2m.LinearRegression(), "say what is to be explained"),
        (m2m.LinearRegression(target="income", formula="income ~ age"), "say what is to be explained"),
        (m2m.LinearRegression(target="incomee"), "did you mean `income`"),
        (m2m.LinearRegression(target="income", features=["income"]), "both sides"),
        (m2m.LinearRegression(target="income", features=[]), "no features"),
        (m2m.LinearRegression(target="income", features="age"), "one text"),
        (m2m.LogisticRegression(target="income"), "is a number and not a class"),
        (m2m.Ridge(target="income", alpha=-1.0), "the penalty is -1"),
        (m2m.Ridge(target="income", weights="odd"), "there are no weights"),
        (m2m.KMeans(n_clusters=0), "."),
        (m2m.KMeans(columns=["nothing"]), "nothing"),
        (m2m.PCA(columns="age"), "one text"),
    ],
)
def test_mistakes(estimator: Any, words: str, release: m2m.Release) -> None:
    with pytest.raises(m2m.Error, match=words):
        estimator.fit(release)


def test_frames_that_do_not_fit(release: m2m.Release) -> None:
    model = m2m.LinearRegression(target="income", features=["age"]).fit(release)
    with pytest.raises(m2m.Error, match="there is no column `age`"):
        model.predict(polars.DataFrame({"hours": [1]}))
    with pytest.raises(m2m.Error, match="there are no rows"):
        model.score(polars.DataFrame({"age": [1], "income": [1.0]})[:0])
