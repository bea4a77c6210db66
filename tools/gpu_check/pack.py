#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packs what checks and measures the cuda target into one archive: see tools/gpu-check.sh, which is this.

    tools/gpu-check.sh [-o FILE.tar.xz] [--gpu-arch LIST] [--small]

Executables, what they must compute, pack.json that lists them, and the runner. Parameters of large models are not in it: init rules of their jobs
make them. --small: few and tiny programs, for the emulator.
"""

import argparse
import json
import lzma
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
JOBS = ROOT / "docs/jobs"
LIMIT_MIB = 40
# Programs are alike but for their kernels: with a window of many of them, each but the first is small.
WINDOW = 64 << 20
TOOLS = ("ashlar_conformance", "bench_cuda_attention", "bench_cuda_conv", "bench_cuda_matmul", "compare_npy")
RUNNER = ("attempt.py", "background.py", "checks.py", "figures.py", "libraries.py", "parts.py", "processes.py", "results.py", "run.py", "torch_peers.py")
MLP_INIT = 'init { match: "*.bias" fill: 0 }\ninit { match: "*" kaiming_uniform {} }\n'
BF16 = "precision: BF16_MIXED\n"


def batch_of(job, samples):
    return re.sub(r"^global_batch:.*", f"global_batch: {samples}", job, flags=re.M)


class Packer:
    def __init__(self, options, scratch):
        self.options, self.scratch, self.tools = options, scratch, ROOT / "build/bin"
        self.pack = scratch / "pack"
        for folder in ("bin", "expected", "forward", "data"):
            (self.pack / folder).mkdir(parents=True)
        self.manifest = {"version": self.version(), "trains": [], "kernels": [], "models": {}, "limits": {}}
        self.steps = 6 if options.small else 20

    @staticmethod
    def version():
        done = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
        return done.stdout.strip() or "unknown"

    @staticmethod
    def run(*command):
        done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"error: {' '.join(map(str, command))} exited with {done.returncode}:\n{done.stdout}")

    def zoo(self, file, *arguments):
        self.run(self.tools / "ashlar-zoo", *arguments, "-o", self.scratch / f"{file}.onnx")

    def job(self, name, text):
        path = self.scratch / f"{name}.txtpb"
        path.write_text(text)
        return path

    def compile(self, model, output, *arguments):
        arch = ["--gpu-arch", self.options.gpu_arch] if self.options.gpu_arch else []
        self.run(self.tools / "ashlarc", self.scratch / f"{model}.onnx", "--target", "cuda", *arch, *arguments, "-o", self.pack / "bin" / output)

    def expect(self, name, model, job, mesh, data):
        """The losses that a GPU must reproduce are those of the cpu target on one rank."""
        program = self.scratch / name
        self.run(self.tools / "ashlarc", self.scratch / f"{model}.onnx", "--job", job, "--mesh", mesh, "-o", program)
        self.run(program, *data, "--steps", self.steps, "--log-every", 1, "--metrics", self.pack / "expected" / f"{name}.jsonl")
        program.unlink()

    def train(self, name, model, tolerance, job, mesh="dp=2", ranks=(1, 2), data=None):
        """A training on one rank and on two."""
        path, one = self.job(name, job), re.sub("2", "1", mesh)
        self.expect(name, model, path, one, ["--data", self.pack / data] if data else [])
        for count in ranks:
            self.compile(model, f"{name}.{count}", "--job", path, "--mesh", one if count == 1 else mesh)
        self.manifest["trains"].append({"name": name, "tolerance": tolerance, "ranks": list(ranks), "steps": self.steps, "data": data})

    def pipeline(self, name, tolerance, job):
        """Two stages, a rank each; one rank that adds up the same micro-batches gives the losses."""
        whole = re.sub(r"^.*pipeline_stage.*\n", "", job, flags=re.M)
        whole = re.sub(r"^pipeline .*micro_batches: (\d+).*", r"accumulate: \1", whole, flags=re.M)
        self.expect(name, "mlp", self.job(f"{name}.whole", whole), "dp=1", [])
        self.compile("mlp", f"{name}.2", "--job", self.job(name, job), "--mesh", "dp=1")
        self.manifest["trains"].append({"name": name, "tolerance": tolerance, "ranks": [2], "steps": self.steps, "data": None})

    def kernel(self, name, moved, runs, *arguments):
        """A model of one kernel that reads and writes at least `moved` bytes."""
        self.zoo(name, name, *arguments)
        self.compile(name, name)
        self.manifest["kernels"].append({"name": name, "bytes": moved, "runs": runs})

    def model(self, name, job, zoo, **facts):
        """A model that is measured."""
        self.zoo(name, *zoo)
        self.compile(name, name, "--job", self.job(name, job))
        self.manifest["models"][name] = {"program": name, **facts}


def trains(packer, small):
    """Tolerances are relative to the loss: rounding differs, and grows with the steps; bf16 has 8 bits."""
    jobs = {name: (JOBS / f"{name}.txtpb").read_text() for name in ("linear", "mlp", "transformer_tensor_parallel", "mlp_pipeline_1f1b")}
    mlp = batch_of(jobs["mlp"], 32 if small else 256) + MLP_INIT
    packer.zoo("linear", "linear")
    packer.train("linear", "linear", 1e-4, jobs["linear"])
    packer.zoo("mlp", "mlp", "--no-data", *(["--width", "32"] if small else []))
    packer.train("mlp", "mlp", 1e-3, mlp)
    packer.pipeline("mlp_pipeline_1f1b", 1e-3, batch_of(jobs["mlp_pipeline_1f1b"], 64) + MLP_INIT)  # small steps: it is about their order
    packer.run(sys.executable, ROOT / "test/e2e/conv_model.py", "kinds", packer.scratch / "conv.onnx")
    conv = batch_of(jobs["mlp"], 12)
    packer.train("conv", "conv", 1e-3, conv, ranks=(1,) if small else (1, 2))
    if small:
        return
    packer.train("mlp_bf16", "mlp", 3e-2, mlp + BF16)
    packer.train("conv_bf16", "conv", 3e-2, conv + BF16)
    packer.run(sys.executable, ROOT / "test/e2e/recurrent_model.py", packer.scratch / "recurrent.onnx")
    packer.train("recurrent", "recurrent", 1e-3, batch_of(jobs["mlp"], 64))  # loops: a graph with the work of all their steps
    packer.run(sys.executable, ROOT / "test/e2e/attention_dropout_model.py", packer.scratch / "attention_dropout.onnx")
    attention = batch_of(jobs["mlp"], 16)  # in generated kernels; so is the transformer in f32
    packer.train("attention_dropout", "attention_dropout", 1e-3, attention, ranks=(1,))
    packer.train("attention_dropout_bf16", "attention_dropout", 3e-2, attention + BF16, ranks=(1,))
    packer.run(sys.executable, ROOT / "test/e2e/write_tokens.py", packer.pack / "data/transformer", 50, 16)
    packer.zoo("transformer", "transformer", "--seed", 2)
    packer.train("transformer", "transformer", 1e-3, jobs["transformer_tensor_parallel"], mesh="dp=1,tp=2", data="data/transformer")
    packer.train("transformer_bf16", "transformer", 3e-2, jobs["transformer_tensor_parallel"] + BF16, mesh="dp=1,tp=2", data="data/transformer")


def kernels(packer, small):
    """1 GiB and more, so that no cache holds them."""
    if small:
        packer.kernel("softmax", 2 * 4 << 10, 3, "--rows", 1 << 5, "--columns", 1 << 5)
        return
    packer.kernel("elementwise", 3 * 4 << 27, 30, "--elements", 1 << 27)
    packer.kernel("softmax", 2 * 4 << 27, 30, "--rows", 1 << 17, "--columns", 1024)
    packer.kernel("cross-entropy", (4 << 28) + (12 << 16), 30, "--rows", 1 << 16, "--columns", 4096)
    packer.kernel("adamw", 7 * 4 << 26, 30, "--elements", 1 << 26)


def gpt2(packer, small):
    layers, width, heads, sequence, vocabulary, batch = (1, 32, 2, 16, 64, 2) if small else (12, 768, 12, 1024, 50304, 16)
    zoo = ["transformer", "--layers", layers, "--width", width, "--heads", heads, "--sequence", sequence, "--vocabulary", vocabulary, "--tied", "--no-data"]
    tokens = {"type": "<i8", "shape": [4 * batch, sequence], "below": vocabulary}
    sizes = {"layers": layers, "width": width, "heads": heads, "sequence": sequence, "vocabulary": vocabulary}
    job = batch_of((HERE / "jobs/gpt2_bf16.txtpb").read_text(), batch)
    facts = {"batch": batch, "tokens": batch * sequence, "columns": {"tokens": tokens, "next": tokens}}
    packer.model("gpt2_bf16", job, zoo, **facts, steps=4 if small else 30, every=1 if small else 5, profile_steps=2 if small else 12,
                 peer={"kind": "gpt", "batch": batch, "bf16": True, "steps": 20, **sizes})
    if not small:  # attention in generated kernels
        packer.model("gpt2_f32", job.replace(BF16.strip(), ""), zoo, **facts, steps=10, every=5, profile_steps=4,
                     peer={"kind": "gpt", "batch": batch, "bf16": False, "steps": 6, **sizes})


def resnet50(packer, small):
    image, classes, batch, depth = (32, 10, 2, 18) if small else (224, 1000, 256, 50)
    columns = {"images": {"type": "|u1", "shape": [batch, image, image, 3]}, "labels": {"type": "<i8", "shape": [batch], "below": classes}}
    for what in ("step", "profile"):
        packer.manifest["limits"][f"resnet50_bf16.{what}"] = 60  # cuDNN may compile a kernel for each distinct convolution
    packer.model("resnet50_bf16", batch_of((HERE / "jobs/resnet50_bf16.txtpb").read_text(), batch),
                 ["resnet", "--depth", depth, "--image", image, "--classes", classes, "--no-data"], batch=batch, images=batch, columns=columns,
                 steps=3 if small else 20, every=1 if small else 5, profile_steps=1 if small else 8,
                 peer={"kind": "resnet", "batch": batch, "bf16": True, "steps": 10, "image": image, "classes": classes, "blocks": [3, 4, 6, 3]})


def models(packer, small):
    gpt2(packer, small)
    if not small:
        resnet50(packer, small)
        packer.model("mlp_large", (HERE / "jobs/mlp_large.txtpb").read_text(), ["mlp", "--layers", 12, "--width", 4096, "--no-data"], batch=8192, steps=100,
                     every=20, peer={"kind": "mlp", "layers": 12, "width": 4096, "batch": 8192, "bf16": True, "steps": 20})
    packer.manifest["models"]["mlp"] = {"program": "mlp.1", "batch": 256, "steps": 4 if small else 2000, "every": 1 if small else 200,
                                        "peer": {"kind": "mlp", "layers": 3, "width": 512, "batch": 256, "bf16": False, "steps": 200}}


def forwards(packer, small):
    """Random programs over all ops, for one rank and for two; few of the seeds make such programs, those that train are left out."""
    seeds, most = ["--start", 60, "--seeds", 40] if small else ["--seeds", 300], {1: 8, 2: 7}
    found = packer.scratch / "forward"
    packer.run(packer.tools / "ashlar-fuzz", "--target", "cuda", "--pack", found, "--executable-every", 1, *seeds)
    for case in sorted(found.glob("seed_*"), key=lambda path: int(path.name[5:])):
        ranks = int((case / "ranks").read_text())
        if most[ranks] > 0:
            most[ranks] -= 1
            shutil.move(case, packer.pack / "forward" / case.name)
    shutil.rmtree(found)
    if not any((packer.pack / "forward").iterdir()):
        raise SystemExit(f"error: no forward program in {' '.join(map(str, seeds))}; take more seeds")


def programs(packer):
    """The tools, all executables stripped (debug information is nine tenths of them), and the runner."""
    for tool in TOOLS:
        shutil.copy2(packer.tools / tool, packer.pack / "bin")
    for path in packer.pack.rglob("*"):
        if path.is_file() and path.stat().st_mode & stat.S_IXUSR:
            packer.run("strip", path)
    for file in RUNNER:
        shutil.copy2(HERE / file, packer.pack)
    (packer.pack / "pack.json").write_text(json.dumps(packer.manifest, indent=1) + "\n")


def archive(pack, path, preset, limit):
    """Writes the archive; returns its MiB, which are at most `limit`."""
    filters = [{"id": lzma.FILTER_LZMA2, "preset": preset, "dict_size": WINDOW}]
    with lzma.open(path, "wb", filters=filters) as stream, tarfile.open(fileobj=stream, mode="w") as tar:
        for file in sorted(pack.rglob("*")):
            tar.add(file, file.relative_to(pack), recursive=False)
    size = path.stat().st_size / (1 << 20)
    if size > limit:
        path.unlink()
        raise SystemExit(f"error: the archive has {size:.1f} MiB, more than {limit:g}")
    return size


def missing_tools(tools):
    needed = [tool for tool in ("ashlarc", "ashlar-zoo", "ashlar-fuzz", *TOOLS) if not (tools / tool).exists()]
    if needed:
        raise SystemExit(f"error: {tools} lacks {', '.join(needed)}; build Ashlar with the CUDA toolkit first (tools/check.sh)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=pathlib.Path, default=ROOT / "build/gpu-check.tar.xz")
    parser.add_argument("--gpu-arch", default="", help="as of ashlarc")
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    missing_tools(ROOT / "build/bin")
    options.output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="gpu-check-", dir=options.output.parent) as scratch:
        packer = Packer(options, pathlib.Path(scratch))
        for fill in (trains, kernels, models, forwards):
            fill(packer, options.small)
        programs(packer)
        unpacked = sum(path.stat().st_size for path in packer.pack.rglob("*") if path.is_file()) / (1 << 20)
        size = archive(packer.pack, options.output, 1 if options.small else 9 | lzma.PRESET_EXTREME, LIMIT_MIB)
    print(f"{options.output}: {size:.1f} MiB, unpacked {unpacked:.0f} MiB")


if __name__ == "__main__":
    main()
