"""Hugging Face Trainer: a small GPT-2 from its config, gradient accumulation, evaluations and checkpoints.

usage: huggingface_trainer.py FAULT RANK FOLDER      FAULT: none, compute or input, from step 25 of 75
"""

import sys
import time

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

FAULT, SLOW, FOLDER = sys.argv[1], int(sys.argv[2]), sys.argv[3]
STEPS, BEGIN, TOKENS = 75, 25, 64


class Text(Dataset):
    def __init__(self, length):
        self.length, self.wait_s = length, 0.0

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        time.sleep(self.wait_s)
        tokens = torch.randint(0, 500, (TOKENS,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": tokens, "labels": tokens}


class Model(GPT2LMHeadModel):
    passes = 1

    def forward(self, input_ids=None, labels=None, **kwargs):
        for _ in range(self.passes):
            output = super().forward(input_ids=input_ids, labels=labels, **kwargs)
        return output


class TurnsSlow(TrainerCallback):
    def __init__(self, text):
        self.text = text

    def on_step_end(self, args, state, control, model, **kwargs):
        if state.global_step == BEGIN and args.process_index == SLOW:
            if FAULT == "compute":
                model.passes = 6
            elif FAULT == "input":
                self.text.wait_s = 0.015


text = Text(100_000)
config = GPT2Config(vocab_size=500, bos_token_id=0, eos_token_id=0, n_positions=TOKENS, n_embd=128, n_layer=3, n_head=4)
arguments = TrainingArguments(
    output_dir=FOLDER,
    max_steps=STEPS,
    per_device_train_batch_size=4,
    gradient_accumulation_steps=2,
    eval_strategy="steps",
    eval_steps=20,
    save_steps=30,
    logging_steps=10,
    use_cpu=True,
    report_to=[],
    disable_tqdm=True,
)
trainer = Trainer(
    model=Model(config),
    args=arguments,
    train_dataset=text,
    eval_dataset=Text(64),
    callbacks=[TurnsSlow(text)],
)
trainer.train()
