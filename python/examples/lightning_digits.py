"""Retrieval metrics in a loop of Lightning, over the whole validation set: `python lightning_digits.py --devices 2`."""

import argparse

import pytorch_lightning as lightning
import torch
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

from nearfar.pml import SupConLoss
from nearfar.torchmetrics import RetrievalMetrics


class Digits(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 16))
        self.loss = SupConLoss()
        self.metrics = RetrievalMetrics(prefix="val_", budget="64MiB", engine="cpu")

    def training_step(self, batch, _):
        features, labels, _ = batch
        return self.loss(self.net(features), labels)

    def validation_step(self, batch, _):
        features, labels, ids = batch
        self.metrics.update(self.net(features), labels, ids)

    def on_validation_epoch_end(self):
        # They are the same on every rank.
        self.log_dict(self.metrics.compute(), sync_dist=True)
        self.metrics.reset()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.003)


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--devices", type=int, default=1)
    options.add_argument("--epochs", type=int, default=2)
    chosen = options.parse_args()
    lightning.seed_everything(0, verbose=False)
    features, labels = (torch.from_numpy(array) for array in load_digits(return_X_y=True))
    data = TensorDataset(features.float() / 16, labels, torch.arange(len(labels)))
    train, test = (torch.utils.data.Subset(data, range(start, len(labels), 2)) for start in (0, 1))
    trainer = lightning.Trainer(
        accelerator="cpu", devices=chosen.devices, max_epochs=chosen.epochs, num_sanity_val_steps=0, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )
    model = Digits()
    trainer.fit(model, DataLoader(train, 128, shuffle=True), DataLoader(test, 256))
    (scores,) = trainer.validate(model, DataLoader(test, 256), verbose=False)
    if trainer.is_global_zero:
        print(f"precision@1 {scores['val_precision_at_1']:.4f}, MAP@R {scores['val_map_at_r']:.4f}")
