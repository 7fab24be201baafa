"""The calls of modules are ranges with their paths, and programs are as without them."""

from __future__ import annotations

import json

import pytest
from pytorch import recorded
from pytorch.recorded import PATHS, names, sequences

pytest.importorskip("torch")
pytestmark = [pytest.mark.torch]


def test_a_training_step(tmp_path):
    code = """
from torch.utils.data import DataLoader
model = GPT()
optimizer = torch.optim.AdamW(model.parameters())
losses = []
for batch in DataLoader(tokens.repeat(2, 1), batch_size=2):
    output = model(batch)
    loss = nn.CrossEntropyLoss()(output.flatten(0, 1), batch.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.item())
print(losses)
"""
    found = recorded.run(tmp_path, code)
    assert found.out == found.plain
    assert sorted(names(found.trace)) == sorted([*PATHS, "CrossEntropyLoss"] * 2)
    assert sorted(set(names(found.trace, "torch"))) == [
        "Optimizer.step#AdamW.step",
        "Optimizer.zero_grad#AdamW.zero_grad",
        "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
    ]
    assert len(names(found.trace, "torch")) == 2 + 2 + 3
    modules = {row["name"]: row for row in found.trace["module"].to_dicts()}
    assert sorted(modules) == sorted(["CrossEntropyLoss", "GPT.blocks", *PATHS])
    head = modules["GPT.head"]
    assert (head["class_name"], head["parameters"], head["parameter_bytes"]) == ("Linear", 144, 576)
    assert head["is_training"]
    assert modules["GPT"]["parameters"] == 0


def test_modules_that_lightning_steps_call_have_the_path_of_the_model(tmp_path):
    pytest.importorskip("lightning", exc_type=ImportError)
    code = """
from lightning.pytorch import LightningModule, Trainer
class Model(LightningModule):
    def __init__(self):
        super().__init__()
        self.gpt, self.loss = GPT(), nn.CrossEntropyLoss()
    def training_step(self, batch, index):
        return self.loss(self.gpt(batch[0]).flatten(0, 1), batch[0].flatten())
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(tokens), batch_size=2)
quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
Trainer(accelerator="cpu", max_epochs=1, enable_checkpointing=False, **quiet).fit(Model(), data)
"""
    found = recorded.run(tmp_path, code)
    called = names(found.trace)
    assert called[:3] == ["Model.training_step", "Model.gpt", "Model.gpt.embed"]
    assert called[-1] == "Model.loss"
    classes = {row["name"]: row["class_name"] for row in found.trace["module"].to_dicts()}
    assert classes["Model"] == "Model"


def test_what_generate_does_between_calls_of_the_model_is_in_a_range(tmp_path):
    pytest.importorskip("transformers")
    code = """
from transformers import GPT2Config, GPT2LMHeadModel
model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_embd=8, n_head=2, vocab_size=16)).eval()
made = model.generate(tokens, max_new_tokens=3, min_new_tokens=3, do_sample=False, pad_token_id=0)
print(made.tolist())
"""
    found = recorded.run(tmp_path, code)
    assert found.out == found.plain
    assert names(found.trace)[:2] == ["GPT2LMHeadModel.generate", "GPT2LMHeadModel"]
    assert names(found.trace).count("GPT2LMHeadModel") == 3
    modules = {row["name"]: row["class_name"] for row in found.trace["module"].to_dicts()}
    assert modules["GPT2LMHeadModel.generate"] == "GPT2LMHeadModel.generate"
    assert modules["GPT2LMHeadModel.transformer.wte"] == "Embedding"


def test_marks_of_optimizers_are_recorded_beside_operators(tmp_path):
    code = """
model = GPT()
optimizer = torch.optim.AdamW(model.parameters())
model(tokens).sum().backward()
optimizer.step()
"""
    found = recorded.run(tmp_path, code, words="optimizer,autograd-shapes-nvtx")
    assert not any("stopped" in warning for warning in found.trace.meta.warnings)
    assert "Optimizer.step#AdamW.step" in names(found.trace, "torch")


