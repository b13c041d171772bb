"""SetFit with its defaults, in an environment of its own: a task on stdin as JSON, predictions and times on stdout.

`benchmarks/tuning.py --setfit-python PATH` starts it.
"""

import json
import os
import sys
import time

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import Normalize, Pooling, Transformer
from setfit import SetFitModel, Trainer, TrainingArguments
from sklearn.linear_model import LogisticRegression

torch.set_num_threads(1)


def main() -> None:
    task = json.load(sys.stdin)
    start = time.process_time()
    # The folder holds the weights and no settings of pooling: the mean, of length one, as MiniLM was trained with.
    words = Transformer(task["folder"], max_seq_length=256)
    body = SentenceTransformer(modules=[words, Pooling(384, pooling_mode="mean"), Normalize()], device="cpu")
    model = SetFitModel(model_body=body, model_head=LogisticRegression())
    arguments = TrainingArguments(
        output_dir=task["scratch"], report_to="none", save_strategy="no", seed=task["seed"], show_progress_bar=False
    )
    given = Dataset.from_dict({"text": task["texts"], "label": task["labels"]})
    trainer = Trainer(model, arguments, train_dataset=given)
    trainer.train()
    tuned = time.process_time()
    guesses = [int(guess) for guess in model.predict(task["test"], batch_size=64, show_progress_bar=False)]
    ended = time.process_time()
    print(json.dumps({"guesses": guesses, "tuning": tuned - start, "encoding": ended - tuned}))


if __name__ == "__main__":
    main()
