# SPDX-License-Identifier: Apache-2.0
#
# How the end-to-end scripts run programs of the cuda target: on test/emulator. Source it behind common.sh.

emulator=${ASHLAR_EMULATOR_FOLDER:-$tools/../emulator}
[ -e "$emulator/libcuda.so.1" ] || { echo "skipped: there is no emulator, the cuda target was left out"; exit 77; }

# ./on_emulator DEVICES COMMAND...: runs a command on the emulator with a number of devices. A file, so that timeout can run it.
cat > on_emulator << SCRIPT
#!/bin/bash
devices=\$1
shift
LD_LIBRARY_PATH=$emulator ASHLAR_EMULATOR_VERBOSE=1 ASHLAR_EMULATOR_DEVICES=\$devices exec "\$@"
SCRIPT
chmod +x on_emulator
