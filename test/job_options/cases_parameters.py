# SPDX-License-Identifier: Apache-2.0
"""Which initializers are parameters: scalars, weights in Constant nodes, and those that an exporter merged because they were equal."""

import math
import os

from bench import expect, expect_near, graph_input, graph_output, node, parameter, product_job
from onnx_writer import FLOAT, constant, floats
from registry import case

XS = [1, 2, 4]
RATE = 0.125


def notes_of(bench, job, *options):
    return bench.call(bench.compiler(job, *options, "-o", "program"))[2].strip().splitlines()


def inspected(bench, *options):
    return bench.ok([os.path.join(bench.tools, "ashlarc"), "model.onnx", "--inspect", *options])


# The loss is the mean of x * a * b over one sample: by `parts` a and b are one parameter or two.
def product(bench, first, second, names=("/a/Mul", "/b/Mul"), values=(1,), notes=({}, {}), parts=(), producer=""):
    bench.model(
        *parts, node("Mul", ["x", first], ["h"], names[0], notes=notes[0]), node("Mul", ["h", second], ["y"], names[1], notes=notes[1]),
        node("ReduceMean", ["y"], ["loss"], keepdims=0), parameter("a.weight", [len(values)], values),
        graph_input("x", ["batch", 1]), graph_output("loss", []), producer=producer)


def product_losses(is_one, value=1):
    """SGD on x a b with a and b apart or one parameter."""
    a, b, losses = value, value, []
    for x in XS:
        losses.append(x * a * b)
        steps = (2 * x * a, 2 * x * a) if is_one else (x * b, x * a)
        a, b = a - RATE * steps[0], b - RATE * steps[1]
    return losses


@case("untie")
def untie(bench):
    bench.npy("x_train", XS, (3, 1))
    fx = "%mul : [num_users=1] = call_function[target=torch.ops.aten.mul.Tensor](args = (%x, {}), kwargs = {{}})"
    notes = [{"pkg.torch.onnx.name_scopes": f"['', '{module}', 'mul']", "pkg.torch.onnx.fx_node": fx.format(name)} for module, name in (("a", "%p_a_weight"), ("b", "%p_b_gain"))]
    same = [notes[0], {**notes[1], "pkg.torch.onnx.fx_node": fx.format("%p_a_weight")}]
    identity = [node("Identity", ["a.weight"], ["b.weight"], "Identity_0")]
    models = {
        "an Identity names the second": lambda: product(bench, "a.weight", "b.weight", parts=identity, producer="pytorch"),
        "notes of nodes name it": lambda: product(bench, "a.weight", "a.weight", ("node_mul", "node_mul_1"), notes=notes),
        "modules at two paths": lambda: product(bench, "a.weight", "a.weight")}
    for what, write in models.items():
        write()
        other = "b.gain" if "notes" in what else "b.weight"
        for text, is_one in (("", False), ("untie: AUTO", False), ("untie: NEVER", True), ('untie: "a.*"', False), ('untie: ["AUTO", "a.weight"]', False)):
            log = bench.train(product_job(text), "--save-parameters", f"saved {what} {text}".replace(" ", "_").replace('"', "").replace("*", ""))
            expect_near(log.losses, product_losses(is_one), 1e-6, f"{what}, {text}")
        expect(notes_of(bench, product_job()), ['note: model.onnx: the exporter merged parameters that were equal; 1 of them are parameters of their own again: '
                                                f'"a.weight" is "{other}", too; untie: NEVER in the job keeps them merged, --inspect lists them'], what)
        expect(notes_of(bench, product_job("untie: NEVER")), [], f"{what}, kept")
        expect(f"merged       a.weight, taken apart again: {other}" in inspected(bench), True, f"{what}: inspect")
        # What it saves and exports has both, which differ where one stays; a program of the exported model begins with both, as one that takes
        # its weights by name.
        bench.compile(product_job(f'frozen: "{other}"'))
        bench.run("--data", ".", "--log-every", "1", "--save-parameters", "saved", "--export", "out.onnx", "--checkpoint-dir", f"ckpt_{len(what)}")
        a, b = (bench.read_npy(f"saved/{name}")[0] for name in ("a.weight", other))
        expect((a, b), (1 - RATE * sum(XS), 1), f"{what}: saved")
        product_end = math.prod([1, a, b])
        bench.compile(product_job(), model="out", output="again")
        expect_near(bench.run("--data", ".", "--log-every", "1", program="again").losses[0], product_end, 1e-6, f"{what}: exported")
        expect_near(bench.run("--data", ".", "--log-every", "1", "--init-from", "out.onnx").losses[0], product_end, 1e-6, f"{what}: --init-from")
        expect(f"{other} [1]" in bench.ok([os.path.join(bench.tools, "ashlarc"), "out.onnx", "--inspect"]), True, f"{what}: exported names")
        bench.refused(bench.compiler(product_job('untie: "c*"'), "-o", "program"),
                      'untie "c*": matches no parameter that several nodes read; nearest names: "a.weight"')
    # Shared on purpose: one module used twice, the same parameter of the torch program, numbers that are not first values.
    meant = {
        "one module twice": lambda: product(bench, "a.weight", "a.weight", ("/a/Mul", "/a_1/Mul")),
        "one parameter of torch": lambda: product(bench, "a.weight", "a.weight", ("node_mul", "node_mul_1"), notes=same),
        "no paths": lambda: product(bench, "a.weight", "a.weight", ("first", "second")),
        "an exporter that does not merge": lambda: product(bench, "a.weight", "a.weight", parts=[parameter("c.weight", [1], [1])])}
    for what, write in meant.items():
        write()
        expect_near(bench.train(product_job()).losses, product_losses(True), 1e-6, what)
        expect(notes_of(bench, product_job()), [], what)
        expect_near(bench.train(product_job('untie: "*"')).losses, product_losses(False), 1e-6, f"{what}, by the job")
    product(bench, "a.weight", "a.weight", values=(1, 3))
    a, losses = [1, 3], []
    for x in XS:
        losses.append(sum(x * w * w for w in a) / 2)
        a = [w - RATE * x * w for w in a]
    expect_near(bench.train(product_job()).losses, losses, 1e-6, "trained numbers")
    bench.refused(bench.compiler(product_job('untie: NEVER untie: "a*"'), "-o", "program"), 'untie is NEVER and "a*"; leave out one')
    bench.refused(bench.compiler(product_job("untie: SOMETIMES"), "-o", "program"), "job.txtpb:5:8: ")


