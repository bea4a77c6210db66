# SPDX-License-Identifier: Apache-2.0
"""Optimizers, schedules and clipping against PyTorch: 20 steps of a small net, whose numbers in f64 test/bench/optimizers_torch.py recorded
(and compares with PyTorch itself where that is installed)."""

import json
import os
import re

import optimizer_net as net
from bench import Skip, expect, graph_input, graph_output, node, parameter, product_job, product_model
from registry import case

# Of the largest number of a tensor. The updates compute in f32: each rounds by 6e-8, and PyTorch's own in f32 are as far from f64.
TOLERANCE = 1e-6

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "optimizer_numbers.json"), encoding="utf-8") as file:
    RECORDED = json.load(file)


def train_here(bench, name, extra="", ranks=1, options=(), environment=None):
    """Trains the net with a case's optimizer; returns the losses of its steps and the parameters behind the last one."""
    here = net.CASES[name]
    steps = net.LAST_STEP.get(name, net.STEPS)
    bench.model(
        node("Gemm", ["x", "fc1.weight", "fc1.bias"], ["sum1"], transB=1), node("Tanh", ["sum1"], ["hidden"]),
        node("Gemm", ["hidden", "fc2.weight", "fc2.bias"], ["logits"], transB=1),
        *[parameter(n, net.SHAPES[n], values) for n, values in net.PARAMETERS.items()],
        graph_input("x", ["batch", net.INPUTS]), graph_output("logits", ["batch", net.CLASSES]))
    bench.npy("x_train", net.XS[:steps * net.BATCH * net.INPUTS], (steps * net.BATCH, net.INPUTS))
    bench.npy("t_train", net.LABELS[:steps * net.BATCH], kind="i4")
    rule = f'rules {{ match: "{here.no_decay}" weight_decay: 0 }}' if here.no_decay else ""
    job = f"""global_batch: {net.BATCH}
loss {{ softmax_cross_entropy {{ logits: "logits" labels: "t" }} }}
optimizer {{ {here.job} }}
dataset {{ npy {{}} shuffle: false features {{ column: "x" tensor: "x" }} features {{ column: "t" tensor: "t" }} }}
{rule} {extra}
"""
    bench.compile(job, *options)
    log = bench.run("--data", ".", "--log-every", "1", "--save-parameters", "parameters", ranks=ranks, environment=environment)
    return {"losses": log.losses, **{n: bench.read_npy(f"parameters/{n}") for n in net.SHAPES}}


def expect_recorded(name, found, what):
    for key, expected in RECORDED[name].items():
        expect(len(found[key]), len(expected), f"{what} {name}: count of {key}")
        allowed = TOLERANCE * max(abs(x) for x in expected)
        for i, (x, y) in enumerate(zip(found[key], expected)):
            expect(abs(x - y) <= allowed, True, f"{what} {name}: {key}[{i}] is {x}, PyTorch has {y}: within {allowed}")


@case("optimizer.adam.beta1", "optimizer.adam.beta2", "optimizer.adam.epsilon", "optimizer.adam.weight_decay", "optimizer.adamw.beta1",
      "optimizer.adamw.beta2", "optimizer.adamw.epsilon", "optimizer.adamw.weight_decay", "optimizer.lamb.beta1", "optimizer.lamb.beta2",
      "optimizer.lamb.epsilon", "optimizer.lamb.weight_decay", "optimizer.schedule.constant", "optimizer.schedule.warmup_steps",
      "optimizer.schedule.step.size", "optimizer.schedule.step.gamma", "optimizer.schedule.piecewise.boundaries",
      "optimizer.schedule.piecewise.values", "optimizer.schedule.cosine.decay_steps", "optimizer.schedule.cosine.end_learning_rate",
      "optimizer.schedule.polynomial.decay_steps", "optimizer.schedule.polynomial.end_learning_rate", "optimizer.schedule.polynomial.power",
      "optimizer.clip_global_norm")
def torch_numbers(bench):
    expect(sorted(RECORDED), sorted(net.CASES), "recorded cases")
    for name in net.CASES:
        expect_recorded(name, train_here(bench, name), "one rank:")


