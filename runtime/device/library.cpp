// SPDX-License-Identifier: Apache-2.0
//
// dlopen and dlsym, with errors that tell what to do.

#include "runtime/device/library.h"

#include <dlfcn.h>

namespace ashlar::rt {

Status Library::open(const std::string &soname, const std::string &purpose, const std::string &remedy, Library &library) {
  library.soname = soname;
  library.remedy = remedy;
  library.handle = dlopen(soname.c_str(), RTLD_NOW | RTLD_LOCAL);
  return library.handle != nullptr ? Status() : unavailable("{} but {} cannot be loaded ({}); {}", purpose, soname, dlerror(), remedy);
}

void *Library::find(const char *name) {
  void *address = dlsym(handle, name);
  if (address == nullptr && missing.empty()) {
    missing = name;
  }
  return address;
}

Status Library::check() const {
  return missing.empty() ? Status() : unavailable("{} has no {}: it is too old; {}", soname, missing, remedy);
}

} // namespace ashlar::rt
