"""Libraries upon PyTorch in the harm test: python -m gpu.harm.torch_libraries NAME."""

from __future__ import annotations

import tempfile
from typing import Any

import torch
from gpu.harm.telling import DEVICE, STEPS, run, tell
from gpu.harm.torch_programs import make_batch, make_model, tell_tensors
from torch import nn

Batch = tuple[torch.Tensor, torch.Tensor]


def batches() -> torch.utils.data.DataLoader[Any]:
    """Return a loader of the batches, each of which is one item."""
    return torch.utils.data.DataLoader([make_batch(i) for i in range(STEPS)], batch_size=None)


def lightning() -> None:
    """Lightning's Trainer, without logger and checkpoints."""
    import lightning as pl

    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = make_model()

        def training_step(self, batch: Batch, number: int) -> torch.Tensor:
            loss = nn.functional.cross_entropy(self.model(batch[0]), batch[1])
            tell(f"step {number} loss {loss.item().hex()}")
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.AdamW(self.parameters(), lr=1e-3)

    module = Module()
    with tempfile.TemporaryDirectory() as folder:
        trainer = pl.Trainer(
            max_epochs=2,
            accelerator="gpu" if DEVICE == "cuda" else "cpu",
            devices=1,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=folder,
        )
        trainer.fit(module, batches())
    tell_tensors("parameters", module.parameters())


def accelerate() -> None:
    """Accelerate's loop with gradients accumulated over two steps."""
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=DEVICE == "cpu", gradient_accumulation_steps=2)
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model, optimizer, loader = accelerator.prepare(model, optimizer, batches())
    for number, (x, labels) in enumerate(loader):
        with accelerator.accumulate(model):
            loss = nn.functional.cross_entropy(model(x), labels)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        tell(f"step {number} loss {loss.item().hex()}")
    tell_tensors("parameters", model.parameters())


def generate() -> None:
    """Transformers: tokens from a small random model with a static cache, which it compiles."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(11)
    config = LlamaConfig(
        vocab_size=128,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=None,
    )
    model = LlamaForCausalLM(config).to(DEVICE).eval()
    prompt = (torch.arange(16).reshape(2, 8) * 7 % 127 + 1).to(DEVICE)
    for _ in range(2):
        with torch.no_grad():
            tokens = model.generate(
                prompt,
                attention_mask=torch.ones_like(prompt),
                max_new_tokens=24,
                do_sample=False,
                cache_implementation="static",
            )
        tell(" ".join(map(str, tokens.flatten().tolist())))
    tell_tensors("tokens", [tokens])


PROGRAMS = (lightning, accelerate, generate)

if __name__ == "__main__":
    run({program.__name__: program for program in PROGRAMS})
