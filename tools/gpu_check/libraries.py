# SPDX-License-Identifier: Apache-2.0
"""Where the driver's and NVIDIA's libraries are on this machine, whether they load, and what else a run depends on: env.txt."""

import concurrent.futures
import importlib.util
import os
import pathlib
import platform
import shutil
import subprocess
import sys

SONAMES = {  # and the function that returns the version
    "libcuda.so.1": "cuDriverGetVersion",
    "libnvidia-ml.so.1": None,
    "libcublasLt.so.13": "cublasLtGetVersion",
    "libcudnn.so.9": "cudnnGetVersion",
    "libnccl.so.2": "ncclGetVersion",
}
# Behind what the image says itself. Not /usr/local/cuda/compat: a driver library that is not the kernel module's.
DRIVER_FOLDERS = ("/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib/x86_64-linux-gnu", "/usr/local/cuda/lib64")
GPU_FIELDS = "name,driver_version,compute_mode,persistence_mode,mig.mode.current,memory.total,memory.used,clocks.sm,clocks.max.sm,power.limit,temperature.gpu"
SECONDS = 10  # for each of the commands; on a fresh machine the libraries come from disk

# Loads a library as our programs do, and prints its path and version. Its own process: what it loads must not help another one to load.
LOAD = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
paths = {line.split()[-1] for line in open("/proc/self/maps") if sys.argv[1].split(".so")[0] in line}
name, version = sys.argv[2], ctypes.c_int(-1)
if name in ("cuDriverGetVersion", "ncclGetVersion"):
    getattr(library, name)(ctypes.byref(version))
    version = version.value
elif name:
    get = getattr(library, name)
    get.restype = ctypes.c_size_t
    version = get()
else:
    version = "unknown"
print("loads, version", version, *sorted(paths))
if sys.argv[1] == "libcuda.so.1":
    count, device, text = ctypes.c_int(0), ctypes.c_int(0), ctypes.create_string_buffer(256)
    print("cuInit", library.cuInit(0), "cuDeviceGetCount", library.cuDeviceGetCount(ctypes.byref(count)), "devices", count.value)
    if count.value and library.cuDeviceGet(ctypes.byref(device), 0) == 0 and library.cuDeviceGetName(text, 256, device) == 0:
        print("device:", text.value.decode())
"""


def wheel_folders():
    """The lib folders of NVIDIA's wheels, among them nvidia/cu13/lib (cuBLAS), nvidia/cudnn/lib, nvidia/nccl/lib."""
    spec = importlib.util.find_spec("nvidia")
    roots = list(spec.submodule_search_locations or []) if spec else []
    return [str(folder) for root in roots for folder in sorted(pathlib.Path(root).glob("*/lib")) if folder.is_dir()]


def library_path():
    """LD_LIBRARY_PATH for all that the runner starts: the image's own, then the wheels' folders, then the driver's."""
    own = [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    return ":".join(dict.fromkeys(own + wheel_folders() + [folder for folder in DRIVER_FOLDERS if os.path.isdir(folder)]))


def output_of(command, environment):
    """Returns (status, what a command prints or why it could not be run)."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environment, timeout=SECONDS,
                              check=False, text=True, errors="replace")
        return done.returncode, done.stdout.strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        return 127, f"not run: {error}"


def load_all(environment):
    """What loading each library says: {soname: (whether it loads, text)}. All are loaded at the same time."""
    def load(soname):
        status, text = output_of([sys.executable, "-c", LOAD, soname, SONAMES[soname] or ""], environment)
        lines = text.splitlines() or [f"status {status}"]
        return status == 0, "; ".join(lines if status == 0 else lines[-1:])

    with concurrent.futures.ThreadPoolExecutor() as pool:
        return dict(zip(SONAMES, pool.map(load, SONAMES)))


def device_of(loaded):
    """The name of the first device, "" without one."""
    return loaded["libcuda.so.1"][1].partition("device: ")[2].split(";")[0].strip()


def has_gpu(loaded):
    """Whether this machine is there to be checked: then a program that says it cannot run ("skipped", 77) has failed."""
    return os.path.exists("/dev/nvidia0") or loaded["libcuda.so.1"][0]


def shared_memory():
    """NCCL refuses to start without /dev/shm."""
    try:
        space = os.statvfs("/dev/shm")
        return f"{space.f_blocks * space.f_frsize >> 20} MiB, {space.f_bavail * space.f_frsize >> 20} MiB free"
    except OSError as error:
        return f"missing: {error}"


def describe(program, environment, loaded):
    """The text of env.txt. `program` is one of the pack's executables, whose own libraries are listed."""
    network = ["ip", "address"] if shutil.which("ip") else ["cat", "/proc/net/dev", "/proc/net/route"]
    listed = {**environment, "LD_TRACE_LOADED_OBJECTS": "1"}  # what ldd does, without a shell
    parts = [
        ("libraries", "\n".join(f"{soname}: {text}" for soname, (_, text) in loaded.items())),
        ("LD_LIBRARY_PATH", environment["LD_LIBRARY_PATH"].replace(":", "\n")),
        ("nvidia-smi", output_of(["nvidia-smi"], environment)[1]),
        ("nvidia-smi --query-gpu", output_of(["nvidia-smi", "--query-gpu=" + GPU_FIELDS, "--format=csv"], environment)[1]),
        ("network", output_of(network, environment)[1]),
        ("/dev/shm", shared_memory()),
        (f"libraries of {pathlib.Path(program).name}", output_of([str(program)], listed)[1]),
        ("system", f"{' '.join(platform.uname())}\n{' '.join(platform.libc_ver())}, python {platform.python_version()}, {os.cpu_count()} CPUs"),
        ("environment", "\n".join(f"{name}={environment[name]}" for name in sorted(environment) if name.startswith(("CUDA", "NCCL", "NVIDIA", "ASHLAR")))),
    ]
    return "\n".join(f"== {title}\n{text}\n" for title, text in parts)