def test_numbers_of_backward_nodes_are_in_the_ranges_of_their_modules(tmp_path):
    code = """
import json
model, made = GPT(), []

def keep(name):
    return lambda module, given, output: made.append((name, output.grad_fn._sequence_nr()))

for name, module in model.named_modules():
    if not isinstance(module, nn.ModuleList):
        module.register_forward_hook(keep(f"GPT.{name}".rstrip(".")))
for _ in range(2):
    model(tokens)
print(json.dumps(made))
"""
    found = recorded.run(tmp_path, code)
    ranges = sequences(found.trace)
    made = [tuple(item) for item in json.loads(found.out)]
    assert len(made) == len(ranges) == 2 * len(PATHS)
    for name, number in made:
        assert any(path == name and first <= number < last for path, first, last in ranges)


def test_paths_of_uncommon_modules(tmp_path):
    code = """
import copy, gc, pickle, weakref

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.tied = nn.Linear(4, 4), nn.Linear(4, 4)
        self.again = self.tied
        self.listed = [nn.Linear(4, 4)]
        self.lazy = nn.LazyLinear(4)

    def forward(self, x):
        x = self.again(self.tied(self.a(x)))
        x = self.lazy(self.listed[0](x))
        return nn.Dropout(0.0)(x)

x = torch.ones(2, 4)
net = Net()
net(x)
net.a = nn.Linear(4, 4)       # replaced
net(x)
copied = copy.deepcopy(net)   # another root, as long as both live
copied(x)
net.a(x)                      # by its path, also on its own
dead = weakref.ref(copied.a)
del copied
gc.collect()
print(dead() is None)
Net()(x)                      # the number is free again
pickle.loads(pickle.dumps(net))
print(sorted(vars(net)) == sorted(vars(Net())), len(net.state_dict()))

def generate(module, x):
    yield module(x)
next(generate(net.a, x))
try:
    net("no tensor")
except TypeError as error:
    print(type(error).__name__)
wrapped = torch.optim.swa_utils.AveragedModel(nn.Sequential(nn.Linear(4, 4)))
wrapped(x)
"""
    found = recorded.run(tmp_path, code)
    assert found.out == found.plain
    parts = ["", ".a", ".tied", ".tied", ".(Linear)", ".lazy", ".(Dropout)"]
    net = [f"Net{part}" for part in parts]
    second = [name.replace("Net", "Net#2") for name in net]
    assert names(found.trace) == [
        *net,
        *net,
        *second,
        "Net.a",
        *second,
        "Net.a",
        *["Net", "Net.a"],
        *["AveragedModel", "Sequential", "Sequential.0"],
    ]
    assert not found.trace["range"]["is_truncated"].any()
    rows = {row["name"]: row["parameters"] for row in found.trace["module"].to_dicts()}
    assert rows["Net.lazy"] is None
    assert rows["Sequential.0"] == 20


def test_threads_forks_and_recomputation(tmp_path):
    code = """
import os, threading
from torch.utils.checkpoint import checkpoint
model = GPT()
threads = [threading.Thread(target=model, args=(tokens,)) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
if os.fork() == 0:
    model(tokens)
    os._exit(0)
os.wait()
x = torch.ones(2, 4, 8, requires_grad=True)
checkpoint(model.blocks[0], x, use_reentrant=False).sum().backward()
"""
    found = recorded.run(tmp_path, code)
    block = [path for path in PATHS if path.startswith("GPT.blocks.0")]
    assert sorted(names(found.trace)) == sorted([*PATHS * 3, *block * 2])
    assert len(found.trace["process"]) == 2


def test_what_traces_and_transforms_modules_is_as_without_ranges(tmp_path):
    code = """
from torch.func import functional_call, vmap, grad
model = GPT().eval()
scripted = torch.jit.script(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
print(scripted(torch.ones(1, 4)).sum().item())
print(torch.jit.trace(model, tokens).code)
print(torch.fx.symbolic_trace(model.head).code)
print(torch.export.export(model, (tokens,)).graph_module.code)
print(torch.export.export(model, (tokens,), strict=True).graph_module.code)
parameters = dict(model.named_parameters())
loss = lambda p, x: functional_call(model, p, (x[None],)).sum()
print({k: v.sum().item() for k, v in vmap(grad(loss), (None, 0))(parameters, tokens).items()})

@torch.jit.script
def marked(x):
    with torch.autograd.profiler.record_function("scripted"):
        return x + 1
print(marked(torch.ones(1)))
"""
    found = recorded.run(tmp_path, code)
    assert found.out == found.plain
