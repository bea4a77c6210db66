# SPDX-License-Identifier: Apache-2.0
"""What runs beside the parts: an idle context, so that the driver stays initialised between them, and readers of files that they will load."""

import pathlib
import sys

# Without a process that holds it, a device without persistence mode is initialised anew by each process, which takes seconds.
HOLD = """
import ctypes, os, time
runner = os.getppid()
cuda, device, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_void_p()
mode = ctypes.c_int()
for name, arguments in (("cuInit", (0,)), ("cuDeviceGet", (ctypes.byref(device), 0)), ("cuDeviceGetAttribute", (ctypes.byref(mode), 20, 0))):
    if status := getattr(cuda, name)(*arguments):
        raise SystemExit(f"{name}: {status}")
if mode.value != 0:
    raise SystemExit(f"compute mode {mode.value}: the device takes no second process")
if status := cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device):
    raise SystemExit(f"cuDevicePrimaryCtxRetain: {status}")
print("holds the device", flush=True)
while os.getppid() == runner:
    time.sleep(1)
"""

# Reads files and drops what it read: they are in the page cache then.
READ = """
import sys
for path in sys.argv[1:]:
    with open(path, "rb", buffering=0) as stream:
        while stream.read(1 << 22):
            pass
"""


def library_files(library_path):
    """The files of the libraries that programs load, the first of each name."""
    files = {}
    for folder in library_path.split(":"):
        for pattern in ("libcublasLt.so.13", "libcudnn*.so.9", "libnccl.so.2"):
            for path in sorted(pathlib.Path(folder).glob(pattern)):
                files.setdefault(path.name, path)
    return list(files.values())


def start(context, peers):
    """Starts them; Processes.stop() ends them."""
    processes, logs = context.processes, context.results.logs
    processes.start_background([sys.executable, "-c", HOLD], logs / "holder.log")
    processes.start_background([sys.executable, "-c", READ, *library_files(processes.environment["LD_LIBRARY_PATH"])], logs / "read_libraries.log")
    if peers:
        processes.start_background([sys.executable, "-c", "import torch"], logs / "import_torch.log")
