#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hosts on one machine: network namespaces behind a switch, whose links have a rate, a delay, a loss, and a cable to pull.

    lab.py --ranks 2,2 [--rate 100mbit] [--delay 0.02] [--loss 0.01] -- PROGRAM ARGUMENTS...

starts the program under mpirun, with so many ranks on each host, and ends with its status; with 77 and the reason where the machine allows no
namespaces. Scripts use Lab.

isolate() starts the script again as process 1 of a PID namespace, in a network namespace with the switch, a bridge. Each host is a process there that
holds a network, host name, IPC and /dev/shm of its own. Nothing has a name outside, so two labs cannot collide, and all ends with the script, however
that ends: the kernel kills the processes of a PID namespace whose process 1 is gone.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

SKIPPED = 77
NETWORK = "10.213.77"
STRANGER = 66  # last number of its address
INSIDE = "ASHLAR_LAB"
HOLDERS = "ASHLAR_LAB_HOLDERS"  # ADDRESS=PROCESS of each host, for the agent
MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_MCA_oob_tcp_if_include": f"{NETWORK}.0/24",
    "OMPI_MCA_btl_tcp_if_include": f"{NETWORK}.0/24",
    "OMPI_MCA_btl": "tcp,self",
    "OMPI_MCA_orte_tmpdir_base": "/dev/shm",  # a host's own: process numbers repeat from lab to lab
    "OMPI_MCA_plm_rsh_agent": f"{sys.executable} {pathlib.Path(__file__).resolve()} --enter",
    "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
}


def skip(reason):
    print(f"skipped: {reason}", flush=True)
    sys.exit(SKIPPED)


def run(*command):
    """Runs a command of the system; returns its output."""
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stdout.strip()}")
    return done.stdout


def isolate():
    """Goes on in namespaces of the script's own, or skips the test. To be called first: the script starts again."""
    if os.environ.get(INSIDE) == "1":
        # Process 1 gets only the signals that it handles.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
        run("ip", "link", "set", "lo", "up")
        return
    for tool, package in (("ip", "iproute2"), ("tc", "iproute2"), ("ss", "iproute2"), ("unshare", "util-linux"), ("nsenter", "util-linux"),
                          ("setpriv", "util-linux")):
        if shutil.which(tool) is None:
            skip(f"no {tool} command; install {package}")
    if os.geteuid() != 0:
        skip("network namespaces need root")
    command = ["unshare", "--net", "--uts", "--ipc", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    probe = subprocess.run(command + ["sh", "-c", "ip link set lo up && ip link add probe type bridge && tc qdisc add dev lo root tbf rate 1gbit burst 128kb latency 1ms"],
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if probe.returncode != 0:
        skip(f"no network namespaces with a bridge and rates here: {probe.stdout.strip()}")
    inside = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command, sys.executable, *sys.argv], env={**os.environ, INSIDE: "1"})

    def forward(number, _):  # unshare keeps it to itself
        for process in pathlib.Path(f"/proc/{inside.pid}/task/{inside.pid}/children").read_text().split():
            os.kill(int(process), number)
    signal.signal(signal.SIGTERM, forward)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the script has it, too
    sys.exit(inside.wait())


def enter(holder, command):
    """The command line that runs a command on the host of a process."""
    return ["nsenter", "-t", str(holder), "-n", "-u", "-i", "-m", f"-w{os.getcwd()}", *map(str, command)]


def enter_as_agent(address, *command):
    """What mpirun calls instead of ssh: takes an address and a line for the shell there."""
    holders = dict(pair.split("=") for pair in os.environ[HOLDERS].split())
    os.execvp("nsenter", enter(holders[address], ["sh", "-c", " ".join(command)]))


