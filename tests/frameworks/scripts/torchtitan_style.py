"""FSDP2 over compiled, checkpointed blocks, as torchtitan trains: its wrappers, its loop, its garbage collector.

usage: torchtitan_style.py FAULT RANK FOLDER      FAULT: none, compute or input, from step 25 of 75
"""

import gc
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.checkpoint.state_dict import get_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils.data import DataLoader, IterableDataset

FAULT, SLOW, FOLDER = sys.argv[1], int(sys.argv[2]), sys.argv[3]
STEPS, BEGIN, MICROBATCHES = 75, 25, 2
WORDS, WIDTH, HEADS, LAYERS, LENGTH, BATCH = 512, 128, 4, 4, 64, 4
step = 0


def slow(fault):
    return fault == FAULT and dist.get_rank() == SLOW and step >= BEGIN


class Texts(IterableDataset):
    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)

    def __iter__(self):
        while True:
            if slow("input"):
                time.sleep(0.04)
            tokens = torch.randint(WORDS, (LENGTH + 1,), generator=self.generator)
            yield {"input": tokens[:-1]}, tokens[1:]


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, WIDTH))


class TransformerBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.attention_norm, self.ffn_norm = Attention(), nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.w1, self.w2 = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.w2(nn.functional.silu(self.w1(self.ffn_norm(x))))


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embeddings, self.output = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
        self.layers = nn.ModuleDict({str(layer): TransformerBlock() for layer in range(LAYERS)})
        self.norm = nn.RMSNorm(WIDTH)

    def forward(self, tokens):
        h = self.embeddings(tokens)
        for layer in self.layers.values():
            h = layer(h)
            if slow("compute"):
                y = torch.randn(320, 320)
                for _ in range(40):
                    y = torch.tanh(y @ y)
        return self.output(self.norm(h))


def parallelize(model, mesh):
    for name, block in model.layers.named_children():
        block = checkpoint_wrapper(block, preserve_rng_state=False)
        block.compile(fullgraph=True)
        model.layers.register_module(name, block)
    policy = {"mesh": mesh, "mp_policy": MixedPrecisionPolicy(torch.bfloat16, torch.float32)}
    for block in model.layers.values():
        fully_shard(block, **policy, reshard_after_forward=True)
    fully_shard([model.norm, model.output], **policy, reshard_after_forward=False)
    fully_shard(model, **policy)


def batch_generator(loader):
    for inputs, labels in loader:
        yield {name: tensor.to("cpu") for name, tensor in inputs.items()}, labels.to("cpu")


dist.init_process_group("gloo")
gc.disable()
gc.collect(1)
mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("dp_shard",))
torch.manual_seed(0)
with torch.device("meta"):
    model = Transformer()
parallelize(model, mesh["dp_shard"])
model.to_empty(device="cpu")
for weight in model.parameters():
    nn.init.normal_(weight, std=0.02)
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda index: min(1.0, (index + 1) / 10))
saving = dist.new_group(backend="gloo")
batches = batch_generator(DataLoader(Texts(dist.get_rank()), batch_size=BATCH))
saved = None

for step in range(STEPS):
    if step % 20 == 1:
        gc.collect(1)
    optimizer.zero_grad()
    losses = []
    for _ in range(MICROBATCHES):
        inputs, labels = next(batches)
        prediction = model(inputs["input"])
        loss = nn.functional.cross_entropy(prediction.flatten(0, 1).float(), labels.flatten(0, 1)) / MICROBATCHES
        del prediction
        loss.backward()
        losses.append(loss.detach())
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if saved is not None:
        saved.result()
        saved = None
    optimizer.step()
    scheduler.step()
    if step % 10 == 0:
        mean = funcol.all_reduce(torch.stack(losses).sum(), "avg", mesh).item()
        if dist.get_rank() == 0:
            print(f"step: {step}  loss: {mean:.4f}", flush=True)
    if step == 40:
        weights, moments = get_state_dict(model, optimizer)
        state = {"model": weights, "optimizer": moments}
        saved = dcp.async_save(state, checkpoint_id=f"{FOLDER}/step-{step}", process_group=saving)

dist.destroy_process_group()
