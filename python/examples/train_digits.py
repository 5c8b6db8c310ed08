"""PML's training loop on scikit-learn's digits, with a miner or a cross-batch memory: `python train_digits.py --memory 1024`.

`--pml` takes every class from pytorch_metric_learning instead of nearfar.pml; nothing else differs.
"""

import argparse
import time

import torch
from sklearn.datasets import load_digits

options = argparse.ArgumentParser(description=__doc__)
options.add_argument("--pml", action="store_true")
options.add_argument("--memory", type=int, default=0)
options.add_argument("--epochs", type=int, default=8)
options.add_argument("--seed", type=int, default=0)
chosen = options.parse_args()

if chosen.pml:
    from pytorch_metric_learning import losses, miners
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
else:
    from nearfar import pml as losses
    from nearfar import pml as miners
    from nearfar.pml import AccuracyCalculator

torch.manual_seed(chosen.seed)
features, labels = (torch.from_numpy(array) for array in load_digits(return_X_y=True))
features = features.float() / 16
order = torch.randperm(len(labels))
train, test = order[:1200], order[1200:]

model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 32))
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
miner = miners.TripletMarginMiner(margin=0.2, type_of_triplets="semihard")
loss = losses.TripletMarginLoss(margin=0.2)
if chosen.memory:
    memory = losses.CrossBatchMemory(loss, embedding_size=32, memory_size=chosen.memory, miner=miner)

steps = []
for _ in range(chosen.epochs):
    for rows in train[torch.randperm(len(train))].split(64):
        began = time.perf_counter()
        embeddings = model(features[rows])
        if chosen.memory:
            value = memory(embeddings, labels[rows])
        else:
            mined = miner(embeddings, labels[rows])
            value = loss(embeddings, labels[rows], mined)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        steps.append(time.perf_counter() - began)

calculator = AccuracyCalculator(include=("precision_at_1", "mean_average_precision_at_r"), device=torch.device("cpu"))
with torch.no_grad():
    scores = calculator.get_accuracy(model(features[test]), labels[test])
print(f"precision@1 {scores['precision_at_1']:.4f}, MAP@R {scores['mean_average_precision_at_r']:.4f}, "
      f"{1000 * sorted(steps)[len(steps) // 2]:.1f} ms a step")