def kernels_of(text, parameter):
    """Returns, of @train_step of the first variant, which kernels write the parameter and which its states: two lists of line numbers."""
    variant = text[text.index("exec.variant"):]
    step = variant[variant.index("exec.program @train_step"):]
    step = step[:step.index("exec.program", 1)].splitlines()
    writers = []
    for states in ("", r"\.moment[12]"):
        buffers = re.findall(rf"exec.tensor @{parameter}{states} \w+ <(arena, \d+), ", variant[:variant.index("exec.program")])
        lines = []
        for number, line in enumerate(step):
            found = re.search(r"exec.kernel @\w+ \[(.*)\] reads \[.*\] writes \[(.*)\] extent", line)
            operands = re.findall(r"#exec.buffer<(\w+, \d+), ", found.group(1)) if found else []
            written = [operands[int(i)] for i in found.group(2).split(", ")] if found and found.group(2) else []
            lines += [number for buffer in written if buffer in buffers]
        writers.append(lines)
    return writers


@case()
def one_kernel_a_parameter(bench):
    # A model whose products are the library's: small ones are kernels, and their updates with them.
    bench.ok([os.path.join(bench.tools, "ashlar-zoo"), "mlp", "-o", "mlp.onnx"])
    targets = [()] + ([("--target", "cuda")] if bench.emulator() else [])
    for name in ("adam_options", "adamw", "everything", "lamb_options"):
        job = f"""global_batch: 256 loss {{ softmax_cross_entropy {{ logits: "logits" labels: "labels" }} }} optimizer {{ {net.CASES[name].job} }}
dataset {{ digits {{}} features {{ column: "image" tensor: "input" }} features {{ column: "label" tensor: "labels" }} }}"""
        for target in targets:
            text = bench.ok(bench.compiler(job, "--emit", "exec", "-o", "-", *target, model="mlp"))
            for parameter_name in (f"fc{i}.{kind}" for i in (1, 2, 3) for kind in ("weight", "bias")):
                of_parameter, of_states = kernels_of(text, parameter_name)
                what = f"{name} {target}: kernels that write {parameter_name}"
                expect(len(of_parameter), 1, what)
                expect(len(of_states), 2, f"{what}'s states")
                expect(len(set(of_states)), 1, f"{what}'s states: one for both")
                # LAMB: the norms are known only behind the states.
                expect(set(of_states) == set(of_parameter) or name == "lamb_options", True, f"{what}: the kernel of its states")


@case()
def layouts_do_not_depend_on_the_optimizer(bench):
    # What the optimizer computes once a step, a learning rate for example, is taken by all parameters: it must tie none to another.
    bench.ok([os.path.join(bench.tools, "ashlar-zoo"), "mlp", "-o", "mlp.onnx"])

    def layouts(optimizer, extra=""):
        report = bench.report(f"""mode: SEMI_AUTO mesh {{ axes {{ name: "dp" size: 2 }} axes {{ name: "tp" size: 2 }} }}
rules {{ match: "input" layout: "[{{dp}}, {{}}]" }} rules {{ match: "fc1.weight" layout: "[{{tp}}, {{}}]" }}
rules {{ match: "fc2.weight" layout: "[{{}}, {{tp}}]" }}
global_batch: 256 loss {{ softmax_cross_entropy {{ logits: "logits" labels: "labels" }} }} optimizer {{ {optimizer} learning_rate: 0.01 }} {extra}
dataset {{ digits {{}} features {{ column: "image" tensor: "input" }} features {{ column: "label" tensor: "labels" }} }}""", model="mlp")
        pieces = {v["name"]: v["local"] for v in report["variables"] if "moment" not in v["name"] and "gradient" not in v["name"]}
        return pieces, [(c["kind"], c["axes"], c["operand"]) for c in report["collectives"] if c["operand"] != "f32"]

    expected = layouts("sgd {}")
    expect(expected[0]["fc1.bias"] != expected[0]["fc2.bias"], True, "biases of one shape that are split differently")
    for optimizer, extra in (("adamw {}", ""), ("lamb { weight_decay: 0.5 }", ""), ("sgd {} clip_global_norm: 1", ""),
                             ("momentum {} schedule { step { size: 9 } }", ""), ("sgd {}", "precision: F32 accumulate: 2")):
        found = layouts(optimizer, extra)
        expect(found[0], expected[0], f"{optimizer} {extra}: pieces of the parameters")
        if "accumulate" not in extra:  # the shapes are those of a micro-batch
            expect(found[1], expected[1], f"{optimizer} {extra}: collectives of tensors")