class Lab:
    """Hosts 0, 1, ... and a stranger, who is on the same switch but no part of the job. The stranger's link has no limits.

    rate: of each link, both ways, as tc takes it. delay: seconds of a frame from one host to another; an answer takes two. loss: share of the frames.
    congestion: the congestion control of the hosts' TCP, one of the kernel's; without it the machine's.
    """

    def __init__(self, hosts, rate=None, delay=0, loss=0, congestion=None):
        self.hosts, self.holders, self.wires = list(range(hosts)), {}, []
        run("ip", "link", "add", "switch", "type", "bridge")
        run("ip", "link", "set", "switch", "up")
        for host in [*self.hosts, "stranger"]:
            self._add_host(host)
            if congestion:
                run(*enter(self.holders[host].pid, ["sh", "-c", f"echo {congestion} > /proc/sys/net/ipv4/tcp_congestion_control"]))
            self._connect(host, *((None, 0, 0) if host == "stranger" else (rate, delay, loss)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for host, holder in self.holders.items():
            self.end(self.processes(host))
            run("ip", "link", "del", self.port(host))
            holder.kill()
            holder.wait()
        for wire, end in self.wires:
            run("ip", "link", "del", end)
            wire.kill()
            wire.wait()
        run("ip", "link", "del", "switch")

    @staticmethod
    def address(host):
        return f"{NETWORK}.{STRANGER if host == 'stranger' else host + 1}"

    @staticmethod
    def port(host):
        """The switch's end of a host's cable."""
        return f"port-{host}"

    def _add_host(self, host):
        name = f"ashlar-{host}"
        setup = f"hostname {name} && mount -t tmpfs tmpfs /dev/shm && ip link set lo up && exec sleep infinity"
        holder = subprocess.Popen(["unshare", "--net", "--uts", "--ipc", "--mount", "sh", "-c", setup], stdin=subprocess.DEVNULL, start_new_session=True)
        self.holders[host] = holder
        command = pathlib.Path(f"/proc/{holder.pid}/comm")
        while command.read_text() != "sleep\n":
            if holder.poll() is not None:
                raise RuntimeError(f"host {host} does not start")
            time.sleep(0.01)
        run("ip", "link", "add", self.port(host), "type", "veth", "peer", "name", "eth0", "netns", holder.pid)
        run(*enter(holder.pid, ["ip", "addr", "add", f"{self.address(host)}/24", "dev", "eth0"]))
        run(*enter(holder.pid, ["ip", "link", "set", "eth0", "up"]))
        run("ip", "link", "set", self.port(host), "up")

    def _connect(self, host, rate, delay, loss):
        """Leads the host's cable to the switch. Both ends of it are bounded by the rate; a wire delays and drops what the host gets."""
        bound = ["root", "tbf", "rate", rate, "burst", "128kb", "latency", "50ms"]
        if rate:
            run(*enter(self.holders[host].pid, ["tc", "qdisc", "add", "dev", "eth0", *bound]))
            run("tc", "qdisc", "add", "dev", self.port(host), *bound)
        end = self.port(host)
        if delay or loss:
            end, inner = f"far-{host}", f"near-{host}"
            run("ip", "link", "add", end, "type", "veth", "peer", "name", inner)
            run("ip", "link", "set", inner, "up")
            wire = subprocess.Popen([sys.executable, str(pathlib.Path(__file__).with_name("wire.py")), inner, self.port(host), str(delay), str(loss)],
                                    stdout=subprocess.PIPE, text=True, start_new_session=True)
            self.wires.append((wire, end))
            if wire.stdout.readline() != "ready\n":
                raise RuntimeError(f"the wire of host {host} does not start")
        run("ip", "link", "set", end, "master", "switch", "up")

    def start(self, host, command, **settings):
        """Starts a command on a host, as a Popen."""
        environment = {**os.environ, **MPI, HOLDERS: " ".join(f"{self.address(each)}={self.holders[each].pid}" for each in self.hosts)}
        environment.update(settings.pop("env", {}))
        return subprocess.Popen(enter(self.holders[host].pid, command), env=environment, stdin=subprocess.DEVNULL, **settings)

    def mpirun(self, ranks, *options):
        """The command line of mpirun on host 0 for so many ranks on each host; options of mpirun, a program and its arguments follow."""
        places = ",".join(f"{self.address(host)}:{count}" for host, count in enumerate(ranks) if count != 0)
        return ["mpirun", "--quiet", "--host", places, "-n", sum(ranks), *options]

    def unplug(self, host):
        """Pulls the cable of a host."""
        run("ip", "link", "set", self.port(host), "down")

    def plug(self, host):
        run("ip", "link", "set", self.port(host), "up")

    def sent(self, host):
        """Bytes that a host has sent so far, as the switch counts them."""
        (found,) = json.loads(run("ip", "-s", "-j", "link", "show", "dev", self.port(host)))
        return found["stats64"]["rx"]["bytes"]

    def listeners(self):
        """The (address, port, program) on which a process of a host can be reached from the network."""
        found = set()
        for host in self.hosts:
            for line in run(*enter(self.holders[host].pid, ["ss", "-Hltnp4"])).splitlines():
                address, port = line.split()[3].rsplit(":", 1)
                if not address.startswith("127."):
                    found.add((self.address(host), int(port), re.search(r'users:\(\("([^"]*)"', line).group(1)))
        return sorted(found)

    def processes(self, host, name=None):
        """The processes on a host, all or those of a program, without its holder, zombies, and commands of the system that ended meanwhile."""
        found, holder = [], self.holders[host].pid
        place = os.readlink(f"/proc/{holder}/ns/net")
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                state = (folder / "stat").read_text().rsplit(")", 1)[1].split()[0]
                if state != "Z" and int(folder.name) != holder and os.readlink(folder / "ns/net") == place and name in (None, (folder / "comm").read_text().strip()):
                    found.append(int(folder.name))
            except OSError:
                continue
        return found

    @staticmethod
    def end(processes):
        for process in processes:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue


def main():
    if sys.argv[1:2] == ["--enter"]:
        enter_as_agent(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", required=True, help="of each host, as 2,2")
    parser.add_argument("--rate", help="of each link, as tc takes it; default: none")
    parser.add_argument("--delay", type=float, default=0, help="seconds between two hosts, one way")
    parser.add_argument("--loss", type=float, default=0, help="share of the frames that is lost")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    ranks = [int(count) for count in options.ranks.split(",")]
    isolate()
    with Lab(len(ranks), options.rate, options.delay, options.loss) as lab:
        sys.exit(lab.start(0, lab.mpirun(ranks, *options.command)).wait())


if __name__ == "__main__":
    main()
