#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Makes the root folder of a container for one executable: make_root.sh EXECUTABLE ROOT. It holds the executable as /model, the shared
# libraries that it needs, libpmix with its components, which it loads under mpirun and srun, and the files by which names of hosts are looked
# up. No shell, no package. run.Dockerfile calls it.

set -eu
executable=$1
root=$2
mkdir -p "$root/tmp" "$root/etc" "$root/work"
chmod 1777 "$root/tmp"

# Copies files to their places under the root. Links are followed.
place() {
  for file in "$@"; do
    [ -e "$root$file" ] || { mkdir -p "$root$(dirname "$file")" && cp -L "$file" "$root$file"; }
  done
}

# The shared libraries of a file, the loader among them.
libraries_of() {
  ldd "$1" | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p; s/^[[:space:]]*\(\/[^ ]*ld-linux[^ ]*\).*/\1/p'
}

# shellcheck disable=SC2046 # words
place $(libraries_of "$executable")
cp -L "$executable" "$root/model"
chmod 755 "$root/model"
libraries=/usr/lib/$(uname -m)-linux-gnu
for pmix in "/lib/$(uname -m)-linux-gnu/libpmix.so.2" "$libraries/libpmix.so.2"; do
  if [ -e "$pmix" ]; then
    for file in "$pmix" "$libraries"/pmix2/lib/pmix/*.so; do
      # shellcheck disable=SC2046 # words
      place "$file" $(libraries_of "$file")
    done
    [ ! -d /usr/share/pmix ] || { mkdir -p "$root/usr/share" && cp -rL /usr/share/pmix "$root/usr/share/"; }
    break
  fi
done
printf 'hosts: files dns\n' > "$root/etc/nsswitch.conf"
printf 'root:x:0:0:root:/:/model\nnobody:x:65534:65534:nobody:/work:/model\n' > "$root/etc/passwd"
printf 'root:x:0:\nnogroup:x:65534:\n' > "$root/etc/group"
du -sm "$root" | sed 's/^\([0-9]*\).*/\1 MB in the root folder/'