@case()
def torch_numbers_on_ranks(bench):
    for name in ("lamb_options", "everything"):
        expect_recorded(name, train_here(bench, name, ranks=4, options=("--mesh", "dp=4")), "data parallel:")
        tensor_parallel = """mode: SEMI_AUTO mesh { axes { name: "dp" size: 2 } axes { name: "tp" size: 2 } }
rules { match: "x" layout: "[{dp}, {}]" } rules { match: "fc1.weight" layout: "[{tp}, {}]" }"""
        expect_recorded(name, train_here(bench, name, tensor_parallel, ranks=4), "split weights:")


@case("accumulate")
def torch_numbers_of_micro_batches(bench):
    for name, parts, ranks, options in (("adamw_options", 2, 1, ()), ("lamb_options", 8, 1, ()), ("everything", 4, 1, ()),
                                        ("everything", 2, 4, ("--mesh", "dp=4")), ("nesterov", 4, 1, ("--mesh", "dp=1"))):
        found = train_here(bench, name, f"accumulate: {parts}", ranks=ranks, options=options)
        expect_recorded(name, found, f"{parts} micro-batches on {ranks} ranks:")
    plan = bench.ok(["./program", "--plan"])
    for text in ("8 samples in 4 micro-batches of 2, 2 a device", "\ncollectives  none an update\n", "\nmicro-batch  ", "\nupdate       "):
        expect(text in plan, True, f"{text!r} in the plan: {plan}")
    # The batches of a pass that fill no step are left out: 7 samples, steps of 4 in two micro-batches, twice.
    bench.npy("x_train", [1, 2, 3, 4, 100, 100, 100], (7, 1))
    product_model(bench)
    job = product_job("accumulate: 2 epochs: 2 log_every: 1", batch=4, optimizer="sgd {} learning_rate: 0.125")
    log = bench.train(job)
    expect(log.places, [(1, 1), (2, 1)], "steps")
    expect(log.losses, [2.5, (1 - 0.125 * 2.5) * 2.5], "means over the micro-batches")
    bench.npy("x_train", [1, 2, 3], (3, 1))
    bench.refused(["./program", "--data", "."], "the global batch is 4 in 2 micro-batches of 2 but the train split of the data set holds 3 samples")


@case("pipeline.stages", "pipeline.micro_batches")
def pipeline_unused_input(bench):
    """The loss does not depend on an input that the data set feeds; nor does it in a pipeline, where an output that depends on it is evaluated too."""
    bench.model(
        node("Mul", ["x", "w"], ["h"]), node("Tanh", ["h"], ["g"]), node("Mul", ["g", "v"], ["y"]), node("Mul", ["other", "other"], ["z"]),
        parameter("w", [1], [0.5]), parameter("v", [1], [1.5]), graph_input("x", ["batch", 1]), graph_input("other", ["batch", 1]),
        graph_output("y", ["batch", 1]), graph_output("z", ["batch", 1]))
    for name, values in (("x", [1, 2, 3, 4, 5, 6, 7, 8]), ("other", [9] * 8), ("t", [0, 1] * 4)):
        bench.npy(f"{name}_train", values, (8, 1))
        bench.npy(f"{name}_eval", values, (8, 1))
    features = " ".join(f'features {{ column: "{name}" tensor: "{name}" }}' for name in ("x", "other", "t"))
    job = f"""global_batch: 4 loss {{ mean_squared_error {{ prediction: "y" target: "t" }} }} optimizer {{ sgd {{}} learning_rate: 0.125 }}
dataset {{ npy {{}} shuffle: false {features} }}"""
    whole = bench.train(f"{job} accumulate: 2").losses
    expect(len(whole), 2, "steps")
    for schedule in ("GPIPE", "ONE_F_ONE_B", "ZERO_BUBBLE"):
        staged = f'{job} mode: DATA_PARALLEL mesh {{ axes {{ name: "dp" size: 1 }} }} pipeline {{ stages: 2 micro_batches: 2 schedule: {schedule} }}'
        expect(bench.train(staged, ranks=2).losses, whole, f"losses with {schedule}")


