"""Hugging Face's Trainer with Paceline's callback; what it logged goes to a file: callback_huggingface.py FOLDER."""

import json
import os
import sys
import time

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

from paceline.integrations.huggingface import PacelineCallback


class Text(Dataset):
    def __len__(self):
        return 10_000

    def __getitem__(self, index):
        time.sleep(0.02)
        tokens = torch.randint(0, 500, (32,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": tokens, "labels": tokens}


if __name__ == "__main__":
    config = GPT2Config(vocab_size=500, n_positions=32, n_embd=32, n_layer=1, n_head=2)
    arguments = TrainingArguments(
        sys.argv[1],
        max_steps=80,
        per_device_train_batch_size=4,
        logging_steps=10,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
    )
    trainer = Trainer(GPT2LMHeadModel(config), arguments, train_dataset=Text())
    PacelineCallback.add_to(trainer)
    trainer.train()
    if int(os.environ.get("RANK", "0")) == 0:
        with open(os.path.join(sys.argv[1], "log.json"), "w") as file:
            json.dump(trainer.state.log_history, file)
