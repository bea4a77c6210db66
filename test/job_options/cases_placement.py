# SPDX-License-Identifier: Apache-2.0
"""Where things live: modes, meshes, the machine's links, rules, annotations, saved strategies, fixed chunks."""

import re

from bench import STILL, expect, expect_near, graph_input, graph_output, node, parameter, product_job, product_model
from registry import case

DIST_DOMAIN = "ai.ashlar.dist"


def matrix_model(bench, rows=8, columns=4):
    """y = x w with loss mean(y); w is (rows, columns)."""
    bench.model(
        node("MatMul", ["x", "w"], ["y"]), node("ReduceMean", ["y"], ["loss"], keepdims=0),
        parameter("w", [rows, columns], [i % 7 - 3 for i in range(rows * columns)]),
        graph_input("x", ["batch", rows]), graph_output("loss", []))


def mesh(*axes, extra=""):
    return "mesh { " + " ".join(f'axes {{ name: "{name}" size: {size} }}' for name, size in axes) + f" {extra} }}"


def local_of(report, name="w"):
    """Returns the type of a device's piece of a variable."""
    return next(variable["local"] for variable in report["variables"] if variable["name"] == name)


def collectives_of(report):
    return [(c["kind"], ",".join(c["axes"]), c["operand"]) for c in report["collectives"]]


def argument_types(dist, function="train_step"):
    """Returns the types of a function's arguments on a device."""
    signature = re.search(rf"func.func @{function}\((.*?)\) (?:->|\{{)", dist).group(1)
    return re.findall(r"%arg\d+: tensor<(.*?)>", signature)


@case("mode", "mode=STAND_ALONE", "mode=DATA_PARALLEL", "mode=SEMI_AUTO", "mesh.axes.name", "mesh.axes.size")
def modes(bench):
    matrix_model(bench)
    xs = [(3 * i) % 11 - 4 for i in range(64)]
    bench.npy("x_train", xs, (8, 8))
    w = [i % 7 - 3 for i in range(32)]
    ys = [sum(xs[8 * s + k] * w[4 * k + j] for k in range(8)) for s in range(8) for j in range(4)]
    gradient_free = [sum(ys[:16]) / 16, sum(ys[16:]) / 16]
    sums = {  # what a device holds of w, and of the batch of 4, and what is sent, by hand
        "mode: STAND_ALONE": (1, None, ["4x8xf32"], None),
        "": (1, None, ["4x8xf32"], None),
        mesh(("dp", 2)): (2, "8x4xf32", ["2x8xf32"], [("all_reduce", "dp", "f32"), ("all_reduce", "dp", "8x4xf32")]),
        "mode: DATA_PARALLEL " + mesh(("a", 2), ("b", 2)): (
            4, "8x4xf32", ["1x8xf32"], [("all_reduce", "a,b", "f32"), ("all_reduce", "a,b", "8x4xf32")]),
        "mode: SEMI_AUTO " + mesh(("tp", 4)) + ' rules { match: "w" layout: "[{}, {tp}]" }': (
            4, "8x1xf32", ["4x8xf32"], [("all_reduce", "tp", "f32")]),
    }
    for text, (ranks, local, arguments, collectives) in sums.items():
        job = product_job(text, batch=4, optimizer=STILL)
        if local:
            report = bench.report(job)
            expect(local_of(report), local, f"{text}: piece of w")
            expect(sorted(collectives_of(report)), sorted(collectives), f"{text}: collectives")
            expect(report["mesh"], [{"axis": axis, "size": int(size)} for axis, size in re.findall(r'name: "(\w+)" size: (\d)', text)], text)
        expect(argument_types(bench.emit("dist", job)), arguments, f"{text}: piece of x")
        expect(bench.train(job, ranks=ranks).losses, gradient_free, f"{text}: losses on {ranks} ranks")
        if ranks > 1:
            bench.refused(["./program", "--data", "."], f"run it with mpirun -n {ranks}")


@case("mode=AUTO", "search", "search=PROPAGATION", "search=DYNAMIC_PROGRAMMING", "search=ILP")
def searches(bench):
    # 64 rows of x by an 8 x 4 matrix: by hand, a split batch lets each device compute a quarter, and sums are of 32 numbers and of one.
    matrix_model(bench)
    bench.npy("x_train", [(3 * i) % 11 - 4 for i in range(512)], (64, 8))
    whole = bench.train(product_job("mode: STAND_ALONE", batch=64, optimizer=STILL)).losses
    auto = "mode: AUTO " + mesh(("dp", 4)) + "machine { device { gflop_per_s: 0.01 memory_gb_per_s: 0.01 } } "
    for search in ("", "search: DYNAMIC_PROGRAMMING", "search: ILP"):
        job = product_job(auto + search, batch=64, optimizer=STILL)
        report = bench.report(job)
        expect(sorted(each["name"] for each in report["search"]["strategies"]), ["data parallel", "propagation", "search"], search)
        expect(report["search"]["cost_ns"] == report["search"]["bound_ns"], True, f"{search}: proven")
        expect(argument_types(bench.emit("dist", job)), ["16x8xf32"], f"{search}: piece of x")
        expect(bench.train(job, ranks=4).losses, whole, f"{search}: losses on 4 ranks")
    # Rules are constraints; with PROPAGATION they are all there is.
    rule = ' rules { match: "w" layout: "[{}, {dp}]" }'
    expect(local_of(bench.report(product_job(auto + rule, batch=64, optimizer=STILL))), "8x1xf32", "a rule holds")
    inferred = bench.report(product_job(auto + "search: PROPAGATION" + rule, batch=64, optimizer=STILL))
    expect((local_of(inferred), "search" in inferred), ("8x1xf32", False), "nothing is searched")
    bench.refused(bench.compiler(product_job("search: ILP " + mesh(("dp", 2)), batch=64, optimizer=STILL), "--report", "r.json"),
                  "search ILP is of mode AUTO, and the mode is DATA_PARALLEL; set mode: AUTO, or leave it out")
    bench.refused(bench.compiler(product_job("mode: AUTO", batch=64, optimizer=STILL), "--report", "r.json"), "mode AUTO needs a mesh")


@case("mesh.devices")
def searched_mesh(bench):
    # 64 rows of x by an 8 x 4 matrix on two devices: a step is fastest where each computes half of the rows, whatever the axes are called.
    matrix_model(bench)
    bench.npy("x_train", [(3 * i) % 11 - 4 for i in range(512)], (64, 8))
    slow = "machine { device { gflop_per_s: 0.01 memory_gb_per_s: 0.01 } } mode: AUTO "
    whole = bench.train(product_job("mode: STAND_ALONE", batch=64, optimizer=STILL)).losses
    for axes, mesh_of in (("", {"outer": 2, "inner": 1}), ('axes { name: "d" }', {"d": 2})):
        job = product_job(slow + f"mesh {{ devices: 2 {axes} }}", batch=64, optimizer=STILL)
        report = bench.report(job)
        expect({each["axis"]: each["size"] for each in report["mesh"]}, mesh_of, axes)
        expect(argument_types(bench.emit("dist", job)), ["32x8xf32"], f"{axes}: piece of x")
        expect(bench.train(job, ranks=2).losses, whole, f"{axes}: losses on 2 ranks")
    bench.refused(bench.compiler(product_job("mesh { devices: 2 }", batch=64, optimizer=STILL), "--report", "r.json"),
                  "mesh.devices 2 has the compiler search the axes, which is for mode AUTO")


@case("mode=HYBRID")
def hybrid(bench):
    # On each of two devices: the product of half of the columns of x and half of the rows of w, and the sum of both.
    bench.model(
        node("MatMul", ["x", "w"], ["p"]), node("AllReduce", ["p"], ["y"], domain=DIST_DOMAIN, axes=["tp"]),
        graph_input("x", ["batch", 2]), graph_input("w", [2, 1]), graph_output("y", ["batch", 1]), domains=[DIST_DOMAIN])
    job = ("mode: HYBRID global_batch: 3 " + mesh(("tp", 2)) + ' rules { match: "x" layout: "[{}, {tp}]" } '
           'rules { match: "w" layout: "[{tp}, {}]" } init { match: "w" fill: 2 }')
    bench.npy("x", range(12), (3, 4))
    bench.compile(job)
    expect(local_of(bench.report(job)), "2x1xf32", "piece of w")
    bench.ok(["mpirun", "-n", "2", "./program", "--input", "x=x.npy", "--output", "y=y.npy"])
    expect(bench.read_npy("y"), [2 * (0 + 1 + 2 + 3), 2 * (4 + 5 + 6 + 7), 2 * (8 + 9 + 10 + 11)], "sums of both halves")


