# SPDX-License-Identifier: Apache-2.0
#
# An installation works alone: programs find the runtime beside themselves, without the tree and without a C++ compiler; a plugin is built
# from it; executables are small; the package for Debian names what it needs (docs/howto/install.md).

. "$(dirname "$0")/common.sh"
build=$(cd "$tools/.." && pwd)
source=$(cd "$jobs/../.." && pwd)
prefix=$PWD/prefix
rm -rf prefix plugin package clean optional
cmake --install "$build" --prefix "$prefix" --component main > install.log

# A PATH with a linker, and no compiler.
mkdir clean
ln -s "$(command -v ld.lld-22)" clean/
alone() {
  env -i PATH="$PWD/clean" "$@"
}

alone "$prefix/bin/ashlarc" --version > version.log
grep -Eq '^ashlarc [0-9]+\.[0-9]+\.[0-9]+, commit [0-9a-z]+, LLVM 22\.1\.[0-9]+, targets cpu(, cuda)?$' version.log || fail "$(cat version.log)"
alone "$prefix/bin/ashlarc" --print-paths > paths.log
for name in runtime builtins headers cmake jobs documentation; do
  path=$(sed -n "s/^$name //p" paths.log)
  [ -e "$path" ] && [[ $path = "$prefix"/* ]] || fail "$name is at \"$path\", not below $prefix"
done

# compile NAME BYTES: at most so many bytes besides the weights.
compile() {
  alone "$prefix/bin/ashlar-zoo" "$1" -o "$1.onnx"
  alone "$prefix/bin/ashlarc" "$1.onnx" --job "$prefix/share/ashlar/docs/jobs/$1.txtpb" -o "$1"
  alone "$prefix/bin/ashlarc" "$1.onnx" --job "$prefix/share/ashlar/docs/jobs/$1.txtpb" --debug-info -o "$1.debug"
  local weights size
  weights=$(stat -c %s "$1.onnx") size=$(stat -c %s "$1")
  [ "$((size - weights))" -le "$2" ] || fail "$1 has $((size - weights)) bytes besides its weights, above $2"
  readelf -S "$1.debug" > debug.log
  readelf -S "$1" > sections.log
  grep -q '\.debug_info' debug.log || fail "$1.debug has no debug information"
  ! grep -Eq '\.(debug_info|symtab)' sections.log || fail "$1 has symbols"
  echo "$1: $((size - weights)) bytes besides its weights"
}
compile linear 1500000
compile mlp 1500000
./linear > linear.log
mpirun --quiet -n 4 ./mlp --steps 20 > mlp.log
[ "$(losses mlp.log | tail -1)" = 1.479134 ] || fail "mlp: $(cat mlp.log)"

# Without the runtime, one line.
mv "$prefix/lib/libashlar_rt.a" runtime.a
! alone "$prefix/bin/ashlarc" linear.onnx --batch 1 -o none 2> none.log || fail "compiled without a runtime"
grep -Fxq "error: the runtime is not at $prefix/lib/libashlar_rt.a; install Ashlar again, or build the target ashlar_rt" none.log || fail "$(cat none.log)"
mv runtime.a "$prefix/lib/libashlar_rt.a"

# A plugin from the installed tree: its op trains as it does with Ashlar's own build.
cmake -S "$source/examples/plugin" -B plugin -G Ninja -DCMAKE_C_COMPILER=clang-22 -DCMAKE_CXX_COMPILER=clang++-22 -DCMAKE_PREFIX_PATH="$prefix" > plugin.log
ninja -C plugin >> plugin.log || fail "$(tail -20 plugin.log)"
python3 "$source/test/e2e/plugin_model.py" model plugin.onnx
python3 "$source/test/e2e/plugin_model.py" data data
echo 'global_batch: 16 loss { mean_squared_error { prediction: "output" target: "target" } } optimizer { sgd {} learning_rate: 0.1 }
  dataset { npy {} shuffle: false features { column: "x" tensor: "x" } features { column: "target" tensor: "target" } }' > plugin.txtpb
"$prefix/bin/ashlarc" plugin.onnx --job plugin.txtpb --load-plugin plugin/tanhexp.so -o trained
"$tools/ashlarc" plugin.onnx --job plugin.txtpb --load-plugin "$build/lib/tanhexp.so" -o expected
./trained --data data --log-every 1 > trained.log
./expected --data data --log-every 1 > expected.log
[ "$(losses trained.log)" = "$(losses expected.log)" ] || fail "the plugin of the installation trains to other losses"

# A project that can do without Ashlar is told so: where MLIR is missing, or the version is another one.
mkdir -p optional
cat > optional/CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(optional LANGUAGES NONE)
find_package(Ashlar ${WANTED} QUIET)
message(STATUS "found \"${Ashlar_FOUND}\"; ${Ashlar_CONSIDERED_VERSIONS}; ${Ashlar_NOT_FOUND_MESSAGE}")
CMAKE
cmake -S optional -B optional/mlir -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_DISABLE_FIND_PACKAGE_MLIR=ON -DWANTED=0.1 > optional.log 2>&1 || fail "$(cat optional.log)"
grep -q 'found "0"; 0.1.0; .*MLIR' optional.log || fail "without MLIR: $(cat optional.log)"
cmake -S optional -B optional/version -DCMAKE_PREFIX_PATH="$prefix" -DWANTED=0.2 > optional.log 2>&1 || fail "$(cat optional.log)"
grep -q 'found "0"; 0.1.0;' optional.log || fail "another version: $(cat optional.log)"

# Manual pages and completions have the options of --help.
for option in --job --print-paths --memory; do
  grep -q "^.B \\\\-\\\\-${option#--}" <(sed 's/\\-/-/g; s/^.B --/.B \\-\\-/' "$prefix/share/man/man1/ashlarc.1") || fail "ashlarc.1 lacks $option"
done
complete_word() {
  bash -c 'source "$1"; COMP_WORDS=(ashlarc "${@:2}"); COMP_CWORD=$(($# - 1)); _ashlarc; echo "${COMPREPLY[*]}"' sh "$prefix/share/bash-completion/completions/ashlarc" "$@"
}
[ "$(complete_word --print-pa)" = "--print-paths --print-params" ] || fail "completion: $(complete_word --print-pa)"
[ "$(complete_word --target c)" = "cpu cuda" ] || fail "completion of --target: $(complete_word --target c)"
[ "$(complete_word plan --swe)" = --sweep ] || fail "completion of plan: $(complete_word plan --swe)"

(cd "$build" && cpack -G DEB -D CPACK_DEBIAN_COMPRESSION_TYPE=none -B "$OLDPWD/package") > package.log || fail "$(tail -5 package.log)"
dpkg-deb -f package/ashlar_*_amd64.deb Depends Recommends > needs.log
for package in libmlir-22 libprotobuf libonnx lld-22 openmpi-bin; do
  grep -q "$package" needs.log || fail "the package does not name $package: $(cat needs.log)"
done
dpkg-deb -c package/ashlar_*_amd64.deb > files.log
grep -q ' ./usr/bin/ashlarc$' files.log || fail "the package has no /usr/bin/ashlarc"
