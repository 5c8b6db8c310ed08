"""The examples run, and a loop of PML learns the same with either import."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

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