def links_of(bench, text, *options):
    """Returns latency and bandwidth of each axis, as planned."""
    dist = bench.emit("dist", product_job("mode: DATA_PARALLEL", text, batch=4), *options)
    found = re.search(r"latency_ns = \[(.*?)\], bytes_per_us = \[(.*?)\]", dist)
    return tuple([int(x) for x in group.split(", ")] for group in found.groups())


def costs_of(dist):
    """The text with the costs of the axes, but not what they come from."""
    return dist.split("hosts = #dist.hosts<")[0]


@case("machine.adapters_per_host")
def adapters_per_host(bench):
    matrix_model(bench)
    def rates(axes, machine):
        dist = costs_of(bench.emit("dist", product_job("mode: DATA_PARALLEL", mesh(*axes), f"machine {{ {machine} }}", batch=16)))
        return {kind: [int(x) for x in rate.split(", ")] for kind, rate in re.findall(r"<kind = (\w+), .*?bytes_per_us = \[(.*?)\]>", dist)}
    hosts = "ranks_per_host: 4 intra_host { bandwidth_gb_per_s: 5 } inter_host { bandwidth_gb_per_s: 2 }"
    sums = ("all_reduce", "reduce_scatter", "all_gather")
    for axes, adapters, sum_rates, others in (
            # 4 ranks on each of 2 hosts. Of a sum a device sends 2 * 7/8, the host 2 * 1/2; to the other host 4 of 7 parts go, of 4 ranks; a message of
            # each rank; 5 GB/s goes within a host.
            ((("a", 8),), 1, [3500], {"all_to_all": [875], "permute": [500], "broadcast": [2000]}),
            ((("a", 8),), 2, [5000], {"all_to_all": [1750], "permute": [1000], "broadcast": [4000]}),
            ((("a", 8),), 4, [5000], {"all_to_all": [3500], "broadcast": [5000]}),
            # Two groups of 2 ranks on each of 4 hosts: 2 * 7/8 against 2 * 2 * 3/4, of 4 adapters; a broadcast is the tensor against that.
            ((("a", 8), ("b", 2)), 4, [4666, 5000], {"all_to_all": [2333, 5000], "broadcast": [2666, 5000]}),
            # Four groups of a rank on each host: each has an adapter.
            ((("a", 4), ("b", 4)), 4, [2000, 5000], {"all_to_all": [2000, 5000], "broadcast": [1333, 5000]})):
        expected = {**{kind: sum_rates for kind in sums}, **others}
        expect(rates(axes, f"{hosts} adapters_per_host: {adapters}"), expected, f"{axes}, {adapters} adapters")


@case("machine.hosts_per_pod", "machine.uplinks_per_pod", "machine.inter_pod.latency_us", "machine.inter_pod.bandwidth_gb_per_s",
      "machine.inter_pod.moves_beside")
def pods(bench):
    matrix_model(bench)
    hosts = "ranks_per_host: 2 adapters_per_host: 2 intra_host { latency_us: 1 bandwidth_gb_per_s: 10 } inter_host { latency_us: 2 bandwidth_gb_per_s: 1 }"
    def links(machine, axes=(("a", 2), ("b", 2), ("c", 2))):
        dist = costs_of(bench.emit("dist", product_job("mode: DATA_PARALLEL", mesh(*axes), f"machine {{ {hosts} {machine} }}", batch=8)))
        kinds = re.search(r"<kind = permute, latency_ns = \[(.*?)\], bytes_per_us = \[(.*?)\]>", dist)
        found = kinds or re.search(r"latency_ns = \[(.*?)\], bytes_per_us = \[(.*?)\]", dist)
        beside = re.search(r"beside = \[(.*?)\]", dist)
        return tuple([int(x) for x in group.split(", ")] for group in found.groups()), beside[1]
    # Axis a is between pods of two hosts, b between hosts, c within one. Of a message of each of four ranks an uplink carries a fourth at a time.
    for machine, a, beside in (
            ("hosts_per_pod: 2 inter_pod { latency_us: 5 bandwidth_gb_per_s: 1 } uplinks_per_pod: 1", (5000, 250), "0, 1"),
            ("hosts_per_pod: 2 inter_pod { latency_us: 5 } uplinks_per_pod: 2", (5000, 500), "0, 1"),
            ("hosts_per_pod: 2 inter_pod { bandwidth_gb_per_s: 0.5 moves_beside: false } uplinks_per_pod: 2", (2000, 250), "1"),
            ("hosts_per_pod: 2 inter_pod {}", (2000, 1000), "0, 1"),  # as many uplinks as adapters
            ("hosts_per_pod: 4 inter_pod { latency_us: 5 } uplinks_per_pod: 1", (2000, 1000), "0, 1")):
        expect(links(machine), (([a[0], 2000, 1000], [a[1], 1000, 10000]), beside), machine)


@case("machine.rails")
def rails(bench):
    matrix_model(bench)
    def rate(machine):
        axes, place = (("a", 2), ("b", 2)), "device_ids: [0, 1, 2, 3]"
        dist = costs_of(bench.emit("dist", product_job("mode: DATA_PARALLEL", mesh(*axes, extra=place), f"machine {{ {machine} }}", batch=4)))
        found = re.search(r"<kind = permute, latency_ns = \[.*?\], bytes_per_us = \[(\d+), ", dist)
        return int(found[1]) if found else int(re.search(r"bytes_per_us = \[(\d+), ", dist)[1])
    # Groups 0 2 and 1 3. Hosts of 2 ranks and adapters: each rank has its own, with rails or without. One adapter for both is shared.
    hosts = "ranks_per_host: 2 inter_host { bandwidth_gb_per_s: 1 } "
    for machine, expected in (("adapters_per_host: 2", 1000), ("adapters_per_host: 2 rails: true", 1000), ("adapters_per_host: 1 rails: true", 500)):
        expect(rate(hosts + machine), expected, machine)
    bench.refused(bench.compiler(product_job("mode: DATA_PARALLEL", mesh(("a", 4)), f"machine {{ {hosts} rails: true }}", batch=4), "--report", "r.json"),
                  "machine.rails is true, but there is no machine.adapters_per_host")


@case("machine.ranks_per_host", "machine.intra_host.latency_us", "machine.intra_host.bandwidth_gb_per_s",
      "machine.intra_host.moves_beside", "machine.inter_host.latency_us", "machine.inter_host.bandwidth_gb_per_s",
      "machine.inter_host.moves_beside", "mesh.device_ids")
def machine(bench):
    matrix_model(bench)
    links = "intra_host { latency_us: 1.5 bandwidth_gb_per_s: 3 } inter_host { latency_us: 20 bandwidth_gb_per_s: 0.25 }"
    two = mesh(("a", 2), ("b", 2))
    near, far = (1500, 3000), (20000, 250)
    for text, a, b in (
            (two + f" machine {{ {links} }}", near, near),
            (two + f" machine {{ ranks_per_host: 2 {links} }}", far, near),
            (two + f" machine {{ ranks_per_host: 1 {links} }}", far, far),
            (two + f" machine {{ ranks_per_host: 4 {links} }}", near, near),
            # Ranks 0 and 1, of one host, are devices 0 and 2: axis a connects them, and b ranks 0 and 2.
            (mesh(("a", 2), ("b", 2), extra="device_ids: [0, 2, 1, 3]") + f" machine {{ ranks_per_host: 2 {links} }}", near, far),
            (mesh(("a", 2), ("b", 2), extra="device_ids: [0, 3, 2, 1]") + f" machine {{ ranks_per_host: 2 {links} }}", far, far),
            # Three ranks a host: of each axis only the first group leaves a host, and decides.
            (mesh(("a", 2), ("b", 2), extra="device_ids: [3, 0, 1, 2]") + f" machine {{ ranks_per_host: 3 {links} }}", far, far),
            # What is left out is that of the target.
            (two + " machine { ranks_per_host: 2 intra_host { latency_us: 7 } inter_host { bandwidth_gb_per_s: 2 } }", (2600, 2000), (7000, 23000)),
            (two + " machine { ranks_per_host: 2 intra_host { bandwidth_gb_per_s: 2 } inter_host { latency_us: 7 } }", (7000, 1200), (60, 2000))):
        expect(links_of(bench, text), ([a[0], b[0]], [a[1], b[1]]), text)
    # Between hosts data moves while ranks compute, within one it does not, unless the job says so; between GPUs it does.
    beside = lambda text, *options: re.findall(r"beside = \[(.*?)\]", costs_of(bench.emit("dist", product_job("mode: DATA_PARALLEL", text, batch=4), *options)))
    expect(beside(two + "machine { ranks_per_host: 2 }"), ["0"], "between hosts")
    expect(beside(two), [], "within a host")
    expect(beside(two + "machine { intra_host { moves_beside: true } }"), ["0, 1"], "said of a host")
    expect(beside(two + "machine { ranks_per_host: 2 inter_host { moves_beside: false } }"), [], "said of a network")
    expect(beside(two, "--target", "cuda"), ["0, 1"], "cuda")
    # The ranks run in that order too, and compute the same.
    bench.npy("x_train", [i % 5 for i in range(32)], (4, 8))
    for ids in ("", "device_ids: [3, 1, 0, 2]"):
        log = bench.train(product_job("mode: DATA_PARALLEL", mesh(("a", 2), ("b", 2), extra=ids), batch=4, optimizer=STILL), ranks=4)
        expect(log.losses, [sum((i % 5) * ((4 * (i % 8) + j) % 7 - 3) for i in range(32) for j in range(4)) / 16], ids)


