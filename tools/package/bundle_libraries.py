#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Makes an installation self-contained: copies the shared libraries that PREFIX/bin/* need to PREFIX/lib/ashlar, and the linker of ashlarc.
# The C and C++ libraries stay the machine's.
#   bundle_libraries.py PREFIX
# LLVM's library needs arc4random of glibc 2.36. PREFIX/lib/ashlar/libashlar_compat.so (compat.c) has it, so the need is lowered to 2.34:
# the programs start where glibc is older.
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

SYSTEM = re.compile(r"(ld-linux.*|lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s))\.so\.\d+")
REPLACED = {"arc4random"}  # symbols of newer versions that libashlar_compat.so has
OLD = b"GLIBC_2.34"


def libraries_of(program):
    """Returns {name: path} of all shared libraries of a program."""
    text = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    missing = re.findall(r"(\S+) => not found", text)
    if missing:
        sys.exit(f"error: {program} needs {', '.join(missing)}, and they are not there")
    return dict(re.findall(r"(\S+) => (/\S+)", text))


def elf_version(name):
    """Returns the hash of a version's name (System V ABI)."""
    value = 0
    for byte in name:
        value = (value << 4) + byte
        value = (value ^ (value >> 24 & 0xF0)) & 0x0FFFFFFF
    return value


def lower_version(path):
    """Takes the symbols of GLIBC_2.36 from libashlar_compat.so."""
    needs = subprocess.run(["readelf", "-W", "--dyn-syms", path], check=True, capture_output=True, text=True).stdout
    newer = set(re.findall(r"UND (\S+)@GLIBC_2\.36\b", needs))
    if not newer or not newer <= REPLACED:
        return
    subprocess.run(["patchelf", "--add-needed", "libashlar_compat.so", path], check=True)
    data = bytearray(path.read_bytes())
    section = struct.Struct("<IIQQQQIIQQ")
    table, = struct.unpack_from("<Q", data, 40)
    count, = struct.unpack_from("<H", data, 60)
    headers = [section.unpack_from(data, table + i * section.size) for i in range(count)]
    for _, kind, _, _, offset, _, link, *_ in headers:
        if kind != 0x6FFFFFFE:  # SHT_GNU_verneed
            continue
        strings = headers[link][4]
        old = data.index(OLD + b"\0", strings) - strings
        need = offset
        while True:
            _, entries, _, auxiliary, following = struct.unpack_from("<HHIII", data, need)
            entry = need + auxiliary
            for _ in range(entries):
                name, step = struct.unpack_from("<II", data, entry + 8)
                if data[strings + name:].split(b"\0", 1)[0] == b"GLIBC_2.36":
                    struct.pack_into("<I", data, entry, elf_version(OLD))
                    struct.pack_into("<I", data, entry + 8, old)
                entry += step
            if not following:
                break
            need += following
    path.write_bytes(data)


def check_versions(files):
    """Refuses files that need a newer C or C++ library than the oldest system that docs/howto/install.md names has."""
    for path in files:
        text = subprocess.run(["readelf", "-W", "-V", path], check=True, capture_output=True, text=True).stdout
        for name, most in (("GLIBC_2", 35), ("GLIBCXX_3.4", 30)):
            newest = max((int(n) for n in re.findall(rf"\b{re.escape(name)}\.(\d+)", text)), default=0)
            if newest > most:
                sys.exit(f"error: {path} needs {name}.{newest}, and Ubuntu 22.04 has {name}.{most}")


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: bundle_libraries.py PREFIX")
    prefix = Path(sys.argv[1])
    folder = prefix / "lib" / "ashlar"
    folder.mkdir(parents=True, exist_ok=True)
    linker = shutil.which("ld.lld-22") or sys.exit("error: ld.lld-22 is not on the PATH; install lld-22")
    shutil.copy2(linker, folder / "ld.lld")
    programs = [*(prefix / "bin").iterdir(), folder / "ld.lld"]
    found = {}
    for program in programs:
        found.update(libraries_of(program))
    for name, path in found.items():
        if SYSTEM.fullmatch(name) or Path(path).parent == folder:
            continue
        copy = folder / name
        shutil.copyfile(path, copy)
        copy.chmod(0o755)
        subprocess.run(["patchelf", "--set-rpath", "$ORIGIN", copy], check=True)
        subprocess.run(["llvm-objcopy-22", "--strip-unneeded", copy], check=True)
        lower_version(copy)
    subprocess.run(["patchelf", "--set-rpath", "$ORIGIN", folder / "ld.lld"], check=True)
    check_versions([*programs, *folder.glob("*.so*")])


main()
