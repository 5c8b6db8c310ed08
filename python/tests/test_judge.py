"""Functions that judge labelled rows, beside scikit-learn."""

import numpy as np
import pytest

import nearfar

ENGINES = ["cpu", *(["gpu"] if len(nearfar.devices()) > 1 else [])]


def judged():
    from sklearn.datasets import load_digits

    features, labels = load_digits(return_X_y=True)
    return features.astype(np.float32), labels


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_with_wrong_labels_are_found(engine):
    features, labels = judged()
    names = np.array([f"digit {label}" for label in labels])
    wrong = [5, 300, 701, 1234]
    for row in wrong:
        names[row] = f"digit {(labels[row] + 3) % 10}"
    found = nearfar.rows_to_check(features, names, k=10, engine=engine, budget="16MiB")
    suspects = {suspect["row"]: suspect for suspect in found["suspects"]}
    assert set(wrong) <= set(suspects) and found["rows"] == len(labels)
    # As scikit-learn finds them.
    from sklearn.neighbors import NearestNeighbors

    near = NearestNeighbors(n_neighbors=11, metric="cosine", algorithm="brute").fit(features).kneighbors(return_distance=False, n_neighbors=10)
    for row, suspect in suspects.items():
        votes = (names[near[row]] == suspect["likely"]).sum()
        assert votes == suspect["votes"] >= 8 and suspect["class"] == names[row] != suspect["likely"]
    assert sum(suspects[row]["likely"] == f"digit {labels[row]}" for row in wrong) >= 3
    assert all(pair["rows"] <= pair["of"] and pair["class"] != pair["taken_for"] for pair in found["confused"])
    with pytest.raises(ValueError, match="two at least"):
        nearfar.rows_to_check(features[:1], names[:1])


@pytest.mark.parametrize("engine", ENGINES)
def test_a_linear_map_separates_classes_as_scikit_learns(engine):
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    features, labels = judged()
    train, test = slice(0, 1000), slice(1000, None)
    head = nearfar.linear_map(features[train], labels[train], engine=engine)
    assert head.report["outputs"]["directions"] == 9
    embeddings = head(features[test], engine=engine)
    assert np.allclose(np.linalg.norm(embeddings, axis=1), 1, atol=1e-5)
    found = nearfar.evaluate(embeddings, labels[test], at=[1])["precision_at_1"]
    raw = nearfar.evaluate(features[test] - features[train].mean(0), labels[test], at=[1])["precision_at_1"]
    theirs = LinearDiscriminantAnalysis(solver="eigen", shrinkage=head.report["outputs"]["shrinkage"]).fit(features[train], labels[train])
    expected = nearfar.evaluate(theirs.transform(features[test]), labels[test], at=[1])["precision_at_1"]
    assert found > expected - 0.02, (found, expected, raw)
    assert nearfar.linear_map(features, labels, outputs=4, engine=engine)(features).shape == (1797, 4)
    with pytest.raises(ValueError, match="two classes"):
        nearfar.linear_map(features, np.zeros(len(labels), int))
    with pytest.raises(ValueError, match="no linear map"):
        nearfar.linear_map(features[:4], ["a", "b", "c", "d"])


def test_settings_are_compared():
    features, labels = judged()
    said = []
    found = nearfar.compare(
        features[:600],
        labels[:600],
        grid={"memory_size": [0, 256]},
        config={"steps": 40, "batch_size": 32},
        seeds=2,
        progress=said.append,
        engine="cpu",
    )
    assert found["finished"] and found["rows"][0]["standing"] in ("leader", "within_noise", "unjudged")
    assert {row["kind"] for row in found["rows"]} == {"raw", "linear_map", "head"}
    assert len(said) == found["runs"][0] and {run["seed"] for run in said} == set(found["seeds"])
    assert found["verdict"] and found["budget_bytes"] == 256 << 20
    with pytest.raises(ValueError, match="recipe"):
        nearfar.compare(features[:200], labels[:200], recipes=["none such"], engine="cpu")
    with pytest.raises(nearfar.BudgetError, match="raise the budget"):
        nearfar.compare(features[:200], labels[:200], budget="20KiB", engine="cpu")
