#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Jobs on several hosts (lab.py): right numbers, strangers, lost hosts, absent ranks, bad links.

    hosts.py BIN [--long] [--only NAME,...]

BIN has the tools. Prints a line for each case, and ends with 1 when one fails; with 77 and the reason where the machine allows no namespaces. --long has
more of each: every level of ZeRO, four hosts, slow links. Each case has a lab of its own; those that wait most of the time run several at once, each in a
process.
"""

import argparse
import concurrent.futures
import math
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
import traceback

sys.dont_write_bytecode = True  # the source tree stays as it is
from lab import SKIPPED, Lab, isolate
from programs import Programs, Run, data_parallel, expect_close, losses, pipeline, step_milliseconds, tensor_parallel

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOLERANCE = 1e-4  # sums over the batch in another order, grown by the steps
PATIENCE = 3  # ASHLAR_PATIENCE of faults, seconds
AT_ONCE = 3  # cases that wait
CASES, LONG, WAITING = {}, set(), set()


def case(long=False, waits=False):
    """waits: it waits most of the time, so that others may run beside it."""
    def register(function):
        CASES[function.__name__] = function
        if long:
            LONG.add(function.__name__)
        if waits:
            WAITING.add(function.__name__)
        return function
    return register


class Bench:
    """What the cases share: a folder that all hosts see, compiled programs, and the losses of one rank."""

    def __init__(self, tools, folder):
        self.folder, self.programs, self.one = folder, Programs(tools, folder, "--width", 256), {}

    def reference(self, lab, steps):
        """The losses of one rank."""
        if steps not in self.one:
            run = Run(lab, 0, [self.programs.compile("one", data_parallel(1)), "--steps", steps, "--threads", 1], self.folder / "one.log")
            expect(run.finish(60) == 0, run.log())
            self.one[steps] = losses(run.log())
        return self.one[steps]

    def start(self, lab, ranks, command, log="run.log", **environment):
        """Starts a job with so many ranks on each host."""
        return Run(lab, 0, lab.mpirun(ranks, *command), self.folder / log, **environment)


def expect(holds, text):
    if not holds:
        raise AssertionError(text)


def expect_one_error(run, pattern):
    """Fails unless the log has one line of an error, whichever ranks see the fault, and that one matches."""
    errors = run.lines("^error: ")
    expect(len(errors) == 1 and re.search(pattern, errors[0]), f"not one error like \"{pattern}\":\n{run.log()[-3000:]}")
    expect(len(run.lines("^waiting for ")) <= 1, f"it is said more than once:\n{run.log()[-3000:]}")


def train(bench, lab, name, job, ranks, steps, seconds=60):
    """Trains a job, and compares its losses with one rank's. Prints the bytes that a host sends, the start included."""
    program = bench.programs.compile(name, job)
    expected, before = bench.reference(lab, steps), [lab.sent(host) for host in lab.hosts]
    run = bench.start(lab, ranks, [program, "--steps", steps, "--threads", 1], f"{name}.log")
    expect(run.finish(seconds) == 0, f"{name}:\n{run.log()[-3000:]}")
    expect_close(expected, losses(run.log()), TOLERANCE)
    sent = [(lab.sent(host) - first) / steps / 1e6 for host, first in zip(lab.hosts, before)]
    print(f"  {name} on {ranks} ranks: a host sends {', '.join(f'{each:.2f}' for each in sent)} MB a step", flush=True)


@case()
def right_numbers(bench):
    with Lab(2) as lab:
        train(bench, lab, "replicas", data_parallel(4), [2, 2], 10)
        train(bench, lab, "unequal", data_parallel(4), [1, 3], 10)
        train(bench, lab, "zero3", data_parallel(4, level=3), [2, 2], 10)
        train(bench, lab, "stages", pipeline(2, 2), [2, 2], 10)
        train(bench, lab, "parts", tensor_parallel(2, 2), [2, 2], 10)


