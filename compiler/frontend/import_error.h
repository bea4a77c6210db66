// SPDX-License-Identifier: Apache-2.0
//
// The exception that carries a fault of the model from where it is found to importOnnx, which turns it into an llvm::Error. It never leaves
// this folder.

#ifndef ASHLAR_COMPILER_FRONTEND_IMPORT_ERROR_H
#define ASHLAR_COMPILER_FRONTEND_IMPORT_ERROR_H

#include "llvm/ADT/Twine.h"

#include <stdexcept>

namespace ashlar::frontend {

// One line, lower case, without the model's path.
class ImportError : public std::runtime_error {
public:
  explicit ImportError(const llvm::Twine &message) : std::runtime_error(message.str()) {}
};

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_IMPORT_ERROR_H
