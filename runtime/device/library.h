// SPDX-License-Identifier: Apache-2.0
//
// A shared library that is loaded when an executable starts: the executable also starts where it is absent, and reports it.

#ifndef ASHLAR_RUNTIME_DEVICE_LIBRARY_H
#define ASHLAR_RUNTIME_DEVICE_LIBRARY_H

#include "runtime/base/status.h"

#include <string>

namespace ashlar::rt {

// Looks up symbols and remembers the first that is missing. The library stays loaded until the process ends.
class Library {
public:
  // Loads `soname`. `purpose` and `remedy` are the first and last words of the error: "PURPOSE but SONAME cannot be loaded (...); REMEDY".
  static Status open(const std::string &soname, const std::string &purpose, const std::string &remedy, Library &library);

  // Returns the address of a symbol; null when the library does not have it.
  void *find(const char *name);

  // Whether everything was there: names the first symbol that was not.
  Status check() const;

private:
  std::string soname;
  std::string remedy;
  std::string missing;
  void *handle = nullptr;
};

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_DEVICE_LIBRARY_H
