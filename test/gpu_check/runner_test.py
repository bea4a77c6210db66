#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The runner of a GPU pack (tools/gpu_check), on packs of scripts that hang, fail, refuse and print too much: runner_test.py EMULATOR

EMULATOR is the folder of test/emulator's libraries, whose driver makes the runner take this machine for one with a GPU. Where there is none, what
needs it is skipped."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUNNER = ROOT / "tools/gpu_check"
EMULATOR = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "/nonexistent")
FILES = {"table.md", "results.json", "env.txt", "probes.txt", "logs.tgz"}
sys.dont_write_bytecode = True
sys.path.insert(0, str(RUNNER))

import pack as packer  # noqa: E402

METRICS = 'for word in "$@"; do [ "$last" = --metrics ] && metrics=$word; last=$word; done\n'


def losses(*values):
    return "".join(json.dumps({"epoch": 1, "step": step, "loss": value, "seconds": 0.25 * step}) + "\n" for step, value in enumerate(values, 1))


def trains(text):
    """A script that writes these metrics."""
    return METRICS + f"cat > \"$metrics\" << 'END'\n{text}END\n"


class RunnerTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="runner_test."))
        self.addCleanup(shutil.rmtree, self.folder)
        self.pack, self.out = self.folder / "pack", self.folder / "out"
        for name in ("bin", "expected", "forward"):
            (self.pack / name).mkdir(parents=True)
        for name in packer.RUNNER:
            shutil.copy2(RUNNER / name, self.pack)
        self.manifest = {"version": "test", "trains": [], "kernels": [], "models": {}, "limits": {}}
        self.mark = f"RUNNER_TEST_{uuid.uuid4().hex}"  # in the environment of whatever the runner starts
        self.program("unused.1", "exit 0")

    def tearDown(self):
        self.assertEqual(self.left_over(), [], "processes are left over")

    def left_over(self):
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
            try:
                found += [path.parent.name] if self.mark.encode() in path.read_bytes() and int(path.parent.name) != os.getpid() else []
            except OSError:
                pass  # it ended meanwhile
        return found

    def program(self, name, script):
        path = self.pack / "bin" / name
        path.write_text(f"#!/bin/bash\n{script}\n")
        path.chmod(0o755)

    def train(self, name, script, ranks=1, limit=None, expected=(1.0, 0.5)):
        self.program(f"{name}.{ranks}", script)
        (self.pack / "expected" / f"{name}.jsonl").write_text(losses(*expected))
        self.manifest["trains"].append({"name": name, "tolerance": 1e-3, "ranks": [ranks], "steps": len(expected), "data": None})
        if limit:
            self.limit(f"train.{name}.{ranks}.plain", limit)

    def limit(self, part, seconds):
        self.manifest["limits"][part] = seconds

    def start(self, *arguments, gpu=False, **environment):
        (self.pack / "pack.json").write_text(json.dumps(self.manifest))
        if gpu and not EMULATOR.exists():
            self.skipTest("there is no emulator")
        libraries = str(EMULATOR) if gpu else ""
        return subprocess.Popen([sys.executable, "-B", self.pack / "run.py", "--out", self.out, *map(str, arguments)], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, env={**os.environ, "LD_LIBRARY_PATH": libraries, self.mark: "1", **environment})

    def run_parts(self, *arguments, status=0, **options):
        """Runs the runner to its end; returns the rows by name."""
        process = self.start(*arguments, **options)
        self.output, _ = process.communicate(timeout=120)
        self.assertEqual(process.returncode, status, self.output)
        names = {path.name for path in self.out.iterdir()}
        self.assertLessEqual(names, FILES)
        self.assertLess(sum(path.stat().st_size for path in self.out.iterdir()), 1 << 20)
        return self.rows()

    def rows(self):
        return {row["name"]: row for row in json.loads((self.out / "results.json").read_text())["results"]}

    def wait_for(self, condition, what):
        for _ in range(400):
            if condition():
                return
            time.sleep(0.05)
        self.fail(f"{what} did not happen within 20 s")

    def log(self, name):
        return subprocess.run(["tar", "xzOf", self.out / "logs.tgz", f"logs/{name}"], stdout=subprocess.PIPE, check=True).stdout.decode()

    def expect(self, row, outcome, text=""):
        self.assertEqual(row["outcome"], outcome, row)
        self.assertIn(text, row["detail"])

    def test_losses_are_compared(self):
        self.train("good", trains(losses(1.0, 0.5004)))
        self.train("far", trains(losses(1.0, 0.51)))
        self.train("fewer", trains(losses(1.0)))
        self.train("null", trains(losses(1.0, None)))
        self.train("nulls", trains(losses(1.0, None)), expected=(1.0, None))
        self.train("none", "exit 0")
        self.train("dies", "echo 'error: no engine for it'; echo later; exit 3")
        rows = self.run_parts("train.*.plain", status=1)
        self.expect(rows["train.good.1.plain"], "passed", "2 losses")
        self.expect(rows["train.far.1.plain"], "FAILED", "worst at step 2")
        self.expect(rows["train.fewer.1.plain"], "FAILED", "1 losses, not 2")
        self.expect(rows["train.null.1.plain"], "FAILED", "step 2: loss nan")
        self.expect(rows["train.nulls.1.plain"], "FAILED", "step 2: loss nan")
        self.expect(rows["train.none.1.plain"], "FAILED", "it wrote no losses")
        self.expect(rows["train.dies.1.plain"], "FAILED", "status 3: error: no engine for it")
        self.assertIn("later", self.log("train.dies.1.plain.log"))

    def test_parts_that_hang_are_killed_with_all_that_they_started(self):
        self.train("asleep", "trap 'echo error: it was ended; exit 1' TERM; sleep 300 & echo busy; wait", limit=3)
        self.train("deaf", "trap '' TERM; sleep 300 & while true; do sleep 1; done", limit=1)
        self.train("leaves", trains(losses(1.0, 0.5)) + "sleep 300 &")  # ends, its child does not
        self.train("last", trains(losses(1.0, 0.5)))
        rows = self.run_parts("train.*.plain", status=1)
        self.expect(rows["train.asleep.1.plain"], "FAILED", "killed after 3 s: busy")
        self.expect(rows["train.deaf.1.plain"], "FAILED", "killed after 1 s")
        self.expect(rows["train.leaves.1.plain"], "passed")
        self.expect(rows["train.last.1.plain"], "passed")

    def test_probe_with_refusals_passes_and_one_with_wrong_numbers_fails(self):
        self.program("bench_cuda_matmul", '[ "$1" = --probe ] || exit 9; echo "REFUSED f16 NT sums"; echo "refused bf16 TN gelu"; echo "ok f32 NN none"')
        self.program("bench_cuda_conv", 'echo "ok"; echo "error: f32 NHWC: wrong by 0.5"; exit 1')
        rows = self.run_parts("probe.*", status=1)
        self.expect(rows["probe.products"], "passed", "3 lines, 2 refused: REFUSED f16 NT sums")
        self.expect(rows["probe.convolutions"], "FAILED", "status 1: error: f32 NHWC: wrong by 0.5")
        probes = (self.out / "probes.txt").read_text()
        self.assertIn("refused bf16 TN gelu", probes)
        self.assertIn("== bench_cuda_conv --probe", probes)

    def test_program_that_is_missing_is_named(self):
        self.program("bench_cuda_matmul", "exit 0")
        rows = self.run_parts("probe.*")
        self.expect(rows["probe.convolutions"], "not run", "bin/bench_cuda_conv is missing")

    def test_budget_ends_what_runs_and_what_would(self):
        self.program("bench_cuda_matmul", "echo begun; sleep 300")
        self.program("bench_cuda_conv", "exit 0")
        begin = time.monotonic()
        rows = self.run_parts("probe.*", "--budget", 7)
        self.assertLess(time.monotonic() - begin, 7 + 4)  # and what a busy machine takes to start it
        self.expect(rows["probe.products"], "not run", "the budget is spent; begun")
        self.expect(rows["probe.convolutions"], "not run", "the budget of 7 s is spent")

    def test_77_is_a_failure_only_where_there_is_a_gpu(self):
        self.program("ashlar_conformance", "echo 'skipped: no driver'; exit 77")
        if os.path.exists("/dev/nvidia0"):
            self.skipTest("there is a GPU")
        self.expect(self.run_parts("conformance.1")["conformance.1"], "skipped", "no driver")
        self.expect(self.run_parts("conformance.1", gpu=True, status=1)["conformance.1"], "FAILED", "skipped where there is a GPU: skipped: no driver")

    def test_two_ranks_wait_for_the_gate(self):
        show = 'env | grep -E "NCCL|OMPI|PMIX|ASHLAR"; '
        self.program("ashlar_conformance", show + 'echo "error: no network"; exit 1')
        self.train("pair", show + trains(losses(1.0, 0.5)), ranks=2)
        rows = self.run_parts("train.pair.2.plain", status=1)
        self.expect(rows["conformance.2"], "FAILED", "no network")
        self.expect(rows["train.pair.2.plain"], "not run", "NCCL: not run, conformance.2: FAILED")
        self.program("ashlar_conformance", "exit 0")
        rows = self.run_parts("train.pair.2.plain", NCCL_DEBUG="INFO", NCCL_SOCKET_IFNAME="eth0")
        self.expect(rows["train.pair.2.plain"], "passed")
        log = self.log("train.pair.2.plain.log")
        for setting in ("NCCL_SOCKET_IFNAME=lo", "NCCL_NET=Socket", "NCCL_DEBUG=INFO", "ASHLAR_SHARE_DEVICE=1", "ASHLAR_CONNECT_SECONDS=20", "OMPI_COMM_WORLD_RANK=0",
                        "OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=2"):
            self.assertIn(setting, log)

    def test_rank_that_fails_ends_the_other(self):
        self.program("ashlar_conformance", '[ $OMPI_COMM_WORLD_RANK = 0 ] && sleep 300; echo "error: rank 1 fails"; exit 5')
        begin = time.monotonic()
        rows = self.run_parts("conformance.2", status=1)
        self.expect(rows["conformance.2"], "FAILED", "status 5: error: rank 1 fails")
        self.assertLess(time.monotonic() - begin, 30)

    def test_results_are_there_while_it_runs_and_after_a_signal(self):
        self.program("bench_cuda_matmul", "exit 0")
        self.program("bench_cuda_conv", f"trap '' TERM; echo hangs; touch {self.folder}/hangs; sleep 300")
        self.train("later", "exit 0")
        process = self.start("probe.*", "train.later.1.plain", gpu=EMULATOR.exists())
        self.addCleanup(process.kill)
        self.wait_for(lambda: (self.out / "results.json").exists() and "probe.products" in self.rows(), "the first part")
        self.wait_for((self.folder / "hangs").exists, "the second part")
        self.expect(self.rows()["probe.products"], "passed")
        self.assertIn("| probe | probe.products | passed |", (self.out / "table.md").read_text())
        self.assertIn("not reached yet: probe.convolutions", (self.out / "table.md").read_text())
        self.assertTrue((self.out / "logs.tgz").exists())
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM, output)
        rows = self.rows()
        self.expect(rows["probe.products"], "passed")
        self.expect(rows["probe.convolutions"], "not run", "ended by signal 15")
        self.expect(rows["train.later.1.plain"], "not run", "ended by signal 15")
        self.assertEqual({path.name for path in self.out.iterdir()}, FILES)
        self.assertTrue(output.endswith((self.out / "table.md").read_text() + "\n"), output)
        self.assertIn("hangs", self.log("probe.convolutions.log"))

    def test_output_stays_small(self):
        noise = "head -c 30000000 /dev/urandom | base64; echo 'error: " + "x" * 500 + "'; exit 1"
        for number in range(100):
            self.train(f"part{number}", noise if number < 3 else f"echo 'error: {'y' * 500}'; exit 1")
        self.program("bench_cuda_matmul", "echo refused first; head -c 3000000 /dev/urandom | base64")
        self.run_parts("train.*.plain", "probe.products", status=1)  # which looks at the files
        table = self.output[self.output.rindex("\n\nno device"):]
        self.assertLess(len(table), 12000)
        self.assertIn("part99.1.plain", table)
        self.assertIn("refused first", (self.out / "probes.txt").read_text())

    def test_four_at_a_time(self):
        meet = 'touch "$MEET/$$"; for i in $(seq 100); do [ "$(ls "$MEET" | wc -l)" -ge 4 ] && break; sleep 0.1; done; [ $i -lt 100 ] || exit 1\n'
        for name in "abcd":
            self.train(name, meet + trains(losses(1.0, 0.5)))
        (self.folder / "meet").mkdir()
        rows = self.run_parts("train.*.plain", MEET=str(self.folder / "meet"))
        self.assertEqual([row["outcome"] for name, row in rows.items() if name.startswith("train")], ["passed"] * 4)

    def test_holder_runs_while_parts_do(self):
        self.program("bench_cuda_matmul", "for i in $(seq 100); do grep -q 'holds the device' $LOGS/*/logs/holder.log && exit 0; sleep 0.1; done; exit 1")
        rows = self.run_parts("probe.products", gpu=True, TMPDIR=str(self.folder), LOGS=str(self.folder))
        self.expect(rows["probe.products"], "passed")
        self.assertIn("== libraries\nlibcuda.so.1: loads", (self.out / "env.txt").read_text())

    def test_libraries_that_do_not_load_are_named(self):
        self.program("bench_cuda_matmul", "exit 0")
        some = self.folder / "some"
        some.mkdir()
        if EMULATOR.exists():
            for name in ("libcuda.so.1", "libcublasLt.so.13", "libnccl.so.2"):
                (some / name).symlink_to(EMULATOR / name)
        (some / "libcudnn.so.9").write_bytes(b"no library" * 1000)  # before any of the system
        rows = self.run_parts("probe.products", gpu=True, status=1, LD_LIBRARY_PATH=str(some))
        self.expect(rows["libcublasLt.so.13"], "passed", "loads, version")
        self.expect(rows["libcudnn.so.9"], "FAILED", "invalid ELF header")
        self.assertIn("libcudnn.so.9: OSError", (self.out / "env.txt").read_text())

    def test_folders_of_wheels_come_behind_the_image(self):
        self.program("bench_cuda_matmul", 'echo "path $LD_LIBRARY_PATH"')
        for name in ("cu13", "cudnn", "nccl"):
            (self.folder / "site/nvidia" / name / "lib").mkdir(parents=True)
        own = str(self.folder / "own")
        self.run_parts("probe.products", LD_LIBRARY_PATH=own, PYTHONPATH=str(self.folder / "site"))
        path = self.log("probe.products.log").split()[1].split(":")
        self.assertEqual(path[:4], [own] + [str(self.folder / "site/nvidia" / name / "lib") for name in ("cu13", "cudnn", "nccl")])

    def test_figures(self):
        self.program("softmax", 'echo "forward: 10.00 us a run, median of 30; a copy of 1 bytes within the GPU: 200.0 GB/s"')
        self.program("elementwise", "echo nothing")
        self.program("gpt2_bf16", '[ "$ASHLAR_REPEAT_BATCH" = 1 ] || exit 9\n' + trains(losses(3.0, 2.0, 1.0)) +
                     "echo 'trained 3 steps in 1 s (3.0 us a step, 4.5 us of the host)'")
        self.manifest["kernels"] = [{"name": name, "bytes": 1_000_000, "runs": 30} for name in ("softmax", "elementwise")]
        self.manifest["models"]["gpt2_bf16"] = {"program": "gpt2_bf16", "batch": 2, "tokens": 1000, "steps": 3, "every": 1,
                                                "columns": {"tokens": {"type": "<i8", "shape": [2, 3], "below": 7}}, "peer": {"kind": "gpt"}}
        self.manifest["models"]["other"] = {"program": "gpt2_bf16", "batch": 2, "steps": 3, "every": 1, "peer": {"kind": "mlp"}}
        (self.pack / "torch_peers.py").write_text('print(\'{"peer": "gpt2_bf16", "ms": 500, "way": "compiled"}\', flush=True)\nimport time; time.sleep(300)\n')
        self.limit("peers", 8)
        rows = self.run_parts("kernel.*", "gpt2_bf16.step", "peers", status=1)
        self.assertAlmostEqual(rows["kernel.softmax: share of the copy bandwidth"]["value"], 0.5)
        self.expect(rows["kernel.elementwise"], "FAILED", "no number of us a run")
        self.assertAlmostEqual(rows["gpt2_bf16.step: ms"]["value"], 250)
        self.assertAlmostEqual(rows["gpt2_bf16.step: tokens/s"]["value"], 4000)
        self.assertAlmostEqual(rows["gpt2_bf16.step: host time of a step, us"]["value"], 4.5)
        self.assertAlmostEqual(rows["peers: gpt2_bf16, ours over PyTorch's"]["value"], 0.5)
        self.assertAlmostEqual(rows["peers: gpt2_bf16, tokens/s"]["value"], 2000)
        self.expect(rows["peers: other"], "FAILED", "killed after 4 s")

    def test_sanitizers(self):
        (self.pack / "forward/seed_1").mkdir()
        (self.pack / "forward/seed_1/ranks").write_text("1\n")
        rows = self.run_parts("sanitizer.*")
        self.expect(rows["sanitizer.memcheck.forward.seed_1.1"], "not run", "no compute-sanitizer")
        self.program("compute-sanitizer", 'echo "$@"; [ $2 = memcheck ] && exit 0; echo "error: a race"; exit $4')
        rows = self.run_parts("sanitizer.*", status=1, PATH=f"{self.pack / 'bin'}:{os.environ['PATH']}")
        self.expect(rows["sanitizer.memcheck.forward.seed_1.1"], "passed")
        self.expect(rows["sanitizer.racecheck.forward.seed_1.1"], "FAILED", "status 9: error: a race")
        self.assertIn(f"--error-exitcode 9 {self.pack}/forward/seed_1/program", self.log("sanitizer.memcheck.forward.seed_1.1.log"))

    def test_selection(self):
        self.assertIn("this pack has no part nonsense", self.fails("nonsense"))
        self.train("mlp", "exit 0", ranks=2)
        listed = self.fails("--list", status=0)
        self.assertRegex(listed, r"\n +40  A +2  train.mlp.2.graph\n")
        self.assertRegex(listed, r"\n +40  AB +2  conformance.2 ")

    def fails(self, *arguments, status=1):
        process = self.start(*arguments)
        output, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, status, output)
        return output

    def test_archive_has_a_limit(self):
        (self.folder / "noise").mkdir()
        (self.folder / "noise/data").write_bytes(os.urandom(1 << 18))
        path = self.folder / "noise.tar.xz"
        self.assertLess(packer.archive(self.folder / "noise", path, 1, limit=1), 0.3)
        with self.assertRaisesRegex(SystemExit, "more than 0.2"):
            packer.archive(self.folder / "noise", path, 1, limit=0.2)
        self.assertFalse(path.exists())


if __name__ == "__main__":
    done = unittest.TextTestRunner(sys.stdout, verbosity=2).run(unittest.defaultTestLoader.loadTestsFromTestCase(RunnerTest))
    bad = len(done.failures) + len(done.errors)
    print(f"cases: {done.testsRun - bad - len(done.skipped)} passed, {bad} failed, {len(done.skipped)} skipped")
    sys.exit(bad != 0)
