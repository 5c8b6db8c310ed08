"""Writes the small files that tests/cli.rs reads, as NumPy and pandas users save them.

usage: pip install numpy==2.4.6 && python make.py
"""
from pathlib import Path

import numpy as np

here = Path(__file__).parent
rng = np.random.default_rng(0)
species = np.array(["ash", "birch", "château"])[np.arange(60) % 3]
x = (rng.standard_normal((3, 5))[np.arange(60) % 3] * 2 + rng.standard_normal((60, 5))).astype("f4")

np.save(here / "features.npy", x)
np.save(here / "features_f64_fortran.npy", np.asfortranarray(x.astype("f8")))
np.save(here / "features_f16.npy", x.astype("f2"))
np.save(here / "labels_int64.npy", np.arange(60) % 3)
np.save(here / "labels_text.npy", species)
np.save(here / "labels_objects.npy", species.astype(object), allow_pickle=True)
np.save(here / "labels_float.npy", (np.arange(60) % 3).astype("f4"))
np.save(here / "labels_short.npy", np.arange(59) % 3)
np.save(here / "labels_one_class.npy", np.zeros(60, int))
np.save(here / "features_3d.npy", x.reshape(60, 5, 1))
nan = x.copy()
nan[41, 2] = np.nan
np.save(here / "features_nan.npy", nan)
(here / "features_cut.npy").write_bytes((here / "features.npy").read_bytes()[:-7])
huge = (here / "features.npy").read_bytes().replace(b"(60, 5), ", b"(4294967296, 4294967296), ")
(here / "features_huge.npy").write_bytes(huge[:8] + (len(huge) - 10 - 1200).to_bytes(2, "little") + huge[10:])

rows = [f"{i},{s}," + ",".join(f"{v:.5g}" for v in r) for i, (s, r) in enumerate(zip(species, x))]
(here / "trees.csv").write_text("id,species,a,b,c,d,e\n" + "\n".join(rows) + "\n", encoding="utf-8")
parts = np.where(np.arange(60) % 6 == 5, "test", np.where(np.arange(60) % 6 == 4, "validation", "train"))
rows = [f"{r},{p}" for r, p in zip(rows, parts)]
(here / "trees_parts.csv").write_text("id,species,a,b,c,d,e,part\n" + "\n".join(rows) + "\n", encoding="utf-8")
