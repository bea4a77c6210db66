// SPDX-License-Identifier: Apache-2.0
//
// The program calls ashlar_rt_main() and refers to components of the runtime, which are defined here; so the test program exports its
// symbols.

#include "test/unit/plan/loaded_image.h"

#include "runtime/abi/components.h"

#include "llvm/Support/Program.h"

#include <catch2/catch.hpp>
#include <dlfcn.h>

static const ashlar_rt_image *received = nullptr;

extern "C" int ashlar_rt_main(const ashlar_rt_image *image, int argc, char **) {
  received = image;
  return argc;
}

extern "C" {
#define ASHLAR_DEFINE_COMPONENT(name) char ASHLAR_RT_COMPONENT(name);
ASHLAR_RT_COMPONENTS(ASHLAR_DEFINE_COMPONENT)
#undef ASHLAR_DEFINE_COMPONENT
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