@case("machine.preset", "machine.preset=A100", "machine.preset=H100", "machine.preset=H200")
def preset(bench):
    matrix_model(bench)
    def machine(text):
        dist = bench.emit("dist", product_job("mode: DATA_PARALLEL", mesh(("a", 2), ("b", 8)), f"machine {{ {text} }}", batch=16), "--target", "cuda")
        device = re.search(r"flops_per_us = (\d+), narrow_flops_per_us = (\d+), bytes_per_us = (\d+)", dist).groups()
        links = re.search(r"bytes_per_us = \[(\d+), (\d+)\]", dist).groups()
        return tuple(int(number) for number in (*device, *links))
    # Axis a is between hosts of 8, b within one.
    expect(machine("preset: A100"), (19500000, 265000000, 1700000, 24000, 204000), "A100")
    expect(machine("preset: H100"), (67000000, 798000000, 3000000, 48000, 214000), "H100")
    expect(machine("preset: H200"), (67000000, 798000000, 4300000, 48000, 214000), "H200")
    expect(machine("preset: A100 ranks_per_host: 16 device { memory_gb_per_s: 7 }"), (19500000, 265000000, 7000, 204000, 204000), "with fields of its own")


@case("machine.device.gflop_per_s", "machine.device.narrow_gflop_per_s", "machine.device.memory_gb_per_s")
def device(bench):
    matrix_model(bench)
    def job(text):
        return product_job("mode: DATA_PARALLEL" if "mesh" in text else "mode: STAND_ALONE", text, batch=4)
    def rates(text, *options):
        dist = bench.emit("dist", job(text), *options)
        return tuple(int(x) for x in re.search(r"flops_per_us = (\d+), narrow_flops_per_us = (\d+), bytes_per_us = (\d+)", dist).groups())
    two = mesh(("a", 2))
    expect(rates(two), (83000, 83000, 20000), "one core")
    expect(rates("", "--target", "cuda"), (67000000, 798000000, 3000000), "an H100, without a mesh")
    expect(rates(two + "machine { device { gflop_per_s: 0.5 narrow_gflop_per_s: 4 memory_gb_per_s: 2 } }"), (500, 4000, 2000), "given")
    expect(rates("machine { device { memory_gb_per_s: 7 } }"), (83000, 83000, 7000), "one given")
    # Only arithmetic takes time, at 1 and at 2 operations a microsecond.
    def times(gflops):
        report = bench.report(job(f"machine {{ device {{ gflop_per_s: {gflops} memory_gb_per_s: 1e6 }} }}"))
        return {program["name"]: program["compute_ns"] for program in report["programs"]}
    slow, fast = times(0.001), times(0.002)
    # The product of (4, 8) and (8, 4): 4 * 8 * 4 multiplications and additions, in the step that trains and in that which evaluates.
    for name in ("train_step", "eval_step"):
        expect(slow[name] >= 256e3, True, f"{name}: at an operation a microsecond")
        expect([slow[name]], [2 * fast[name]], f"{name}: half as fast")


@case("machine.device.launch_us", *[f"machine.device.{table}.{field}" for table in ("products", "convolutions", "attentions")
                                     for field in ("from", "gflop_per_s", "narrow_gflop_per_s")])
