"""Lightning: a module, a Trainer with DDP, validation four times in an epoch, and checkpoints of its own.

usage: lightning_ddp.py FAULT RANK FOLDER      FAULT: none, compute or input, from step 25 of 80
"""

import sys
import time

import lightning as L  # noqa: N812 - as its users do
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

FAULT, SLOW, FOLDER = sys.argv[1], int(sys.argv[2]), sys.argv[3]
STEPS, BEGIN, BATCH, RANKS = 80, 25, 128, 4


class Samples(Dataset):
    def __init__(self, length):
        self.length, self.wait_s = length, 0.0

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        time.sleep(self.wait_s)
        return torch.randn(256, generator=torch.Generator().manual_seed(index)), index % 10


class Classifier(L.LightningModule):
    def __init__(self):
        super().__init__()
        blocks = [nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256)) for _ in range(4)]
        self.body = nn.Sequential(*blocks)
        self.head = nn.Linear(256, 10)
        self.passes = 1

    def forward(self, x):
        return self.head(sum(self.body(x) for _ in range(self.passes)))

    def training_step(self, batch, batch_index):
        x, y = batch
        loss = nn.functional.cross_entropy(self(x), y)
        self.log("loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, batch_index):
        x, y = batch
        self.log("val_loss", nn.functional.cross_entropy(self(x), y), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), 1e-3)


class Data(L.LightningDataModule):
    def setup(self, stage):
        self.train, self.held_out = Samples(STEPS * BATCH * RANKS), Samples(4 * BATCH * RANKS)

    def train_dataloader(self):
        return DataLoader(self.train, BATCH, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.held_out, BATCH)


class TurnsSlow(L.Callback):
    def on_train_batch_start(self, trainer, module, batch, batch_index):
        if trainer.global_step == BEGIN and trainer.global_rank == SLOW:
            if FAULT == "compute":
                module.passes = 6
            elif FAULT == "input":
                trainer.datamodule.train.wait_s = 0.0015


if __name__ == "__main__":
    L.seed_everything(0)
    trainer = L.Trainer(
        accelerator="cpu",
        devices=RANKS,
        strategy="ddp",
        max_epochs=1,
        val_check_interval=20,
        log_every_n_steps=10,
        default_root_dir=FOLDER,
        callbacks=[TurnsSlow()],
        logger=False,
    )
    trainer.fit(Classifier(), datamodule=Data())
