"""The examples run, and a loop of PML learns the same with either import."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, os.path.dirname(__file__))
from optional import needs

EXAMPLES = Path(__file__).parent.parent / "examples"


def said(*command):
    done = subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("memory", [0, 512])
def test_a_loop_of_pml_learns_the_same_with_either_import(memory):
    scores = []
    for how in ([], ["--pml"]):
        words = said(EXAMPLES / "train_digits.py", *how, "--memory", memory, "--epochs", 4)
        scores.append(float(re.search(r"precision@1 ([0-9.]+)", words)[1]))
    assert scores[0] > 0.9
    assert abs(scores[0] - scores[1]) <= 0.006, scores


def test_ranks_of_torchrun_score_as_one_process():
    from sklearn.datasets import load_digits

    import nearfar

    words = said("-m", "torch.distributed.run", "--nproc-per-node", 2, EXAMPLES / "evaluate_on_ranks.py")
    one = nearfar.evaluate(*load_digits(return_X_y=True), engine="cpu")
    assert f"precision@1 {one['precision_at_1']:.4f} over 1797 rows, 1 of them came twice" in words


def test_a_model_of_texts_learns_from_mined_negatives():
    needs("sentence_transformers"), needs("datasets")
    found = re.search(r"(\d+) triplets; test_map@r ([0-9.]+) before, ([0-9.]+) after", said(EXAMPLES / "texts.py"))
    assert int(found[1]) > 1000
    assert float(found[3]) > float(found[2]) + 0.3


def test_lightning_logs_the_metrics_of_the_whole_validation_set():
    needs("pytorch_lightning")
    found = re.search(r"precision@1 ([0-9.]+), MAP@R ([0-9.]+)", said(EXAMPLES / "lightning_digits.py"))
    assert float(found[1]) > 0.9 and float(found[2]) > 0.6


def test_cells_of_one_type_come_together():
    needs("anndata")
    found = re.search(r"obsm \(1200, \d+\): MAP@R ([0-9.]+), of the rows as they are ([0-9.]+)", said(EXAMPLES / "cells.py"))
    assert float(found[1]) > float(found[2]) + 0.1
