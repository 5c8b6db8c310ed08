"""The wheel in an empty environment with NumPy alone: `make test-wheel` runs it. Every room of the engine is called once."""

import importlib.metadata
import importlib.util
import sys
import tempfile
from pathlib import Path

import numpy as np

import nearfar

folder = str(Path(__file__).resolve().parents[2]).encode()
for file in importlib.metadata.files("nearfar"):
    # pip writes where it took the wheel from.
    assert file.name == "direct_url.json" or folder not in file.locate().read_bytes(), f"{file} names the folder that it was built in"
assert "site-packages" in nearfar.__file__, f"{nearfar.__file__} is no installed wheel"
for other in ("torch", "sklearn", "pytorch_metric_learning"):
    assert importlib.util.find_spec(other) is None, f"{other} is installed here: NumPy alone should be"

draw = np.random.default_rng(0)
labels = np.arange(600) % 6
rows = (draw.normal(size=(6, 16))[labels] * 2 + draw.normal(size=(600, 16))).astype(np.float32)
unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)

ids, values = nearfar.knn(rows[:50], rows, k=4, engine="cpu")
nearest = np.argsort(-(unit[:50] @ unit.T), axis=1, kind="stable")[:, :4]
assert (ids == nearest).mean() > 0.99 and np.allclose(values[:, 0], 1, atol=1e-5)

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "rows.npy")
    np.save(path, rows)
    assert np.array_equal(nearfar.knn(rows[:50], path, k=4, engine="cpu")[0], ids)

scores = nearfar.evaluate(rows, labels, engine="cpu")
others = unit @ unit.T - 2 * np.eye(600)
assert abs(scores["precision_at_1"] - (labels[others.argmax(1)] == labels).mean()) < 1e-9

valid = 600 * 99 * 500
assert nearfar.count_triplets(rows, labels, engine="cpu")["valid"] == valid
window = next(nearfar.mine(rows, labels, window=1000, engine="cpu"))
assert window.shape[1] == 3 and (labels[window[:, 0]] == labels[window[:, 1]]).all()

memory = nearfar.MemoryLoss(16, 200, batch_size=50, loss="nt-xent", engine="cpu")
for first in range(0, 600, 50):
    found = memory(rows[first : first + 50], labels[first : first + 50])
assert found.loss > 0 and np.isfinite(found.gradient).all() and len(memory) == 200

head = nearfar.train(rows, labels, {"steps": 30}, engine="cpu")
assert head(rows).shape[0] == 600 and head.report["verdict"]
assert nearfar.linear_map(rows, labels, engine="cpu")(rows).shape == (600, 5)
assert nearfar.rows_to_check(rows, labels, engine="cpu")["rows"] == 600
assert 0 < nearfar.threshold(rows[:300], labels[:300], rows[300:], labels[300:], engine="cpu")["threshold"] < 1
try:
    nearfar.knn(rows, k=3, budget=1000, engine="cpu")
    raise AssertionError("a budget of 1,000 bytes holds no search")
except nearfar.BudgetError as error:
    assert "raise the budget" in str(error)
names = {path.name for path in importlib.metadata.files("nearfar")}
assert {"py.typed", "_nearfar.pyi", "LICENSE-MIT", "LICENSE-APACHE"} <= names, names
print(f"nearfar {nearfar.__version__} on Python {sys.version.split()[0]}, NumPy {np.__version__}: {nearfar.devices()[-1]['adapter']}")