@case("pipeline.stages", "pipeline.micro_batches", "accumulate")
def pipeline_any_names(bench):
    """Parameters have the names of programs and of the mesh: the same losses and parameters as with others, and the names that the model gives."""
    names = ["weights", "backward", "forward", "update", "train_step", "init", "eval_step", "prepare", "mesh", "forward_1", "weights.program"]
    for name, values in (("x", [1, 2, 3, 4, 5, 6, 7, 8]), ("t", [0, 1] * 4)):
        bench.npy(f"{name}_train", values, (8, 1))
    job = """global_batch: 4 loss { mean_squared_error { prediction: "y" target: "t" } } optimizer { sgd {} learning_rate: 0.125 }
dataset { npy {} shuffle: false features { column: "x" tensor: "x" } features { column: "t" tensor: "t" } }"""

    def train(parameters, text, ranks):
        values = ["x"] + [f"value{i}" for i in range(len(parameters))]
        chain = [node("Mul", [values[i], parameter], [f"product{i}"]) for i, parameter in enumerate(parameters)]
        chain += [node("Tanh", [f"product{i}"], [values[i + 1]]) for i in range(len(parameters))]
        bench.model(*[each for pair in zip(chain[:len(parameters)], chain[len(parameters):]) for each in pair], node("Neg", [values[-1]], ["y"]),
                    *[parameter(name, [1], [1 + 0.125 * i]) for i, name in enumerate(parameters)], graph_input("x", ["batch", 1]), graph_output("y", ["batch", 1]))
        log = bench.train(f"{job} {text}", "--save-parameters", "saved", ranks=ranks)
        return log.losses, [bench.read_npy(f"saved/{name}") for name in parameters]

    staged = 'mode: DATA_PARALLEL mesh { axes { name: "dp" size: 1 } } pipeline { stages: 2 micro_batches: 2 '
    for text, ranks in (("", 1), ('accumulate: 2 mode: DATA_PARALLEL mesh { axes { name: "dp" size: 2 } }', 2), (staged + "schedule: ZERO_BUBBLE }", 2), (staged + "schedule: INTERLEAVED chunks: 2 }", 2)):
        expect(train(names, text, ranks), train([f"p{i}" for i in range(len(names))], text, ranks), f"losses and parameters with {text}")


@case("pipeline.stages", "pipeline.micro_batches", "pipeline.schedule", "pipeline.schedule=GPIPE", "pipeline.schedule=ONE_F_ONE_B",
      "pipeline.schedule=ZERO_BUBBLE", "pipeline.schedule=INTERLEAVED", "pipeline.chunks", "pipeline.order", "rules.pipeline_stage")
