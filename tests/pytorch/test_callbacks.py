"""Callbacks record steps of trainings by Lightning, Transformers and Accelerate, on the CPU."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import warpline

pytest.importorskip("torch")
pytestmark = [pytest.mark.torch]

HEAD = """
import sys, warnings
warnings.simplefilter("ignore")
import torch
import warpline.torch
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)

class Data(Dataset):
    def __len__(self):
        return 24
    def __getitem__(self, index):
        return torch.full((4,), 1.0 * index)
"""
LIGHTNING = """
from LIGHTNING import LightningModule, Trainer

class Model(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
    def training_step(self, batch, index):
        if self.global_step == BAD:
            raise KeyError
        warpline.mark(f"batch {index}")
        return self.layer(batch).square().mean()
    def validation_step(self, batch, index):
        warpline.mark("validation")
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)

callback = warpline.torch.LightningCallback("run", warmup=WARMUP, active=3, trace="nvtx")
data = DataLoader(Data(), batch_size=2)
model = Model()
quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
try:
    for _ in range(2):
        Trainer(
            accelerator="cpu", callbacks=[callback], accumulate_grad_batches=2, max_epochs=1,
            enable_checkpointing=False, val_check_interval=6, **quiet,
        ).fit(model, data, data)
except KeyError:
    pass
"""
TRANSFORMERS = """
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

class Texts(Data):
    def __getitem__(self, index):
        tokens = super().__getitem__(index).long()
        return {"input_ids": tokens, "labels": tokens}

sizes = {"vocab_size": 32, "n_positions": 8, "n_embd": 8, "n_layer": 1, "n_head": 1}
model = GPT2LMHeadModel(GPT2Config(**sizes))
callback = warpline.torch.TransformersCallback("run", warmup=WARMUP, active=3, trace="nvtx")
arguments = TrainingArguments(
    "out", per_device_train_batch_size=2, gradient_accumulation_steps=2, max_steps=6,
    eval_strategy="steps", eval_steps=3, report_to=[], save_strategy="no", use_cpu=True,
    disable_tqdm=True, logging_strategy="no",
)

class Failing(Trainer):
    def training_step(self, *arguments):
        if self.state.global_step == BAD:
            raise KeyError
        return super().training_step(*arguments)

Failing(
    model, arguments, train_dataset=Texts(), eval_dataset=Texts(), callbacks=[callback]
).train()
"""
ACCELERATE = """
from accelerate import Accelerator

accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer, data = accelerator.prepare(model, optimizer, DataLoader(Data(), batch_size=2))
with warpline.torch.accelerate_profile(
    accelerator, "run", warmup=WARMUP, active=3, trace="nvtx"
) as run:
    for batch in data:
        with accelerator.accumulate(model):
            accelerator.backward(model(batch).square().mean())
            optimizer.step()
            optimizer.zero_grad()
"""


def train(
    folder: Path, text: str, *before: str, warmup: int = 2, bad: int = -1
) -> subprocess.CompletedProcess[str]:
    source = str(Path(warpline.__file__).parents[1])
    path = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
    text = (HEAD + text).replace("WARMUP", str(warmup)).replace("BAD", str(bad))
    return subprocess.run(
        [*before, sys.executable, "-c", text],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1"},
        timeout=120,
    )


def said(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Return Warpline's lines on stderr, without the path."""
    lines = [line for line in done.stderr.splitlines() if line.startswith("warpline: ")]
    return [line.removeprefix("warpline: ").partition("; next")[0] for line in lines]


def steps(path: Path) -> list[str]:
    table = warpline.open(path)["range"].sort("start_ns")
    return [
        name + (" cut" if is_cut else "")
        for name, is_cut in zip(table["name"], table["is_truncated"], strict=True)
    ]


def lightning(name: str = "lightning.pytorch") -> str:
    found = importlib.util.find_spec(name.partition(".")[0])
    if found is None:
        pytest.skip(f"{name} is not installed")
    return LIGHTNING.replace("LIGHTNING", name)


@pytest.mark.parametrize("name", ["lightning.pytorch", "pytorch_lightning"])
def test_lightning_steps_are_updates_and_validation_is_not_recorded(tmp_path, name):
    done = train(tmp_path, lightning(name), warmup=1)
    assert said(done) == ["recorded 2 of 3 steps (validation began)"], done.stderr
    path = tmp_path / "run.warpline"
    assert steps(path) == ["step 1", "step 2"]
    marks = warpline.open(path)["mark"]["name"].to_list()
    assert marks == ["batch 2", "batch 3", "batch 4", "batch 5"]


def test_lightning_ends_a_recording_at_an_exception(tmp_path):
    done = train(tmp_path, lightning(), warmup=3, bad=4)
    assert said(done) == ["recorded 1 of 3 steps (training ended by KeyError)"], done.stderr
    assert steps(tmp_path / "run.warpline") == ["step 3", "step 4 cut"]


def test_a_second_fit_records_if_the_first_one_was_too_short(tmp_path):
    text = lightning().replace("range(2)", "(1, 2)").replace("max_epochs=1", "max_epochs=_")
    done = train(tmp_path, text, warmup=6)
    nothing, recorded = said(done)
    assert nothing.startswith("nothing was recorded: training ended after 6 steps")
    assert recorded == "recorded 3 steps"
    assert steps(tmp_path / "run.warpline") == ["step 6", "step 7", "step 8"]


def test_transformers_steps_are_updates_and_evaluation_is_not_recorded(tmp_path):
    pytest.importorskip("transformers")
    done = train(tmp_path, TRANSFORMERS, warmup=1)
    assert said(done) == ["recorded 2 of 3 steps (evaluation began)"], done.stderr
    assert steps(tmp_path / "run.warpline") == ["step 1", "step 2"]


def test_transformers_training_that_fails_leaves_a_recording(tmp_path):
    pytest.importorskip("transformers")
    done = train(tmp_path, TRANSFORMERS, warmup=3, bad=4)
    assert done.returncode == 1
    assert said(done) == ["recorded 1 of 3 steps (the program ended)"], done.stderr
    assert steps(tmp_path / "run.warpline") == ["step 3", "step 4 cut"]


def test_accelerate_steps_end_with_the_optimizer(tmp_path):
    pytest.importorskip("accelerate")
    done = train(tmp_path, ACCELERATE)
    assert said(done) == ["recorded 3 steps"], done.stderr
    assert steps(tmp_path / "run.warpline") == ["step 2", "step 3", "step 4"]


def test_a_recorded_training_has_ranges_of_all_steps_and_one_recording(tmp_path):
    pytest.importorskip("accelerate")
    profile = ("-m", "warpline", "profile", "-t", "nvtx", "-o", "all", "--quiet")
    done = train(tmp_path, ACCELERATE, sys.executable, *profile)
    assert (done.returncode, said(done)) == (0, []), done.stderr
    assert steps(tmp_path / "all.warpline") == [f"step {number}" for number in range(7)]
    assert not (tmp_path / "run.warpline").exists()