def device_tables(bench):
    # Only what the tables say takes time: the product of (64, 128) and (128, 64) is 2^20 operations, and its smallest size is 64.
    fast = "gflop_per_s: 1e6 narrow_gflop_per_s: 1e6 memory_gb_per_s: 1e6"
    def time(device, *more, mode="mode: STAND_ALONE", batch=64):
        report = bench.report(product_job(mode, *more, f"machine {{ device {{ {fast} {device} }} }}", batch=batch))
        return next(program["compute_ns"] for program in report["programs"] if program["name"] == "eval_step")
    def is_near(number, us, text):
        expect(us * 1e3 <= number < us * 1e3 + 1e3, True, f"{text}: {number} ns is not {us} us")
    def entry(size, gflops, more=""):
        return f"products {{ from: {size} gflop_per_s: {gflops} {more} }} "
    matrix_model(bench, rows=128, columns=64)
    ops = 1 << 20
    is_near(time(""), 0, "no tables")
    is_near(time(entry(1, 0.001)), ops, "one class")
    is_near(time(entry(1, 0.001) + entry(64, 0.002)), ops // 2, "from its size on")
    is_near(time(entry(1, 0.001) + entry(65, 0.002)), ops, "up to the next class")
    is_near(time(entry(65, 0.004) + entry(99, 0.002)), ops // 4, "smaller than all classes")
    # 32 rows on each of two devices, and half of the operations.
    is_near(time(entry(1, 0.001) + entry(64, 0.002), mesh(("dp", 2)), mode="mode: DATA_PARALLEL"), ops // 2, "on a device")
    is_near(time(entry(1, 1e6, "narrow_gflop_per_s: 0.001"), "precision: BF16_MIXED"), ops, "of bf16")
    is_near(time(entry(1, 0.001), "precision: BF16_MIXED"), ops, "of bf16, as of f32")
    none, some, more = (time(f"launch_us: {launch}") for launch in (0, 100, 200))
    expect((some - none, more - some), (300e3, 300e3), "the product, the mean and the count of samples are launched")
    # 4 samples of 4 channels at 2 x 2 positions, each the sum of 2 x 3 x 3 products: 2304 operations, of fewest channels 2.
    bench.model(
        node("Conv", ["x", "k"], ["y"]), node("ReduceMean", ["y"], ["loss"], keepdims=0),
        parameter("k", [4, 2, 3, 3], [i % 7 - 3 for i in range(72)]), graph_input("x", ["batch", 2, 4, 4]), graph_output("loss", []))
    tables = "convolutions { from: 1 gflop_per_s: 0.001 narrow_gflop_per_s: 0.004 } convolutions { from: %d gflop_per_s: 0.002 narrow_gflop_per_s: 0.008 }"
    is_near(time(tables % 2, batch=4), 1152, "convolution of 2 channels in")
    is_near(time(tables % 3, batch=4), 2304, "up to the next class")
    is_near(time(tables % 2, "precision: BF16_MIXED", batch=4), 288, "convolution of bf16")
    # 32 rows and keys of width 16 in each of 4 samples, scores and weighted sum: 2^18 operations, of smallest size 16.
    bench.model(
        node("Mul", ["x", "w"], ["s"]), node("Transpose", ["s"], ["t"], perm=[0, 2, 1]), node("MatMul", ["s", "t"], ["scores"]),
        node("Softmax", ["scores"], ["weights"], axis=-1), node("MatMul", ["weights", "s"], ["y"]), node("ReduceMean", ["y"], ["loss"], keepdims=0),
        parameter("w", [16], [1] * 16), graph_input("x", ["batch", 32, 16]), graph_output("loss", []), opset=17)
    tables = "attentions { from: 1 gflop_per_s: 0.001 narrow_gflop_per_s: 0.004 } attentions { from: %d gflop_per_s: 0.002 narrow_gflop_per_s: 0.008 }"
    is_near(time(tables % 16, batch=4), 1 << 17, "attention of width 16")
    is_near(time(tables % 17, batch=4), 1 << 18, "up to the next class")
    is_near(time(tables % 16, "precision: BF16_MIXED", batch=4), 1 << 15, "attention of bf16")
    is_near(time(entry(1, 0.001), batch=4), 1 << 18, "attention as a product")


KINDS = ("ALL_REDUCE", "REDUCE_SCATTER", "ALL_TO_ALL", "ALL_GATHER", "PERMUTE", "BROADCAST", "HALO")


@case(*[f"machine.{links}.collectives.{field}" for links in ("intra_host", "inter_host", "inter_pod")
        for field in ("latency_us", "bandwidth_gb_per_s", "kind", *[f"kind={kind}" for kind in KINDS])])
def collective_rates(bench):
    matrix_model(bench)
    two = mesh(("a", 2), ("b", 2))
    def kinds_of(machine):
        dist = bench.emit("dist", product_job("mode: DATA_PARALLEL", two, f"machine {{ ranks_per_host: 2 adapters_per_host: 2 {machine} }}", batch=4))
        found = re.findall(r"<kind = (\w+), latency_ns = \[(.*?)\], bytes_per_us = \[(.*?)\]>", costs_of(dist))
        return [(kind, [int(x) for x in latency.split(", ")], [int(x) for x in rate.split(", ")]) for kind, latency, rate in found]
    links = "intra_host { latency_us: 1 bandwidth_gb_per_s: 10 %s } inter_host { latency_us: 9 bandwidth_gb_per_s: 2 %s }"
    # Axis a is between hosts, where an all-reduce of two waits for one message instead of two.
    sums = [("all_reduce", [4500, 1000], [2000, 10000])]
    expect(kinds_of(links % ("", "")), sums, "none given")
    # What is left out, and the other class, have what the class says.
    for kind in KINDS:
        given = f"collectives {{ kind: {kind} latency_us: 3 bandwidth_gb_per_s: 4 }}"
        others, share = ([], 2) if kind == "ALL_REDUCE" else (sums, 1)
        expect(kinds_of(links % (given, "")), others + [(kind.lower(), [9000 // share, 3000], [2000, 4000])], f"{kind} within a host")
        expect(kinds_of(links % ("", given)), others + [(kind.lower(), [3000 // share, 1000], [4000, 10000])], f"{kind} between hosts")
    # Between pods of a host each; fields that are left out are those of an adapter.
    pods = links % ("", "collectives { kind: BROADCAST latency_us: 4 }") + " hosts_per_pod: 1 inter_pod { %s }"
    expect(kinds_of(pods % ""), sums + [("broadcast", [4000, 1000], [2000, 10000])], "between pods, none given")
    for kind in KINDS:
        given = f"collectives {{ kind: {kind} latency_us: 3 bandwidth_gb_per_s: 1 }}"
        share = 2 if kind == "ALL_REDUCE" else 1
        expected = dict((name, (latency, rate)) for name, latency, rate in kinds_of(pods % given))
        expect(expected[kind.lower()], ([3000 // share, 1000], [1000, 10000]), f"{kind} between pods")
    expect(kinds_of(links % ("collectives { kind: HALO latency_us: 3 }", "collectives { kind: HALO bandwidth_gb_per_s: 4 }")),
           sums + [("halo", [9000, 3000], [4000, 10000])], "fields of their own")
    # The gradient of w, 128 bytes from each of two ranks in two messages, and the loss, 4 bytes.
    def time(machine):
        report = bench.report(product_job("mode: DATA_PARALLEL", mesh(("dp", 2)), f"machine {{ intra_host {{ {machine} }} }}", batch=4))
        return next(program["time_ns"] for program in report["programs"] if program["name"] == "train_step")
    plain = "latency_us: 1 bandwidth_gb_per_s: 1 "
    expect(time(plain), 2 * 2000 + 128 + 4, "all kinds alike")
    slow = "collectives { kind: ALL_REDUCE latency_us: 5 bandwidth_gb_per_s: 0.5 } "
    # The loss stays an all-reduce; for the gradient a reduce-scatter and an all-gather are now faster, of a message each, until they are not.
    expect(time(plain + slow), 2 * 5000 + 2 * 4 + 2 * 1000 + 128, "slower all-reduces")
    expect(time(plain + slow + "collectives { kind: ALL_GATHER latency_us: 50 }"), 2 * 2 * 5000 + 2 * (128 + 4), "slower all-gathers, too")
    expect(time(plain + "collectives { kind: ALL_GATHER latency_us: 5 bandwidth_gb_per_s: 0.5 }"), 2 * 2000 + 128 + 4, "slower all-gathers")


RULES_MESH = mesh(("a", 2), ("b", 4))


@case("rules.match", "rules.layout", "rules.in.slices", "rules.out.slices", "rules.priority", "rules.origin")
def rules(bench):
    matrix_model(bench)
    def report(*texts):
        return bench.report(product_job("mode: SEMI_AUTO", RULES_MESH, *texts, batch=8))
    for rule, local, argument in (
            ('rules { match: "w" layout: "[{b}, {}]" } rules { match: "x" layout: "[{}, {}]" }', "2x4xf32", "8x8xf32"),
            ('rules { match: "?" layout: "[{a}, {}]" }', "4x4xf32", "4x8xf32"),
            ('rules { match: "w" layout: "[{b}, {a}]" } rules { match: "x" layout: "[{a}, {}]" }', "2x2xf32", "4x8xf32"),
            # Slices of x and w at the product y: 2 of the rows of x, 4 of the columns of w.
            ('rules { match: "y" in { slices: [2, 1] } in { slices: [1, 4] } }', "8x1xf32", "4x8xf32"),
            ('rules { match: "y" in { slices: [4, 1] } in { slices: [1, 2] } }', "8x2xf32", "2x8xf32")):
        found = report(rule)
        expect(local_of(found), local, f"{rule}: piece of w")
        job = product_job("mode: SEMI_AUTO", RULES_MESH, rule, batch=8)
        expect(argument_types(bench.emit("dist", job)), [argument], f"{rule}: piece of x")
    # Where the result is cut in 4: what the product makes on a device.
    for out, local in (("[4, 1]", "2x4xf32"), ("[1, 4]", "8x1xf32"), ("[2, 4]", "4x1xf32")):
        job = product_job("mode: SEMI_AUTO", RULES_MESH, f'rules {{ match: "y" out {{ slices: {out} }} }}', batch=8)
        product = re.search(r'nn.matmul .*nn.outputs = \["y"\].* -> tensor<(.*?)>', bench.emit("dist", job)).group(1)
        expect(product, local, f"out {out}")
    # Of two rules for one tensor that of the lower priority holds; the origin is the line where it stands.
    rows, columns = 'rules { match: "w" layout: "[{b}, {}]"', 'rules { match: "w" layout: "[{}, {b}]"'
    for texts, local, line in (
            ((rows + " priority: 1 }", columns + " priority: 2 }"), "2x4xf32", 0),
            ((rows + " priority: 2 }", columns + " priority: 1 }"), "8x1xf32", 1),
            ((columns + " }", rows + " priority: 1 }"), "8x1xf32", 0)):
        found = report(*texts)
        expect(local_of(found), local, str(texts))
        job_text = bench.read("job.txtpb").split("\n")
        place = 1 + job_text.index(texts[line])
        expect(found["variables"][0]["origin"], f'rule "w" (job.txtpb:{place})', str(texts))


def kinds(*names):
    return [f"comm_fusion.{kind}.{name}" for kind in ("all_reduce", "all_gather", "reduce_scatter") for name in names]


@case("rules.comm_fusion", *kinds("mode", "mode=AUTO_BUCKETS", "mode=SIZE", "mode=INDEX", "size_mb", "index"))
def comm_fusion(bench):
    # y = x a b c d, with weights of 512 x 512 (1 MiB) but for d, which is 512 x 1.
    size = 512
    names = ["a", "b", "c", "d"]
    bench.model(
        *[node("MatMul", [x, w], [y]) for x, w, y in zip(["x", "xa", "xb", "xc"], names, ["xa", "xb", "xc", "y"])],
        node("ReduceMean", ["y"], ["loss"], keepdims=0),
        *[parameter(w, [size, 1 if w == "d" else size], [(i % 7 - 3) / 64 for i in range(size * (1 if w == "d" else size))]) for w in names],
        graph_input("x", ["batch", size]), graph_output("loss", []))
    rows = [((7 * i) % 11 - 5) / 8 for i in range(8 * size)]
    bench.npy("x_train", rows, (8, size))
    whole = "mode: DATA_PARALLEL"
    # Weights split over the devices that split the batch: each is gathered, and its gradient scattered.
    split = "mode: SEMI_AUTO " + " ".join(f'rules {{ match: "{t}" layout: "[{{dp}}, {{}}]" }}' for t in ["x*", "y", *names])
    links = "machine { intra_host { latency_us: 100 bandwidth_gb_per_s: 1 } }"
    def job(mode, fusion):
        return product_job(mode, mesh(("dp", 2)), links, f"comm_fusion {{ {fusion} }}" if fusion else "", batch=2048 if mode == split else 8,
                           optimizer="sgd {} learning_rate: 0.0625")
    def gradients(*parts):
        return [[f"gradient of {w}" for w in part] for part in parts]
    # Gradients come from the last layer to the first. Of whole tensors, 1 MiB is more than 1 MB. In the time of two messages 200 kB could
    # be sent; 19 times that is sent for 3.8 MB: all of them are one bucket.
    for fusion, parts in (
            ("", ("d", "c", "b", "a")),
            ("all_reduce { mode: AUTO_BUCKETS }", ("dcba",)),
            ("all_reduce {}", ("dcba",)),
            ("all_reduce { mode: SIZE }", ("dcba",)),
            ("all_reduce { mode: SIZE size_mb: 1 }", ("d", "c", "b", "a")),
            ("all_reduce { mode: SIZE size_mb: 2 }", ("dc", "b", "a")),
            ("all_reduce { mode: SIZE size_mb: 3 }", ("dcb", "a")),
            ("all_reduce { mode: INDEX index: 1 }", ("d", "cba")),
            ("all_reduce { mode: INDEX index: [1, 3] }", ("d", "cb", "a")),
            ("all_gather { mode: SIZE } reduce_scatter { mode: SIZE }", ("d", "c", "b", "a"))):
        found = [c["members"] for c in bench.report(job(whole, fusion))["collectives"] if c["members"][0].startswith("gradient")]
        expect(found, gradients(*parts), f"all-reduces with {fusion}")
    ids = " ".join(f'rules {{ match: "{w}" comm_fusion: {number} }}' for w, number in (("a", 1), ("b", 0), ("c", 1), ("d", 2)))
    found = bench.report(job(whole + " " + ids, ""))
    expect([(c["members"], c["fusion_id"]) for c in found["collectives"] if c["members"][0].startswith("gradient")],
           [(["gradient of d"], 0), (["gradient of b"], 0), (["gradient of c", "gradient of a"], 1)], "ids")
    expect({v["name"]: v["fusion_id"] for v in found["variables"]}, {"a": 1, "b": 0, "c": 1, "d": 2}, "ids of parameters")
    for kind, rows, of_three in (("all_gather", "256x", [2, 2]), ("reduce_scatter", "512x", [3, 1])):
        # Weights are gathered from the first to the last, and their gradients come the other way: d is small.
        for setting, counts in (
                ("", [1, 1, 1, 1]), ("mode: AUTO_BUCKETS", [4]), ("mode: SIZE", [4]), ("mode: SIZE size_mb: 3", of_three),
                ("mode: INDEX index: [1, 3]", [1, 2, 1])):
            found = bench.report(job(split, f"{kind} {{ {setting} }}" if setting else ""))["collectives"]
            tensors = [c["tensors"] for c in found if c["kind"] == kind and all(o.startswith(rows) for o in c["operand"].split(", "))]
            expect(tensors, counts, f"{kind} with {setting}")
    # The numbers stay the same to the last bit.
    logs = [bench.train(job(whole, fusion), "--epochs", "3", ranks=2).losses
            for fusion in ("", "all_reduce { mode: AUTO_BUCKETS }", "all_reduce { mode: INDEX index: 2 }")]
    expect(len(logs[0]), 3, "steps")
    expect(logs[1:], [logs[0], logs[0]], "losses")


@case("device_configuration")
def device_configuration(bench):
    matrix_model(bench)
    job = product_job("mode: SEMI_AUTO", mesh(("tp", 4)), 'rules { match: "w" layout: "[{}, {tp}]" }', batch=4)
    bench.ok(bench.compiler(job, "--annotate", "annotated.onnx"))
    for text, local in (('device_configuration: "ashlar"', "8x1xf32"), ('rules { match: "w" layout: "[{tp}, {}]" }', "2x4xf32")):
        found = bench.report(product_job("mode: SEMI_AUTO", mesh(("tp", 4)), text, batch=4), model="annotated")
        expect(local_of(found), local, text)
    bench.refused(bench.compiler(product_job("mode: SEMI_AUTO", mesh(("tp", 4)), 'device_configuration: "other"', batch=4),
                                 "--report", "r.json", model="annotated"), "other")


@case("deterministic.chunks", "deterministic.always")
def deterministic(bench):
    product_model(bench)
    bench.npy("x_train", range(12), (12, 1))
    for text, chunks, flags in (("deterministic { chunks: 3 }", 3, ["--deterministic"]), ("deterministic { chunks: 6 always: true }", 6, []),
                                ("deterministic { chunks: 2 always: false }", 2, ["--deterministic"])):
        job = product_job(text, batch=6, optimizer=STILL)
        expect(bench.train(job, *flags).losses, [2.5, 8.5], text)
        bench.refused(["mpirun", "-n", "5", "./program", "--data", ".", *flags], f"compiled for 1 of {chunks} chunks each")
    # Without the flag, and without always, it is one program of one rank.
    bench.refused(["mpirun", "-n", "5", "./program", "--data", "."], "5 ranks at launch but the program was compiled for 1;")
    job = product_job("deterministic { chunks: 6 }", mesh(("dp", 2)), batch=6, optimizer=STILL)
    expect(bench.train(job, "--deterministic", ranks=2).losses, [2.5, 8.5], "three chunks on each of two ranks")
    bench.refused(["mpirun", "-n", "3", "./program", "--data", ".", "--deterministic"], "compiled for 2 of 3 chunks each")
    # Eight by default.
    bench.compile(product_job(batch=8, optimizer=STILL))
    bench.refused(["mpirun", "-n", "5", "./program", "--data", ".", "--deterministic"], "compiled for 1 of 8 chunks each")


@case("gradient_reduce_precision", "gradient_reduce_precision=F32", "gradient_reduce_precision=BF16")
def gradient_reduce_precision(bench):
    # The gradient of w is the mean of x. bf16 has 8 bits: each device rounds its half of 1 + 2^-9 to 1/2, and the sum of two halves is 1.
    product_model(bench)
    bench.npy("x_train", 2 * [1 + 2**-9] + 2 * [1], (4, 1))
    for mode in ("", 'mode: SEMI_AUTO rules { match: "x" layout: "[{dp}, {}]" }'):
        for text, kind, left in (("", "f32", -2**-9), ("gradient_reduce_precision: F32", "f32", -2**-9), ("gradient_reduce_precision: BF16", "bf16", 0)):
            job = product_job(mode, mesh(("dp", 2)), text, batch=2, optimizer="sgd {} learning_rate: 1")
            expect([(c["kind"], c["type"], c.get("f32_bytes", 0)) for c in bench.report(job)["collectives"] if c["cause"] == "gradient of w"],
                   [("all_reduce", kind, 4 if kind == "bf16" else 0)], f"{text}: collectives")
            expect(bench.train(job, ranks=2).losses, [1 + 2**-9, left], f"{text}: losses")
    _, text, _ = bench.call(bench.compiler(product_job(mesh(("dp", 2)), "gradient_reduce_precision: BF16", batch=2), "--explain"))
    expect(re.findall(r"^ +type +(.*), [0-9.]+ [a-z]+ predicted$", text, re.M), ["bf16; in f32 4 B sent by each device"], "the explanation")
    # Of several micro-batches the sum is f32: a device's is 1/2 + 2^-10 again, which bf16 rounds, of terms that it does not.
    bench.npy("x_train", [1, 2**-8, 1, 2**-8] + 4 * [1], (8, 1))
    for text, left in (("", 0.5 - 2**-9), ("gradient_reduce_precision: BF16", 0.5)):
        job = product_job(mesh(("dp", 2)), text, "accumulate: 2", batch=4, optimizer="sgd {} learning_rate: 1")
        expect(bench.train(job, ranks=2).losses, [0.5 + 2**-9, left], f"{text}, micro-batches: losses")
    bench.refused(bench.compiler(product_job("gradient_reduce_precision: FP8"), "-o", "program"),
                  'unknown value "FP8" of field gradient_reduce_precision; one of F32, BF16')


@case("gradient_sync", "gradient_sync=AUTO", "gradient_sync=STEP", "gradient_sync=MICRO_BATCH")
def gradient_sync(bench):
    rows, columns, batch = 16, 16, 8  # a gradient of w has 1024 bytes
    matrix_model(bench, rows, columns)
    xs = [(3 * i) % 11 - 4 for i in range(2 * batch * rows)]
    bench.npy("x_train", xs, (2 * batch, rows))

    def job(text, level, parts=4, batch=batch):
        parallel = f"optimizer_parallel {{ level: {level} threshold_kb: 0 }}" if level else ""
        return product_job("mode: SEMI_AUTO", mesh(("dp", 2)), 'rules { match: "x" layout: "[{dp}, {}]" }', parallel, text, f"accumulate: {parts}", batch=batch,
                           optimizer="momentum { momentum: 0 } learning_rate: 64")
    losses = bench.train(job("", 0, parts=1), ranks=2).losses
    # Reductions of the gradient by program, and the bytes of its sum on a device.
    step, micro = {"train_step": 0, "update": 1}, {"train_step": 1, "update": 0}
    for text, level, expected, of_sum in (
            ("", 0, step, 1024), ("gradient_sync: AUTO", 0, step, 1024), ("gradient_sync: STEP", 0, step, 1024), ("gradient_sync: MICRO_BATCH", 0, micro, 1024),
            ("", 1, step, 1024), ("gradient_sync: MICRO_BATCH", 1, micro, 1024),
            ("", 2, micro, 512), ("gradient_sync: AUTO", 2, micro, 512), ("gradient_sync: STEP", 2, step, 1024), ("gradient_sync: MICRO_BATCH", 2, micro, 512),
            ("", 3, micro, 512), ("gradient_sync: STEP", 3, step, 1024)):
        dist = bench.emit("dist", job(text, level))
        found = {name: len(re.findall(r"dist\.(?:all_reduce|reduce_scatter) .*tensor<\d+x",
                                      re.search(rf"func.func @{name}\(.*?\n  }}\n", dist, re.S).group(0))) for name in expected}
        expect(found, expected, f"{text}, level {level}: reductions")
        sums = [v["bytes"] for v in bench.report(job(text, level))["variables"] if v["name"] == "w.gradient"]
        expect(sums, [of_sum], f"{text}, level {level}: bytes of the sum")
        expect(bench.train(job(text, level), ranks=2).losses, losses, f"{text}, level {level}: losses")
    # AUTO within the memory of a device: once a step where that is faster by the job's machine, and keeps the limit.
    slow = "machine { intra_host { bandwidth_gb_per_s: 0.001 } }"
    for level in (2, 3):
        used = {sync: bench.report(job(f"{slow} gradient_sync: {sync}", level))["memory"]["bytes"] for sync in ("STEP", "MICRO_BATCH")}
        options = ("--memory", f"{used['STEP']}B")
        found = bench.report(job(slow, level), *options)
        expect(found["gradient_sync"]["taken"], "reduced once a step", f"level {level}")
        expect([each["bytes"] for each in found["gradient_sync"]["strategies"]], [used["STEP"], used["MICRO_BATCH"]], f"level {level}: bytes of both")
        expect([v["bytes"] for v in found["variables"] if v["name"] == "w.gradient"], [1024], f"level {level}: bytes of the sum")
        expect(bench.train(job(slow, level), ranks=2, compile_options=options).losses, losses, f"level {level}: losses")
    # A rule that shards the parameter over the axis of the batch: its terms are larger than its part, and smaller than the batch.
    many = 256
    xs = [(3 * i) % 11 - 4 for i in range(2 * many * rows)]
    bench.npy("x_train", xs, (2 * many, rows))
    sharded = 'rules { match: "y" layout: "[{dp}, {}]" } rules { match: "w" layout: "[{dp}, {}]" }'
    losses = bench.train(job("", 0, parts=1, batch=many), ranks=2).losses
    for text, expected, of_sum in (("", micro, 512), ("gradient_sync: STEP", step, 1024), ("gradient_sync: MICRO_BATCH", micro, 512)):
        by_rule = job(text + " " + sharded, 0, batch=many)
        dist = bench.emit("dist", by_rule)
        found = {name: len(re.findall(r"dist\.reduce_scatter .*tensor<\d+x", re.search(rf"func.func @{name}\(.*?\n  }}\n", dist, re.S).group(0))) for name in expected}
        expect(found, expected, f"{text}, by a rule: reductions")
        expect([v["bytes"] for v in bench.report(by_rule)["variables"] if v["name"] == "w.gradient"], [of_sum], f"{text}, by a rule: bytes of the sum")
        expect(bench.train(by_rule, ranks=2).losses, losses, f"{text}, by a rule: losses")
    status, _, err = bench.call(bench.compiler(job("gradient_sync: STEP", 1, parts=1), "-o", "program"))
    expect((status, err), (0, "note: gradient_sync is about the micro-batches of a step, and this one has one; add accumulate or a pipeline\n"), "without them")
    bench.refused(bench.compiler(job("gradient_sync: NEVER", 1), "-o", "program"), 'unknown value "NEVER" of field gradient_sync; one of AUTO, STEP, MICRO_BATCH')


@case("optimizer_parallel.level", "optimizer_parallel.threshold_kb", "optimizer_parallel.shard_size", "rules.optimizer_parallel")
def optimizer_parallel(bench):
    rows, columns, batch = 16, 16, 4  # w has 1024 bytes
    matrix_model(bench, rows, columns)
    xs = [(3 * i) % 11 - 4 for i in range(2 * batch * rows)]
    bench.npy("x_train", xs, (2 * batch, rows))
    # The mean of x w, and its gradient, which is that of every column: 1 / (batch * columns) of the sum of the rows of x. With this rate all
    # are small integers or their 64ths.
    w, losses = [i % 7 - 3 for i in range(rows * columns)], []
    for step in range(2):
        x = xs[step * batch * rows:(step + 1) * batch * rows]
        sums = [sum(x[s * rows + k] for s in range(batch)) for k in range(rows)]
        losses.append(sum(sums[k] * w[k * columns + j] for k in range(rows) for j in range(columns)) / (batch * columns))
        w = [value - sums[i // columns] for i, value in enumerate(w)]

    def job(text, size=4):
        return product_job("mode: SEMI_AUTO", mesh(("dp", size)), 'rules { match: "x" layout: "[{dp}, {}]" }', text, batch=batch,
                           optimizer="momentum { momentum: 0 } learning_rate: 64")
    def check(text, of_parameter, of_state, collectives, whole):
        report = bench.report(job(text))
        expect(local_of(report), of_parameter, f"{text}: piece of w")
        expect(local_of(report, "w.momentum"), of_state, f"{text}: piece of its state")
        sent = sorted(entry for entry in collectives_of(report) if entry[2] != "f32")  # but for the loss
        expect(sent, sorted(collectives), f"{text}: collectives")
        expect([v.get("replicated") for v in report["variables"] if v["name"] == "w"], [whole], f"{text}: why w stays whole")
        expect(bench.train(job(text), ranks=4).losses, losses, f"{text}: losses")
    scattered = [("reduce_scatter", "dp", "16x16xf32")]
    gathered = [("all_gather", "dp", "4x16xf32")]
    check("", "16x16xf32", "16x16xf32", [("all_reduce", "dp", "16x16xf32")], None)
    for level in (1, 2):
        check(f"optimizer_parallel {{ level: {level} threshold_kb: 0 }}", "16x16xf32", "4x16xf32", scattered + gathered, None)
    check("optimizer_parallel { threshold_kb: 0 }", "16x16xf32", "4x16xf32", scattered + gathered, None)  # level 1
    check("optimizer_parallel { level: 3 threshold_kb: 0 }", "4x16xf32", "4x16xf32", scattered + gathered, None)
    # 1024 bytes are not below 1 KB of 1024, but below 2 KB and the default of 64.
    check("optimizer_parallel { threshold_kb: 1 }", "16x16xf32", "4x16xf32", scattered + gathered, None)
    for text, limit in (("threshold_kb: 2", "2.0 KB"), ("", "65.5 KB")):
        check(f"optimizer_parallel {{ {text} }}", "16x16xf32", "16x16xf32", [("all_reduce", "dp", "16x16xf32")],
              f"1.0 KB on a device, below the threshold of {limit}")
    # A rule counts more than the threshold.
    whole = [("all_reduce", "dp", "16x16xf32")]
    check('optimizer_parallel { threshold_kb: 2 } rules { match: "w" optimizer_parallel: true }', "16x16xf32", "4x16xf32", scattered + gathered, None)
    check('optimizer_parallel { threshold_kb: 0 } rules { match: "w" optimizer_parallel: false }', "16x16xf32", "16x16xf32", whole,
          "a rule sets optimizer_parallel: false")
    # Groups of two neighbours: of four devices in a row the minor half of the axis.
    in_groups = [("reduce_scatter", "dp:(2)2", "16x16xf32"), ("all_reduce", "dp:(1)2", "8x16xf32"), ("all_gather", "dp:(2)2", "8x16xf32")]
    check("optimizer_parallel { threshold_kb: 0 shard_size: 2 }", "16x16xf32", "8x16xf32", in_groups, None)
    check("optimizer_parallel { threshold_kb: 0 shard_size: 4 }", "16x16xf32", "4x16xf32", scattered + gathered, None)
    bench.refused(bench.compiler(job("optimizer_parallel { threshold_kb: 0 shard_size: 3 }"), "-o", "program"),
                  'shard_size 3 does not divide the 4 devices that replicate parameter "w"')


STRATEGY = """
strategy {
  mesh { axes { name: "a" size: 2 } axes { name: "b" size: 4 } }
  variables { name: "w" type: "8x4xf32" layout: "[{b}, {}]"
    origins { source: "no" axis: "a" } origins { source: "by hand" axis: "b" path: "p" op: "nn.mul" } }
  variables { name: "ashlar.seed" type: "i64" layout: "[]" }
  programs {
    name: "init"
    ops { path: "w" kind: "nn.constant" results { type: "8x4xf32" layout: "[{b}, {}]" } }
  }
  programs {
    name: "forward"
    arguments { name: "x" type: "8x8xf32" layout: "[{a}, {}]"
      origins { source: "no" axis: "b" } origins { source: "an argument" axis: "a" path: "p" op: "nn.mul" } }
    results { name: "z" type: "8x4xf32" layout: "[{a}, {}]"
      origins { source: "no" axis: "b" } origins { source: "an output" axis: "a" path: "p" op: "nn.mul" } }
    ops { path: "y" kind: "nn.matmul" results { type: "8x4xf32" layout: "[{a}, {}]"
      origins { source: "no" axis: "b" } origins { source: "a product" axis: "a" path: "p" op: "nn.mul" } } }
    ops { path: "y" kind: "nn.relu" ordinal: 0 results { type: "8x4xf32" layout: "[{a}, {}]" } }
    ops { path: "y" kind: "nn.relu" ordinal: 1 results { type: "8x4xf32" layout: "[{a}, {}]" } }
  }
}
"""

# What stands in the strategy, what is put in its place, and what then is said: the strategy is not that of the model.
STRATEGY_DIFFERENCES = [
    ('name: "a" size: 2', 'name: "c" size: 2', "c"),
    ("size: 4", "size: 2", "is for mesh a=2,b=2 but the job's mesh is a=2,b=4"),
    ('{ name: "w"', '{ name: "v"', "has no variable @w"),
    ('"w" type: "8x4xf32"', '"w" type: "4x8xf32"', "has variable @w with type 4x8xf32, the model has it with 8x4xf32"),
    ('name: "forward"', 'name: "backward"', "has no program @forward"),
    ('arguments { name: "x"', 'arguments { name: "q"', 'has argument 0 of @forward named "q", in the model it is "x"'),
    ('"x" type: "8x8xf32"', '"x" type: "8x9xf32"', "has argument 0 of @forward with type 8x9xf32"),
    ('results { name: "z"', 'results { name: "q"', 'has result 0 of @forward named "q", in the model it is "z"'),
    ('"z" type: "8x4xf32"', '"z" type: "9x4xf32"', "has result 0 of @forward with type 9x4xf32"),
    ('"nn.matmul" results { type: "8x4xf32"', '"nn.matmul" results { type: "8x4xf64"', "with type 8x4xf64"),
    ('path: "y" kind: "nn.matmul"', 'path: "yy" kind: "nn.matmul"', "has no y (nn.matmul) of @forward"),
    ('kind: "nn.matmul"', 'kind: "nn.add"', "has no y (nn.matmul) of @forward"),
    ("ordinal: 1", "ordinal: 2", "has no y (nn.relu number 2) of @forward"),
]


@case(*(f"strategy.{field}" for field in (
    "mesh.axes.name", "mesh.axes.size", "programs.arguments.layout", "programs.arguments.name", "programs.arguments.type", "programs.name",
    "programs.ops.kind", "programs.ops.operands", "programs.ops.ordinal", "programs.ops.path", "programs.ops.results.layout",
    "programs.ops.results.type", "programs.results.layout", "programs.results.name", "programs.results.type", "variables.layout",
    "variables.name", "variables.type",
    *(f"{tensor}.origins.{part}" for part in ("axis", "op", "path", "source")
      for tensor in ("programs.arguments", "programs.ops.results", "programs.results", "variables")))))
def strategy(bench):
    # Two relus of one module path, so that the second has a number.
    bench.model(
        node("MatMul", ["x", "w"], ["y"]), node("Relu", ["y"], ["r"], "y"), node("Relu", ["r"], ["z"], "y"),
        graph_input("x", ["batch", 8]), parameter("w", [8, 4], [1] * 32), graph_output("z", ["batch", 4]))
    job = "mode: SEMI_AUTO global_batch: 8 " + RULES_MESH
    def dist(old="", new=""):
        expect(STRATEGY.count(old) == 1 or not old, True, f"{old} is there once")
        return bench.emit("dist", job + STRATEGY.replace(old, new))
    def facts(text):
        """The pieces of x, w, the product and z, and the collectives."""
        product = re.search(r"nn.matmul .* -> tensor<(.*?)>", text).group(1)
        variable = re.search(r"nn.variable @w trainable : tensor<(.*?)>", text).group(1)
        output = re.search(r"@forward\(.*\) -> \(tensor<(.*?)>", text).group(1)
        return argument_types(text, "forward") + [variable, product, output], re.findall(r"dist\.(all_\w+|slice|reduce_\w+) ", text)
    plain = dist()
    expect(facts(plain), (["4x8xf32", "2x4xf32", "4x4xf32", "4x4xf32"], ["all_gather"]), "as it stands")
    # An origin of an axis that does not split the tensor is none.
    for origin, axis in (("by hand", "b"), ("an argument", "a"), ("an output", "a")):
        expect(plain.count(f'dist.origin = [#dist.origin<source = "{origin}", axis = "{axis}", path = "p", op = "nn.mul">]'), 1, origin)
    # The origin of an op is told where its result has to be moved.
    moved = STRATEGY.replace('ordinal: 0 results { type: "8x4xf32" layout: "[{a}, {}]"', 'ordinal: 0 results { type: "8x4xf32" layout: "[{b}, {}]"')
    told = [origin for one in bench.report(job + moved)["collectives"] for reason in one["reasons"] for origin in reason["origins"]]
    expect("a: a product, along p (nn.mul)" in told, True, str(told))
    for old, new, pieces, collectives in (
            ('"w" type: "8x4xf32" layout: "[{b}, {}]"', '"w" type: "8x4xf32" layout: "[{}, {}]"', ["4x8xf32", "8x4xf32", "4x4xf32", "4x4xf32"], []),
            ('"8x8xf32" layout: "[{a}, {}]"', '"8x8xf32" layout: "[{}, {}]"', ["8x8xf32", "2x4xf32", "4x4xf32", "4x4xf32"], ["slice", "all_gather"]),
            ('"z" type: "8x4xf32" layout: "[{a}, {}]"', '"z" type: "8x4xf32" layout: "[{}, {}]"',
             ["4x8xf32", "2x4xf32", "4x4xf32", "8x4xf32"], ["all_gather", "all_gather"]),
            # Columns of the product over b: each device multiplies its rows of w, and the sums are scattered.
            ('"nn.matmul" results { type: "8x4xf32" layout: "[{a}, {}]"', '"nn.matmul" results { type: "8x4xf32" layout: "[{a}, {b}]"',
             ["4x8xf32", "2x4xf32", "4x4xf32", "4x4xf32"], ["slice", "reduce_scatter", "all_gather"]),
            # An operand that the product insists on: x is made whole first.
            ('"nn.matmul" results', '"nn.matmul" operands: "[{}, {}]" operands: "" results',
             ["4x8xf32", "2x4xf32", "8x4xf32", "4x4xf32"], ["all_gather", "all_gather", "slice"])):
        expect(facts(dist(old, new)), (pieces, collectives), new)
    for old, new, text in STRATEGY_DIFFERENCES:
        expect(STRATEGY.count(old), 1, f"{old} is there once")
        bench.refused(bench.compiler(job + STRATEGY.replace(old, new), "--report", "r.json"), text)


@case("rules.recompute", "rules.recompute_comm", "rules.recompute_param_gather", "recompute", "recompute=BY_RULES", "recompute=AUTO")
def recompute(bench):
    # Two blocks tanh((sigmoid(x a) b)^2), over tp with a sum ahead of the square, and the mean of the squares of what they give.
    size, blocks = 32, ["block0", "block1"]
    nodes, x = [], "x"
    for block in blocks:
        nodes += [node("MatMul", [x, f"{block}.a"], [f"{block}.1"], f"{block}.up"), node("Sigmoid", [f"{block}.1"], [f"{block}.2"], f"{block}.first"),
                  node("MatMul", [f"{block}.2", f"{block}.b"], [f"{block}.3"], f"{block}.down"),
                  node("Mul", [f"{block}.3", f"{block}.3"], [f"{block}.4"], f"{block}.square"),
                  node("Tanh", [f"{block}.4"], [f"{block}.5"], f"{block}.last")]
        x = f"{block}.5"
    bench.model(
        *nodes, node("Mul", [x, x], ["y"], "squares"), node("ReduceMean", ["y"], ["loss"], "mean", keepdims=0),
        *[parameter(f"{block}.{w}", [size, size], [((5 * i) % 13 - 6) / 32 for i in range(size * size)]) for block in blocks for w in "ab"],
        graph_input("x", ["batch", size]), graph_output("loss", []))
    bench.npy("x_train", [((7 * i) % 11 - 5) / 8 for i in range(192 * size)], (192, size))
    tp = "mode: SEMI_AUTO " + mesh(("tp", 2)) + 'rules { match: "*.a" layout: "[{}, {tp}]" } rules { match: "*.b" layout: "[{tp}, {}]" }'
    dp = "mode: SEMI_AUTO " + mesh(("dp", 2)) + 'rules { match: "x" layout: "[{dp}, {}]" } optimizer_parallel { level: 3 threshold_kb: 0 }'
    def job(*texts):
        return product_job(*texts, batch=64, optimizer="momentum { momentum: 0.5 } learning_rate: 0.0625")
    def rule(match, says):
        return f'rules {{ match: "{match}" {says} }}'
    def counts(dist):
        """How often products, sums over tp and gathers are in the step that trains."""
        step = re.search(r"func.func @train_step\(.*?\n  }\n", dist, re.S).group(0)
        return [len(re.findall(op, step)) for op in (r"nn\.matmul ", r'dist\.all_reduce .*over \["tp"\]', r"dist\.all_gather ")]
    def temporaries(text, *options):
        return {part["name"]: part["bytes"] for part in bench.report(text, *options)["memory"]["parts"]}["temporaries"]

    # On one rank: two products of a block forward, and four of their gradients, but for that of x. A copy has both products; block1, with which nothing
    # but a square ends, has a gradient to come after too.
    whole = temporaries(job())
    losses = bench.train(job(), "--epochs", "2").losses
    expect(len(losses), 6, "steps")
    for text, products in (
            ("", 11), ("recompute: BY_RULES", 11), (rule("block*", "recompute: true"), 15), (rule("block0", "recompute: true"), 13),
            (rule("block*", "recompute: false"), 11), (rule("*.first", "recompute: true"), 11), (rule("block1.up", "recompute: true"), 11), (rule("block1.down", "recompute: true"), 12),
            (rule("block*", "recompute: true") + rule("*.down", "recompute: false"), 13),
            (rule("block*", "recompute: true priority: 1") + rule("*", "recompute: false"), 11),
            ("recompute: BY_RULES " + rule("*", "recompute: true priority: 1") + rule("block0", "recompute: false"), 13)):
        expect(counts(bench.emit("dist", job(text)))[0], products, f"{text}: products")
        expect_near(bench.train(job(text), "--epochs", "2").losses, losses, 1e-6, f"{text}: losses")
    again = temporaries(job(rule("block*", "recompute: true")))
    expect(again < whole, True, f"temporaries of {again} bytes and of {whole}")

    # AUTO makes as many copies as the memory asks for, and none that a rule forbids.
    def bytes_of(text, *options):
        return bench.report(text, *options)["memory"]["bytes"]
    most = bytes_of(job())
    bench.refused(bench.compiler(job("recompute: AUTO"), "-o", "program"), "no limit is given")
    limit = most - (whole - again) // 2
    for least in (most, limit):
        found = bytes_of(job("recompute: AUTO"), "--memory", f"{least}B")
        expect(found <= least and (found == most) == (least == most), True, f"AUTO takes {found} of {least} bytes")
    expect_near(bench.train(job("recompute: AUTO"), "--epochs", "2", compile_options=("--memory", f"{limit}B")).losses, losses, 1e-6, "AUTO: losses")
    bench.refused(bench.compiler(job("recompute: AUTO", rule("*", "recompute: false")), "--memory", f"{limit}B", "-o", "program"), "but the memory is")

    # Sums over tp: two forward, and that of the gradient of block1; the copies have one each, or take what is kept.
    for says, (products, sums) in (("recompute: false", (11, 3)), ("recompute: true", (15, 5)), ("recompute: true recompute_comm: true", (15, 5)),
                                   ("recompute: true recompute_comm: false", (13, 3)), ("recompute_comm: false", (11, 3))):
        text = job(tp, rule("block*", says))
        expect(counts(bench.emit("dist", text))[:2], [products, sums], f"{says}: products and sums")
        expect_near(bench.train(text, "--epochs", "2", ranks=2).losses, losses, 1e-6, f"{says}: losses on 2 ranks")

    # Gathers of the four weights: again for the gradients, which need all but that of the first, and for the copies.
    for says, gathers in (("recompute: false", 7), ("recompute: true", 8), ("recompute: true recompute_param_gather: true", 8),
                          ("recompute: true recompute_param_gather: false", 4), ("recompute_param_gather: false", 4)):
        text = job(dp, rule("block*", says))
        expect(counts(bench.emit("dist", text))[2], gathers, f"{says}: gathers")
        expect_near(bench.train(text, "--epochs", "2", ranks=2).losses, losses, 1e-6, f"{says}: losses on 2 ranks")


@case("sequence_parallel", "sequence_parallel=AUTO", "sequence_parallel=OFF")
def sequence_parallel(bench):
    # Two blocks of a column-parallel and a row-parallel product, with a residual and a scale between them, of 64 tokens.
    width, inner, tokens, batch = 32, 64, 64, 4

    def block(index, x):
        return [node("MatMul", [x, f"up{index}"], [f"u{index}"]), node("Tanh", [f"u{index}"], [f"h{index}"]),
                node("MatMul", [f"h{index}", f"down{index}"], [f"d{index}"]), node("Add", [x, f"d{index}"], [f"y{index}"]),
                node("Mul", [f"y{index}", f"scale{index}"], [f"z{index}"])]

    def values(rows, columns, seed):
        return [((7 * i + seed) % 23 - 11) / 256 for i in range(rows * columns)]

    bench.model(*block(1, "x"), *block(2, "z1"), node("Mul", ["z2", "z2"], ["squares"]), node("ReduceMean", ["squares"], ["loss"], keepdims=0),
                *(parameter(f"up{i}", [width, inner], values(width, inner, i)) for i in (1, 2)),
                *(parameter(f"down{i}", [inner, width], values(inner, width, i + 5)) for i in (1, 2)),
                *(parameter(f"scale{i}", [width], [1 + i / 64] * width) for i in (1, 2)), graph_input("x", ["batch", tokens, width]), graph_output("loss", []))
    bench.npy("x_train", values(3 * batch * tokens, width, 3), (3 * batch, tokens, width))

    def job(*extra):
        return product_job("mode: SEMI_AUTO", mesh(("tp", 2)), *(f'rules {{ match: "up{i}" layout: "[{{}}, {{tp}}]" }}' for i in (1, 2)),
                           *(f'rules {{ match: "down{i}" layout: "[{{tp}}, {{}}]" }}' for i in (1, 2)), 'rules { match: "x" layout: "[{}, {}, {}]" }',
                           "machine { intra_host { latency_us: 0.01 bandwidth_gb_per_s: 100 } }", *extra, batch=batch, optimizer="sgd {} learning_rate: 1")

    def kinds(*extra):
        """The collectives of activations in a step."""
        return sorted(kind for kind, _, operand in collectives_of(bench.report(job(*extra))) if operand.count("x") > 1)

    # Forward a sum a block, and backward one for the input of the second block; x needs no gradient.
    sums, shards = 3 * ["all_reduce"], 3 * ["all_gather"] + 3 * ["reduce_scatter"]
    losses = bench.train(product_job(batch=batch, optimizer="sgd {} learning_rate: 1")).losses
    closed = "".join(f'rules {{ match: "{name}" layout: "[{{}}, {{}}, {{}}]" }}' for name in ("d1", "y1", "z1", "d2", "y2", "z2", "squares"))
    for text, expected in (("", shards), ("sequence_parallel: AUTO", shards), ("sequence_parallel: OFF", sums)):
        expect(kinds(text), expected, f"{text}: collectives")
        expect_near(bench.train(job(text), ranks=2).losses, losses, 1e-5, f"{text}: losses")
    expect(kinds(closed), sums, "dims that rules close")
    status, _, err = bench.call(bench.compiler(product_job("sequence_parallel: OFF", mesh(("dp", 2)), batch=batch), "-o", "program"))
    expect((status, err), (0, "note: sequence_parallel is about training with layouts that follow from rules, in mode SEMI_AUTO or in mode AUTO without a search; "
                              "this job has none\n"), "without rules")
    keeps = 'rules { match: "up1" recompute: true recompute_comm: false }'
    status, _, err = bench.call(bench.compiler(job("sequence_parallel: AUTO", keeps), "-o", "program"))
    expect((status, err), (0, "note: sequence_parallel: AUTO shards no sequences beside a rule with recompute_comm: false: the gathers between its products would "
                              "be kept for the backward pass whole; leave out one of the two\n"), "beside kept gathers")
    status, _, err = bench.call(bench.compiler(job(keeps), "-o", "program"))
    expect((status, err), (0, ""), "beside kept gathers, not asked for")
    bench.refused(bench.compiler(job("sequence_parallel: ON"), "-o", "program"), 'unknown value "ON" of field sequence_parallel; one of AUTO, OFF')