def torch_numbers_of_stages(bench):
    rules = 'rules { match: "sum1" pipeline_stage: 0 } rules { match: "logits" pipeline_stage: 1 }'
    for name, schedule, parts, stages, extra in (("adamw_options", "GPIPE", 4, 2, rules), ("lamb_options", "ONE_F_ONE_B", 2, 2, rules),
                                                 ("everything", "ZERO_BUBBLE", 8, 2, rules), ("everything", "GPIPE", 8, 3, ""),
                                                 ("everything", "ONE_F_ONE_B", 4, 2, ""), ("nesterov", "ZERO_BUBBLE", 4, 3, ""),
                                                 ("everything", "INTERLEAVED chunks: 2", 4, 2, ""), ("lamb_options", "INTERLEAVED chunks: 2", 4, 2, "")):
        job = f"pipeline {{ stages: {stages} micro_batches: {parts} schedule: {schedule} }} {extra}"
        found = train_here(bench, name, job, ranks=stages)
        expect_recorded(name, found, f"{stages} stages, {parts} micro-batches, {schedule}:")

    # The orders, by hand; without a schedule it is ONE_F_ONE_B.
    def orders(text):
        dist = bench.emit("dist", trained.replace(last, text))
        return [re.findall(r'#dist.run<"(\w+)", (\d+)>|count = (\d+)', order) for order in re.findall(r"dist.order = \[(.*?)\], dist.stage", dist)]

    last = "schedule: ZERO_BUBBLE"
    train_here(bench, "sgd", f"pipeline {{ stages: 2 micro_batches: 4 {last} }} {rules}", ranks=2)
    trained = bench.read("job.txtpb")
    update = [("update", "3", ""), ("", "", "1")]  # behind the last micro-batch
    expect(orders("schedule: GPIPE"), [[("forward", "0", ""), ("", "", "4"), ("backward", "0", ""), ("", "", "4")] + update] * 2, "GPIPE")
    steady = [("forward", "0", ""), ("backward", "0", ""), ("", "", "4")] + update
    for text in ("", "schedule: ONE_F_ONE_B"):
        expect(orders(text)[1], steady, f"the last stage of {text or 'no schedule'}")
    # Two chunks on each stage; the last one has the mean of the losses alone, of which nothing is to be computed backward.
    found = orders("schedule: INTERLEAVED chunks: 2")
    expect(found[0][:4], [("forward_0", "0", ""), ("", "", "2"), ("forward_1", "0", ""), ("", "", "2")], "the first stage with chunks")
    expect(found[1][:5], [("forward_0", "0", ""), ("", "", "2"), ("forward_1", "0", ""), ("", "", "2"), ("forward_0", "2", "")], "the last one")
    # An order of one's own, which is what the stages run.
    bench.write("order.txt", "stage 0: F0 F1 F2 F3 B0 B1 B2 B3\nstage 1: F0 F1 B0 B1 F2 F3 B2 B3\n")
    own = 'pipeline { stages: 2 micro_batches: 4 order: "order.txt" }'
    expect_recorded("everything", train_here(bench, "everything", own, ranks=2), "an order of one's own:")
    found = orders('order: "order.txt"')
    expect(found[0], [("forward", "0", ""), ("", "", "4"), ("backward", "0", ""), ("", "", "4")] + update, "the first stage of the order")
    expect(found[1][:5], [("forward", "0", ""), ("forward", "1", ""), ("backward", "0", ""), ("backward", "1", ""), ("", "", "2")], "the last one")
    # A rule says which stage keeps a parameter.
    stages = re.split(r"module @stage_\d", bench.emit("dist", trained))[1:]
    for stage, parameters in zip(stages, ("fc1", "fc2")):
        expect(sorted(set(re.findall(r"nn.variable @(\w+)\.weight trainable", stage))), [parameters], "parameters of a stage")


@case()
def torch_numbers_of_micro_batches_bit_by_bit(bench):
    logs = []
    for ranks in (1, 2, 4):
        options = ("--mesh", f"dp={ranks}")
        logs.append(train_here(bench, "everything", "accumulate: 2 deterministic { chunks: 4 always: true }", ranks=ranks, options=options))
    expect(logs[1], logs[0], "2 ranks and 1")
    expect(logs[2], logs[0], "4 ranks and 1")


@case()
def torch_numbers_on_cuda(bench):
    emulator = bench.emulator()
    if emulator is None:
        raise Skip("the cuda target was left out: the CUDA toolkit was not found")
    for name, extra in (("adam_options", ""), ("lamb_options", ""), ("everything", ""), ("everything", "accumulate: 4")):
        expect_recorded(name, train_here(bench, name, extra, options=("--target", "cuda"), environment=emulator), f"cuda: {extra}")
