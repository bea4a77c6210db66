# SPDX-License-Identifier: Apache-2.0
#
# The module `ashlar` compiles, plans and runs (docs/howto/install.md, "From Python"), with the programs of the build; its errors are the
# compiler's lines.

. "$(dirname "$0")/common.sh"
source=$(cd "$jobs/../.." && pwd)
export ASHLAR_PREFIX=$tools/.. PYTHONPATH=$source/python:$PYTHONPATH

"$tools/ashlar-zoo" mlp -o mlp.onnx
cat > use.py <<'PY'
import contextlib
import io
import json
import os
import sys
from types import SimpleNamespace

import ashlar

jobs = sys.argv[1]
job = open(f"{jobs}/mlp.txtpb").read()  # its text
assert ashlar.version().startswith("ashlarc "), ashlar.version()

rows = ashlar.plan("mlp.onnx", job, mesh=["dp=2", "dp=4"])
assert sorted(row["devices"] for row in rows) == [2, 4], rows
assert all(row["step_ns"] > 0 and row["memory"]["bytes"] > 2.6e6 for row in rows), rows

# The example of the page, up to its compilation: a row for each mesh.
page = open(f"{jobs}/../howto/install.md").read()
example = page.split("```python\n")[1].split("ashlar.compile(")[0]
printed = io.StringIO()
with contextlib.redirect_stdout(printed):
    exec(example, {})
assert len(printed.getvalue().splitlines()) == 3, printed.getvalue()

path = ashlar.compile("mlp.onnx", f"{jobs}/mlp.txtpb", "two", mesh="dp=2", report="report.json")
assert path == "two" and os.access(path, os.X_OK) and os.path.exists("report.json")
ashlar.compile("mlp.onnx", job, "four")
two, four = ashlar.run("two", ranks=2, steps=20, eval=True, checkpoint_dir="ck"), ashlar.run("four", ranks=4, steps=20)
assert "eval: loss is" in two.output, two.output
losses = [[line["loss"] for line in run.metrics if "step" in line and "loss" in line][:2] for run in (two, four)]
exported = ashlar.run("two", ranks=2, resume="latest", checkpoint_dir="ck", export="trained.onnx")  # trains nothing
assert exported.metrics == [] and os.path.exists("trained.onnx"), exported.output
assert len(losses[0]) == 2 and all(abs(a - b) < 1e-4 * a for a, b in zip(*losses)), losses


class Model:  # an onnx.ModelProto
    def __init__(self, *tensors):
        self.graph = SimpleNamespace(initializer=tensors)

    def SerializeToString(self):
        return open("mlp.onnx", "rb").read()


ashlar.compile(Model(), job, "proto")
assert open("proto", "rb").read() == open("four", "rb").read()


def expect_error(text, function, *args, **options):
    try:
        function(*args, **options)
    except ashlar.Error as error:
        assert text in str(error) and not str(error).startswith("error:") and "\n" not in str(error), str(error)
    else:
        raise AssertionError(f"no error with {text}")


expect_error("the memory is 1.00 MB", ashlar.compile, "mlp.onnx", job, "none", memory="1MB")
expect_error("missing.onnx", ashlar.plan, "missing.onnx", job)
expect_error("--bogus", ashlar.run, "two", ranks=2, bogus=1)
assert not os.path.exists("none")
expect_error("/nowhere: No such file or directory", ashlar.run, "nowhere")
expect_error("/mlp.onnx: Permission denied", ashlar.run, "mlp.onnx")
expect_error("cannot start no-mpirun: No such file", ashlar.run, "two", ranks=2, launcher=("no-mpirun",))
for ranks in (0, -1, 1.5, "2"):
    expect_error(f"ranks is {ranks!r}", ashlar.run, "two", ranks=ranks)
expect_error("fc1.weight is in a file of external data", ashlar.compile, Model(SimpleNamespace(name="fc1.weight", data_location=1, EXTERNAL=1)), job, "none")

# The lines of a file of the user's; a file that the text of a job names, in the current folder.
assert ashlar.run("two", ranks=2, steps=20, metrics="m.jsonl").metrics == [json.loads(line) for line in open("m.jsonl")] != []
pipelined = open(f"{jobs}/mlp_pipeline_1f1b.txtpb").read()
ashlar.compile("mlp.onnx", pipelined, "saved", save_order="order.txt")
ashlar.compile("mlp.onnx", pipelined.replace("schedule: ONE_F_ONE_B", 'order: "order.txt"'), "ordered")
expect_error("other.txt", ashlar.plan, "mlp.onnx", pipelined.replace("schedule: ONE_F_ONE_B", 'order: "other.txt"'))

# A prefix: none, or the place of the programs.
for prefix in ("nowhere", ""):
    os.environ["ASHLAR_PREFIX"], before = prefix, os.environ["ASHLAR_PREFIX"]
    expect_error(f"ASHLAR_PREFIX is {prefix}, and" if prefix else "neither in", ashlar.version)
    os.environ["ASHLAR_PREFIX"] = before
PY
cat > use_torch.py <<'PY'
import os
import sys

try:
    import torch
    from torch import nn
except ImportError:
    sys.exit(print("skipped: from_torch needs PyTorch, which is not installed"))
import ashlar
import numpy

torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10)).train()
images = numpy.random.default_rng(0).standard_normal((64, 1, 8, 8)).astype(numpy.float32)
labels = images.reshape(64, 8, 8).mean(1).argmax(1).astype(numpy.int64)
os.makedirs("data", exist_ok=True)
for split in ("train", "eval"):
    numpy.save(f"data/image_{split}.npy", images)
    numpy.save(f"data/label_{split}.npy", labels)
job = """global_batch: 16 log_every: 1
loss { softmax_cross_entropy { logits: "logits" labels: "labels" } }
optimizer { momentum { momentum: 0.9 } learning_rate: 0.05 }
init { match: "4.bias" fill: 0 }
dataset { npy {} shuffle: false features { column: "image" tensor: "image" } features { column: "label" tensor: "labels" } }"""
with torch.no_grad():
    model[4].bias.zero_()  # as the job's rule has it, by the parameter's name
ashlar.from_torch(model, (torch.randn(4, 1, 8, 8),), job, "net", input_names=["image"], output_names=["logits"])
ours = [line["loss"] for line in ashlar.run("net", steps=4, data="data").metrics]
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for step, loss in enumerate(ours):
    x, y = (torch.tensor(array[16 * step:16 * step + 16]) for array in (images, labels))
    optimizer.zero_grad()
    theirs = nn.functional.cross_entropy(model(x), y)
    theirs.backward()
    optimizer.step()
    assert abs(loss - theirs.item()) < 1e-5 * theirs.item(), (step, loss, theirs.item())
assert len(ours) == 4, ours
PY
python3 use_torch.py || fail "a module of PyTorch does not train to PyTorch's losses"
python3 use.py "$jobs" || fail "the module does not do what its page says"

# The package's own command, where it is the only ashlarc.
mkdir -p commands
printf '#!%s\nfrom ashlar.programs import ashlarc\nashlarc()\n' "$(python3 -c 'import sys; print(sys.executable)')" > commands/ashlarc
chmod +x commands/ashlarc
[ "$(commands/ashlarc --version)" = "$("$tools/ashlarc" --version)" ] || fail "the command is not the program"
expect_error "error: ashlarc is neither in" env ASHLAR_PREFIX= PATH="$PWD/commands" commands/ashlarc --version
