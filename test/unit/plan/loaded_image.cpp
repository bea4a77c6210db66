// SPDX-License-Identifier: Apache-2.0
//
// The program calls ashlar_rt_main(), which is defined here; so the test program exports its symbols.

#include "test/unit/plan/loaded_image.h"

#include "llvm/Support/Program.h"

#include <catch2/catch.hpp>
#include <dlfcn.h>

static const ashlar_rt_image *received = nullptr;

extern "C" int ashlar_rt_main(const ashlar_rt_image *image, int argc, char **) {
  received = image;
  return argc;
}

namespace ashlar::test {

const ashlar_rt_image *loadImage(const std::string &object) {
  std::string linker = *llvm::sys::findProgramByName("ld.lld"), library = object + ".so";
  REQUIRE(llvm::sys::ExecuteAndWait(linker, {linker, "-shared", object, "-o", library}) == 0);
  void *handle = dlopen(library.c_str(), RTLD_NOW);
  REQUIRE(handle);
  auto entry = reinterpret_cast<int (*)(int, char **)>(dlsym(handle, "main"));
  REQUIRE(entry);
  REQUIRE(entry(7, nullptr) == 7); // main() passes its arguments on and returns what the runtime returns
  return received;
}

} // namespace ashlar::test
