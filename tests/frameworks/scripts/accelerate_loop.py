"""Accelerate: a loop of one's own with ``accumulate``, metrics gathered in evaluation and saved state.

usage: accelerate_loop.py FAULT RANK FOLDER      FAULT: none, compute or input, from step 25 of 75
"""

import sys
import time

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, Dataset

FAULT, SLOW, FOLDER = sys.argv[1], int(sys.argv[2]), sys.argv[3]
STEPS, BEGIN = 75, 25


class Samples(Dataset):
    def __init__(self, length):
        self.length, self.wait_s = length, 0.0

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        time.sleep(self.wait_s)
        return torch.randn(256, generator=torch.Generator().manual_seed(index)), index % 10


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        blocks = [nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256)) for _ in range(4)]
        self.body = nn.Sequential(*blocks)
        self.head, self.passes = nn.Linear(256, 10), 1

    def forward(self, x):
        return self.head(sum(self.body(x) for _ in range(self.passes)))


def evaluate(accelerator, model, batches):
    model.eval()
    right = []
    for x, y in batches:
        with torch.no_grad():
            guessed = model(x).argmax(-1)
        guessed, y = accelerator.gather_for_metrics((guessed, y))
        right.append((guessed == y).float())
    model.train()
    return torch.cat(right).mean().item()


accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
torch.manual_seed(0)
network, samples = Network(), Samples(100_000)
optimizer = torch.optim.AdamW(network.parameters(), 1e-3)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=STEPS)
model, optimizer, schedule, batches, held_out = accelerator.prepare(
    network, optimizer, schedule, DataLoader(samples, 128, shuffle=True), DataLoader(Samples(1024), 32)
)

step = 0
for x, y in batches:
    with accelerator.accumulate(model):
        loss = nn.functional.cross_entropy(model(x), y)
        accelerator.backward(loss)
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    if accelerator.sync_gradients:
        step += 1
        if step == BEGIN and accelerator.process_index == SLOW:
            if FAULT == "compute":
                network.passes = 6
            elif FAULT == "input":
                samples.wait_s = 0.0015
        if step % 25 == 0:
            accelerator.print(step, loss.item(), evaluate(accelerator, model, held_out))
            accelerator.save_state(f"{FOLDER}/step-{step}")
    if step == STEPS:
        break
accelerator.end_training()
