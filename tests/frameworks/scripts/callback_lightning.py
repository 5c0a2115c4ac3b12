"""Lightning with Paceline's callback and its CSV logger, on two ranks: callback_lightning.py FOLDER."""

import sys
import time

import lightning as L  # noqa: N812 - as its users do
import torch
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from paceline.integrations.lightning import PacelineCallback


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(256, 10)

    def training_step(self, batch, batch_index):
        time.sleep(0.1)
        x, y = batch
        return nn.functional.cross_entropy(self.head(x), y)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 1e-3)


if __name__ == "__main__":
    samples = TensorDataset(torch.randn(80 * 16 * 2, 256), torch.randint(10, (80 * 16 * 2,)))
    trainer = L.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_epochs=1,
        callbacks=[PacelineCallback()],
        logger=CSVLogger(sys.argv[1], name="", version="", flush_logs_every_n_steps=1),
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(Classifier(), DataLoader(samples, 16))
