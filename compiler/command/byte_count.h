// SPDX-License-Identifier: Apache-2.0
//
// Sizes of memory as people write them.

#ifndef ASHLAR_COMPILER_COMMAND_BYTE_COUNT_H
#define ASHLAR_COMPILER_COMMAND_BYTE_COUNT_H

#include "llvm/Support/Error.h"

#include <cstdint>

namespace ashlar::command {

// Returns the bytes of a number with a unit: kB, MB, GB, TB are powers of 1000, KiB, MiB, GiB, TiB of 1024, B is one byte. At least one
// byte, at most 2^62.
//   "80GB"  ->  80000000000        "1.5 GiB"  ->  1610612736
llvm::Expected<int64_t> parseByteCount(llvm::StringRef text);

} // namespace ashlar::command

#endif // ASHLAR_COMPILER_COMMAND_BYTE_COUNT_H
