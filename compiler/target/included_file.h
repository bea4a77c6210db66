// SPDX-License-Identifier: Apache-2.0
//
// Bytes on their way into an object: they lie in a file, which the assembler takes in as it is, so that 100 MB never become IR.

#ifndef ASHLAR_COMPILER_TARGET_INCLUDED_FILE_H
#define ASHLAR_COMPILER_TARGET_INCLUDED_FILE_H

#include <cstdint>
#include <string>

namespace ashlar::target {

// A file for an object to take in. It must exist until the object is emitted.
struct IncludedFile {
  std::string path;
  uint64_t bytes = 0;
  uint64_t hash = 0; // of the bytes
};

} // namespace ashlar::target

#endif // ASHLAR_COMPILER_TARGET_INCLUDED_FILE_H