@case(long=True)
def more_right_numbers(bench):
    with Lab(4, rate="1gbit") as lab:
        for level in (1, 2, 3):
            train(bench, lab, f"zero{level}_on_8", data_parallel(8, level), [2, 2, 2, 2], 20, seconds=180)
        train(bench, lab, "zero3_unequal", data_parallel(8, 3), [1, 3, 0, 4], 20, seconds=180)
        train(bench, lab, "stages_on_4", pipeline(4, 2), [2, 2, 2, 2], 20, seconds=180)
        train(bench, lab, "parts_over_hosts", tensor_parallel(2, 4), [2, 2, 2, 2], 20, seconds=180)


@case()
def bad_link(bench):
    with Lab(2, delay=0.02, loss=0.01) as lab:
        train(bench, lab, "replicas", data_parallel(4), [2, 2], 3)


@case(long=True)
def bad_links(bench):
    for limits in ({"rate": "10mbit"}, {"rate": "100mbit", "delay": 0.1}, {"delay": 0.001, "loss": 0.05}):
        with Lab(2, **limits) as lab:
            print(f"  {limits}", flush=True)
            train(bench, lab, "replicas", data_parallel(4), [2, 2], 5, seconds=180)
            train(bench, lab, "stages", pipeline(2, 2), [2, 2], 5, seconds=180)


def start_by_variables(bench, lab, ranks, command, **environment):
    """Starts a job with so many ranks on each host, as PyTorch's launchers do: by variables of each rank. Returns the run of each rank."""
    places = [(host, local) for host, count in enumerate(ranks) for local in range(count)]
    key = bench.folder / "key"
    key.write_bytes(b"k" * 32)
    key.chmod(0o600)
    shared = {"WORLD_SIZE": str(len(places)), "MASTER_ADDR": lab.address(0), "MASTER_PORT": "29500", "ASHLAR_KEY_FILE": str(key), **environment}
    return [Run(lab, host, command, bench.folder / f"rank{rank}.log", RANK=str(rank), LOCAL_RANK=str(local), LOCAL_WORLD_SIZE=str(ranks[host]), **shared)
            for rank, (host, local) in enumerate(places)]


@case()
def without_mpirun(bench):
    # torchrun's variables on two hosts, rank 0 on the first; then a rank of the second host with another secret.
    command = [bench.programs.compile("replicas", data_parallel(4)), "--steps", 10, "--threads", 1]
    with Lab(2) as lab:
        runs = start_by_variables(bench, lab, [2, 2], command)
        for run in runs:
            expect(run.finish(60) == 0, run.log())
        expect_close(bench.reference(lab, 10), losses(runs[0].log()), TOLERANCE)
        (bench.folder / "other").write_bytes(b"o" * 32)
        (bench.folder / "other").chmod(0o600)
        shell = ["sh", "-c", f'[ $RANK != 3 ] || ASHLAR_KEY_FILE={bench.folder / "other"}; exec "$@"', "sh"]
        runs = start_by_variables(bench, lab, [2, 2], shell + command, ASHLAR_PATIENCE=str(PATIENCE))
        for run in runs:
            expect(run.finish(60) == 1, run.log())
        expect(runs[0].lines(f"^error: rank 3 did not connect to rank 0 within {PATIENCE} s"), runs[0].log())
        expect(runs[3].lines("^error: rank 3 could not reach rank 0 at "), runs[3].log())


@case()
def hostfile(bench):
    with Lab(2) as lab:
        (bench.folder / "hosts").write_text("".join(f"{lab.address(host)} slots=2\n" for host in lab.hosts))
        run = Run(lab, 0, ["mpirun", "--quiet", "--hostfile", bench.folder / "hosts", "-n", 4, "-x", f"ASHLAR_NETWORK={lab.address(0)[:-1]}0/24",
                           bench.programs.compile("replicas", data_parallel(4)), "--steps", 10, "--threads", 1], bench.folder / "hostfile.log")
        expect(run.finish(60) == 0, run.log())
        expect_close(bench.reference(lab, 10), losses(run.log()), TOLERANCE)


