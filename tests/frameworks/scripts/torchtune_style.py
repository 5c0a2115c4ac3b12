"""A fine-tuning recipe as torchtune writes them: one loop over batches, tokens and losses summed over all ranks.

usage: torchtune_style.py FAULT RANK FOLDER MODE      FAULT: none, compute or input, from step 25 of 75
MODE: accumulate (an optimizer step every second batch), or in_backward (an optimizer for each weight, in its hook)
"""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, Dataset, DistributedSampler

FAULT, SLOW, FOLDER, MODE = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
STEPS, BEGIN, WIDTH, IGNORED = 75, 25, 192, -100
IN_BACKWARD = MODE == "in_backward"
ACCUMULATED = 1 if IN_BACKWARD else 2


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))


class Sentences(Dataset):
    def __init__(self, recipe):
        self.recipe = recipe

    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        if self.recipe.slow("input"):
            time.sleep(0.03)
        tokens = torch.randint(256, (25,), generator=torch.Generator().manual_seed(index))
        return {"tokens": tokens[:-1], "labels": tokens[1:].masked_fill(tokens[1:] < 16, IGNORED)}


class Recipe:
    """Full fine-tuning, distributed."""

    def __init__(self):
        self.global_step = 0

    def slow(self, fault):
        return fault == FAULT and dist.get_rank() == SLOW and self.global_step >= BEGIN

    def setup(self):
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Embedding(256, WIDTH), *[Block() for _ in range(4)], nn.Linear(WIDTH, 256))
        for block in list(self.model)[1:-1]:
            fully_shard(block)
        fully_shard(self.model)
        self.loss = nn.CrossEntropyLoss(ignore_index=IGNORED, reduction="sum")
        if IN_BACKWARD:
            each = {weight: torch.optim.AdamW([weight], lr=1e-4) for weight in self.model.parameters()}

            def step_and_clear(weight):
                each[weight].step()
                each[weight].zero_grad()

            for weight in each:
                weight.register_post_accumulate_grad_hook(step_and_clear)
        else:
            self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        sentences = Sentences(self)
        sampler = DistributedSampler(sentences, shuffle=True, seed=0)
        self.dataloader = DataLoader(sentences, batch_size=4, sampler=sampler, drop_last=True)

    def loss_step(self, batch):
        labels = batch.pop("labels")
        logits = self.model(batch["tokens"])
        if self.slow("compute"):
            y = torch.randn(384, 384)
            for _ in range(80):
                y = torch.tanh(y @ y)
        return self.loss(logits.flatten(0, 1), labels.flatten())

    def train(self):
        running_loss, num_tokens = 0, torch.tensor(0)
        self.began = time.perf_counter()
        for idx, batch in enumerate(self.dataloader):
            num_tokens += (batch["labels"] != IGNORED).sum()
            current_loss = self.loss_step(batch)
            running_loss += current_loss.detach()
            if IN_BACKWARD:
                dist.all_reduce(num_tokens)
                dist.all_reduce(running_loss)
                current_loss = current_loss * (dist.get_world_size() / num_tokens)
            current_loss.backward()
            if (idx + 1) % ACCUMULATED == 0:
                if not IN_BACKWARD:
                    dist.all_reduce(num_tokens)
                    dist.all_reduce(running_loss)
                    for weight in self.model.parameters():
                        weight.grad *= dist.get_world_size() / num_tokens
                    torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                    self.optimizer.step()
                    self.optimizer.zero_grad(set_to_none=True)
                self.global_step += 1
                self.log(running_loss.item() / num_tokens)
                running_loss, num_tokens = 0, torch.tensor(0)
                if self.global_step == 50:
                    self.save()
                if self.global_step == STEPS:
                    return

    def log(self, loss):
        if dist.get_rank() == 0:
            os.makedirs(FOLDER, exist_ok=True)
            took, self.began = time.perf_counter() - self.began, time.perf_counter()
            with open(f"{FOLDER}/log.txt", "a") as file:
                file.write(f"Step {self.global_step} | loss:{loss:.4f} seconds:{took:.4f}\n")

    def save(self):
        weights = {name: weight.full_tensor() for name, weight in self.model.state_dict().items()}
        if dist.get_rank() == 0:
            torch.save(weights, os.path.join(FOLDER, "epoch_0.pt"))
        dist.barrier()


dist.init_process_group("gloo")
recipe = Recipe()
recipe.setup()
recipe.train()
dist.destroy_process_group()
