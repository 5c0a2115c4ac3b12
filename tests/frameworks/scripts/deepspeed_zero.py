"""DeepSpeed's engine with ZeRO, gradient accumulation, clipping and checkpoints; a script as its users write them.

usage: deepspeed_zero.py FAULT RANK FOLDER STAGE      FAULT: none, compute or input, from step 25 of 75; STAGE: 1 to 3
"""

import sys
import time

import deepspeed
import torch
from deepspeed.utils import RepeatingLoader
from torch import nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler

FAULT, SLOW, FOLDER, STAGE = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
STEPS, BEGIN, MICROBATCHES, WIDTH = 75, 25, 2, 192
CONFIG = {
    "train_micro_batch_size_per_gpu": 32,
    "gradient_accumulation_steps": MICROBATCHES,
    "gradient_clipping": 1.0,
    "optimizer": {"type": "AdamW", "params": {"lr": 1e-3, "torch_adam": True}},
    "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 10}},
    "zero_optimization": {"stage": STAGE},
    "bf16": {"enabled": True},
    "steps_per_print": 25,
}
step = 0


def slow(fault):
    return fault == FAULT and torch.distributed.get_rank() == SLOW and step >= BEGIN


class Samples(Dataset):
    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        if slow("input"):
            time.sleep(0.004)
        return torch.randn(WIDTH, generator=torch.Generator().manual_seed(index)).bfloat16(), index % 10


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        if self.training and slow("compute"):
            y = torch.randn(320, 320)
            for _ in range(20):
                y = torch.tanh(y @ y)
        return x + self.down(torch.relu(self.up(self.norm(x))))


deepspeed.init_distributed("gloo")
torch.manual_seed(0)
model = nn.Sequential(*[Block() for _ in range(4)], nn.Linear(WIDTH, 10))
engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=CONFIG)
criterion = nn.CrossEntropyLoss()
samples = Samples()
batches = iter(RepeatingLoader(DataLoader(samples, batch_size=32, sampler=DistributedSampler(samples))))

for step in range(STEPS):
    for _ in range(MICROBATCHES):
        x, y = next(batches)
        loss = criterion(engine(x.to(engine.device)).float(), y.to(engine.device))
        engine.backward(loss)
        engine.step()
    if step == 50:
        engine.save_checkpoint(FOLDER)

engine.destroy()
torch.distributed.destroy_process_group()