# The link, not the machine's load, is to bound a step.
STRANGERS_RATE, STRANGERS_STEPS, CONNECTIONS = "100mbit", 16, 144
# Part of a header of its own keeps mpirun 4.1 from all else: a byte, drops, and a request that begins like one (docs/security.md).
BORNE_BY_MPIRUN = "0,2,4,5,6"


def attack(bench, at_ranks, allowed):
    """Step times before and while a stranger connects to the ports of the ranks, or to those of mpirun and its daemons; `allowed`: their ratio."""
    with Lab(2, rate=STRANGERS_RATE) as lab:
        metrics = bench.folder / "strangers.jsonl"
        program = bench.programs.compile("replicas", data_parallel(4))
        run = bench.start(lab, [2, 2], [program, "--steps", 2 * STRANGERS_STEPS, "--threads", 1, "--metrics", metrics], "strangers.log",
                          ASHLAR_PATIENCE=str(PATIENCE))
        run.wait_for("loss is", 60, STRANGERS_STEPS)
        ports = [f"{address}:{port}" for address, port, owner in lab.listeners() if (owner == program.name) == at_ranks]
        if not ports:
            print("  nobody listens there", flush=True)
        kinds = "all" if at_ranks else BORNE_BY_MPIRUN
        stranger = Run(lab, "stranger", [sys.executable, ROOT / "test/hosts/stranger.py", CONNECTIONS if ports else 0, kinds, *ports], bench.folder / "stranger.log")
        stranger.wait_for("connections to", 30)
        begun = len(run.lines("loss is"))
        try:
            status = run.finish(45)
        finally:
            stranger.process.kill()
            times = step_milliseconds(metrics)
            alone, attacked = statistics.median(times[:STRANGERS_STEPS - 1]), statistics.median(times[begun:] or [math.inf])
            print(f"  {stranger.log().strip()}; a step takes {alone:.1f} ms alone, {attacked:.1f} ms with them", flush=True)
        expect(status == 0, f"ends with {status}:\n{run.log()[-3000:]}")
        expect_close(bench.reference(lab, 2 * STRANGERS_STEPS), losses(run.log()), TOLERANCE)
        expect(attacked <= allowed * alone, f"a step takes {attacked:.1f} ms instead of {alone:.1f} ms")


@case()
def strangers_at_ranks(bench):
    attack(bench, at_ranks=True, allowed=1.3)


@case()
def strangers_at_mpirun(bench):
    attack(bench, at_ranks=False, allowed=1.3)


@case(long=True)
def strangers_on_a_quiet_machine(bench):
    for at_ranks in (True, False):
        attack(bench, at_ranks, allowed=1.05)


EIGHT = [2, 2, 2, 2]
KEEPALIVE = ["--mca", "oob_tcp_keepalive_time", 5, "--mca", "oob_tcp_keepalive_intvl", 2, "--mca", "oob_tcp_keepalive_probes", 3]  # of README.md


def start_eight(bench, lab, patience, *options, line="exec"):
    """A job on all four hosts that trains until it is ended. `options` of mpirun; `line` of a shell of each rank, which ends in how the program starts."""
    program = bench.programs.compile("eight", data_parallel(8))
    command = ["bash", "-c", f"{line} {program} --steps 1000000 --threads 1"]
    return bench.start(lab, EIGHT, [*options, *command], "eight.log", ASHLAR_PATIENCE=str(patience))