# The loss is x s v: s a scalar, v a vector of one element.
def scalar_model(bench, name="logit_scale", more=(), operand="v", producer=""):
    bench.model(
        *more, node("Mul", ["x", operand], ["h"], "first"), node("Mul", ["h", name], ["y"], "second"), node("ReduceMean", ["y"], ["loss"], keepdims=0),
        parameter("v", [1], [1]), parameter(name, [], [2]), graph_input("x", ["batch", 1]), graph_output("loss", []), producer=producer)


def scalar_losses(moves_s=1, moves_v=1, first=2):
    s, v, losses = first, 1, []
    for x in XS:
        losses.append(x * s * v)
        s, v = s - RATE * x * v * moves_s, v - RATE * x * s * moves_v
    return losses, s, v


@case()
def scalar_parameters(bench):
    bench.npy("x_train", XS, (3, 1))
    trained, constant_losses = scalar_losses()[0], scalar_losses(moves_s=0)[0]
    candidates = 'note: model.onnx: scalar initializer "half" is a constant; one that the module trains belongs into the job: trained: "half"'
    for name, producer, text, expected, notes in (
            ("logit_scale", "", "", trained, []), ("block.0.alpha", "", "", trained, []), ("own", "pytorch", "", trained, []), ("half", "", "", constant_losses, [candidates]),
            ("half", "", 'trained: "half"', trained, []), ("half", "", 'init { match: "half" fill: 2 }', trained, []), ("half", "", 'init { match: "*" fill: 1 }', constant_losses, [candidates]),
            ("onnx::Mul_7", "pytorch", "", constant_losses, []), ("p2o.helper.constant.3", "", "", constant_losses, [candidates.replace("half", "p2o.helper.constant.3")]),
            ("logit_scale", "", 'frozen: "logit_scale"', constant_losses, [])):
        scalar_model(bench, name, producer=producer)
        expect_near(bench.train(product_job(text)).losses, expected, 1e-6, f"{name} {text}")
        expect(notes_of(bench, product_job(text)), notes, f"{name} {text}")
    # Saved, exported, resumed and begun with.
    scalar_model(bench)
    bench.train(product_job(), "--save-parameters", "saved", "--export", "out.onnx", "--checkpoint-dir", "ckpt")
    _, s, v = scalar_losses()
    expect_near([bench.read_npy(f"saved/{name}")[0] for name in ("logit_scale", "v")], [s, v], 1e-6, "saved")
    expect("logit_scale [] of f32" in inspected(bench), True, "inspect")
    bench.compile(product_job(), model="out", output="again")
    for what, program, options in (("exported", "again", []), ("--init-from", "program", ["--init-from", "out.onnx"]), ("a checkpoint", "program", ["--init-from", "ckpt/ashlar-1_3"])):
        expect_near(bench.run("--data", ".", "--log-every", "1", *options, program=program).losses[0], s * v, 1e-6, what)
    # The only parameter of a model, as well.
    bench.model(node("Mul", ["x", "own"], ["y"]), node("ReduceMean", ["y"], ["loss"], keepdims=0), parameter("own", [], [2]), graph_input("x", ["batch", 1]), graph_output("loss", []))
    w, losses = 2, []
    for x in XS:
        losses.append(x * w)
        w -= RATE * x
    expect_near(bench.train(product_job()).losses, losses, 1e-6, "alone")