def expect_end(lab, run, seconds):
    """Fails unless the job ends by itself, with a failure, and leaves no rank on any host."""
    begin = time.monotonic()
    expect(run.finish(seconds) != 0, f"ends with 0:\n{run.log()[-3000:]}")
    left = [host for host in lab.hosts if lab.processes(host, "eight")]
    while left and time.monotonic() - begin < seconds:
        time.sleep(0.1)
        left = [host for host in lab.hosts if lab.processes(host, "eight")]
    expect(not left, f"ranks still run on the hosts {left} after {seconds} s")
    print(f"  all end after {time.monotonic() - begin:.1f} s: {' '.join(run.lines('^error: '))}", flush=True)


@case()
def killed_rank(bench):
    with Lab(4) as lab:
        run = start_eight(bench, lab, PATIENCE)
        run.wait_for("loss is", 60, 2)
        Lab.end(lab.processes(2, "eight")[-1:])
        expect_end(lab, run, 10)
        expect_one_error(run, r"^error: rank [45] terminated without reporting an error$")


@case(waits=True)
def pulled_cable(bench):
    with Lab(4) as lab:
        run = start_eight(bench, lab, PATIENCE, *KEEPALIVE)
        run.wait_for("loss is", 60, 2)
        lab.unplug(3)
        expect_end(lab, run, 5 * PATIENCE + 15)
        told = run.lines("^error: |^waiting for ")  # mpirun may end the ranks before their patience does
        expect(told and all(re.match(r"(error: (the host of )?|waiting for )rank [67] ", line) for line in told), f"the lost ranks are not named:\n{run.log()[-3000:]}")
        expect(len(run.lines("^error: ")) <= 1 and len(run.lines("^waiting for ")) <= 1, f"it is said more than once:\n{run.log()[-3000:]}")


@case()
def refused(bench):
    """All ranks see the fault, and one says it, however long mpirun takes to end the others."""
    with Lab(4) as lab:
        for options, pattern in ((["--init-from", "nothing"], 'cannot open "nothing"'), (["--bogus"], "--bogus")):
            run = bench.start(lab, EIGHT, [bench.programs.compile("eight", data_parallel(8)), *options], "refused.log")
            expect_end(lab, run, 10)
            expect_one_error(run, f"^error: .*{pattern}")


@case(waits=True)
def absent_rank(bench):
    with Lab(4) as lab:
        run = start_eight(bench, lab, PATIENCE, line="[ $OMPI_COMM_WORLD_RANK != 5 ] || exec sleep 300; exec")
        expect_end(lab, run, 5 * PATIENCE + 15)
        expect_one_error(run, r"^error: rank 5 ")


@case(waits=True)
def early_end(bench):
    """A rank ends before it joined, with a status that mpirun takes for success."""
    with Lab(4) as lab:
        run = start_eight(bench, lab, PATIENCE, line="[ $OMPI_COMM_WORLD_RANK != 5 ] || exit 0; exec")
        expect_end(lab, run, 5 * PATIENCE + 15)
        expect_one_error(run, r"^error: rank 5 ")


@case()
def own_folders(bench):
    """Each host has a disk of its own at the path of the checkpoints; replicas then go on, on both hosts and on one."""
    with Lab(2) as lab:
        saved = bench.folder / "own"
        saved.mkdir()
        for host in lab.hosts:
            expect(lab.start(host, ["mount", "-t", "tmpfs", "tmpfs", saved]).wait() == 0, f"no disk on host {host}")
        four, two = (bench.programs.compile(name, data_parallel(ranks)) for name, ranks in (("replicas", 4), ("pair", 2)))
        options = ["--threads", 1, "--checkpoint-dir", saved]
        run = bench.start(lab, [2, 2], [four, "--steps", 6, *options])
        expect(run.finish(30) != 0, run.log())
        expect_one_error(run, f"^error: rank 2: the folder of checkpoints {saved} on ashlar-1 is not the one of rank 0; ")
        expect(not run.lines("loss is"), f"it trains all the same:\n{run.log()}")
        run = bench.start(lab, [2, 2], [four, "--steps", 6, *options, "--checkpoint-local"])
        expect(run.finish(30) == 0, run.log())
        before = losses(run.log())
        run = bench.start(lab, [2, 2], [four, "--steps", 8, *options, "--checkpoint-local", "--resume", "latest"])
        expect(run.finish(30) == 0 and run.lines("^resumed from .* 6 steps done"), run.log())
        both = losses(run.log())
        run = Run(lab, 1, ["mpirun", "-n", 2, two, "--steps", 10, *options, "--resume", "latest"], bench.folder / "alone.log")
        expect(run.finish(30) == 0 and run.lines("^resumed from .* 8 steps done"), run.log())
        expect_close(bench.reference(lab, 10), before + both + losses(run.log()), TOLERANCE)