@case()
def scalar_parameters_placed(bench):
    """Every optimizer, clipping, levels, ownership, micro-batches, stages and AUTO train a scalar as one rank does."""
    bench.npy("x_train", [1, 2, 4, 1, 3, 2, 5, 1, 2, 2, 1, 4, 3, 1, 2, 6], (16, 1))
    scalar_model(bench)
    split = 'rules { match: "x" layout: "[{dp}, {}]" }'
    for optimizer in ("sgd {}", "momentum {}", "adam {}", "adamw {}", "lamb {}", "adamw {} clip_global_norm: 0.5"):
        text = f"{optimizer} learning_rate: 0.0625"
        expected = bench.train(product_job(batch=4, optimizer=text), "--save-parameters", "one").losses
        scalar = bench.read_npy("one/logit_scale")
        placed = [("two ranks", "", "dp=2"), ("accumulate", "accumulate: 2", None), ("stages", 'pipeline { stages: 2 micro_batches: 2 } rules { match: "second" pipeline_stage: 1 }', None), ("AUTO", "mode: AUTO", "dp=2")]
        placed += [(f"level {level}", f"mode: SEMI_AUTO optimizer_parallel {{ level: {level} threshold_kb: 0 }} {split}", "dp=2") for level in (1, 2, 3)]
        placed += [("ownership", "mode: DATA_PARALLEL optimizer_parallel {}", "dp=2")] if optimizer[:4] in ("adam", "lamb") and "adam {" not in optimizer else []
        for what, extra, mesh in placed:
            options = ("--mesh", mesh) if mesh else ()
            log = bench.train(product_job(extra, batch=4, optimizer=text), "--save-parameters", "placed", ranks=2 if mesh or what == "stages" else 1, compile_options=options)
            expect_near(log.losses, expected, 1e-5, f"{optimizer}, {what}")
            expect_near(bench.read_npy("placed/logit_scale"), scalar, 1e-5, f"{optimizer}, {what}: logit_scale")


@case()
def constant_weights(bench):
    """Floats of Constant nodes are trained when the job says so; the suggested job says it."""
    bench.npy("x_train", XS, (3, 1))
    bench.model(
        constant("w_0", FLOAT, floats([1, 3]), [2]), node("Mul", ["x", "w_0"], ["y"]), node("ReduceMean", ["y"], ["loss"], keepdims=0),
        graph_input("x", ["batch", 1]), graph_output("loss", []))
    bench.refused(bench.compiler(product_job(), "-o", "program"), 'nothing is trained: the 1 weight is in a Constant node; name trained tensors in the job: trained: "w_0"')
    w, losses = [1, 3], []
    for x in XS:
        losses.append(sum(x * each for each in w) / 2)
        w = [each - RATE * x / 2 for each in w]
    for text in ('trained: "w_0"', 'trained: "*"'):
        expect_near(bench.train(product_job(text), "--export", "out.onnx").losses, losses, 1e-6, text)
    bench.compile(product_job(), model="out", output="again")
    expect_near(bench.run("--data", ".", "--log-every", "1", program="again").losses[0], sum(w) / 2, 1e-6, "exported")
    suggested = bench.ok([os.path.join(bench.tools, "ashlarc"), "model.onnx", "--suggest-job"])
    expect('trained: "w_0"\n' in suggested, True, "the suggested job")
    bench.ok(bench.compiler(suggested, "-o", "program"))
    bench.model(node("Neg", ["x"], ["y"]), node("ReduceMean", ["y"], ["loss"], keepdims=0), graph_input("x", ["batch", 1]), graph_output("loss", []))
    bench.refused([os.path.join(bench.tools, "ashlarc"), "model.onnx", "--suggest-job"], "no job trains this model: it has no parameters")