def supervise(bench, **environment):
    """The supervisor goes on without the lost host, by its fallback."""
    with Lab(2) as lab:
        four, two = (bench.programs.compile(name, data_parallel(ranks)) for name, ranks in (("replicas", 4), ("pair", 2)))
        saved = tempfile.mkdtemp(dir=bench.folder)
        options = f"--steps 1000000 --threads 1 --checkpoint-dir {saved} --save-every 5"
        command = [ROOT / "tools/supervise.sh", "--fallback", f"mpirun -n 2 {two} {options}", "--", *lab.mpirun([2, 2], four, *options.split())]
        run = Run(lab, 0, command, bench.folder / "supervised.log", **environment)
        run.wait_for("^saved ", 60, 2)
        begin = time.monotonic()
        lab.unplug(1)
        run.wait_for("^resumed from ", 60)
        run.wait_for("^saved ", 20, len(run.lines("^saved ")) + 1)
        seconds = time.monotonic() - begin
        run.process.terminate()
        run.finish(20)
        print(f"  trains on {seconds:.1f} s after the cable was pulled", flush=True)
        expect(seconds <= 30, f"trains on only {seconds:.1f} s after the cable was pulled")


@case(waits=True)
def supervised(bench):
    supervise(bench)  # mpirun misses the host before the ranks do


@case(waits=True)
def supervised_impatient(bench):
    supervise(bench, ASHLAR_PATIENCE="1")  # the ranks end first, and mpirun waits for the lost host


def run_here(tools, names):
    """Runs cases one after the other; returns the names of those that failed."""
    failed = []
    with tempfile.TemporaryDirectory(dir=".") as folder:
        bench = Bench(tools, pathlib.Path(folder).resolve())
        for name in names:
            begin = time.monotonic()
            try:
                CASES[name](bench)
            except Exception:  # whatever it is, the other cases are to run
                failed.append(name)
                traceback.print_exc(file=sys.stdout)
            print(f"{'FAILED' if name in failed else 'passed'}: {name}, {time.monotonic() - begin:.1f} s", flush=True)
    return failed


def run_apart(tools, name):
    """Runs a case in a process, which ends with this one; returns its status and what it prints."""
    done = subprocess.run(["setpriv", "--pdeathsig", "TERM", sys.executable, __file__, tools, "--only", name],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    print(done.stdout, end="", flush=True)
    return done.returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tools", metavar="BIN")
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--only", default="", help="names of cases, to run one after the other")
    options = parser.parse_args()
    if options.only:
        isolate()
        sys.exit(1 if run_here(options.tools, options.only.split(",")) else 0)
    chosen = [name for name in CASES if options.long or name not in LONG]
    statuses = {name: run_apart(options.tools, name) for name in chosen if name not in WAITING}
    if SKIPPED in statuses.values():
        sys.exit(SKIPPED)
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        waiting = [name for name in chosen if name in WAITING]
        statuses.update(zip(waiting, pool.map(lambda name: run_apart(options.tools, name), waiting)))
    failed = [name for name, status in statuses.items() if status != 0]
    print(f"{len(chosen) - len(failed)} of {len(chosen)} cases passed" + (f"; failed: {', '.join(failed)}" if failed else ""))
    sys.exit(1 if failed else 0)


main()
