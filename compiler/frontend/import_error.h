// SPDX-License-Identifier: Apache-2.0
//
// The exception that carries a fault of the model from where it is found to importOnnx, which turns it into an llvm::Error. It never leaves
// this folder.

#ifndef ASHLAR_COMPILER_FRONTEND_IMPORT_ERROR_H
#define ASHLAR_COMPILER_FRONTEND_IMPORT_ERROR_H

#include "llvm/ADT/Twine.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace ashlar::frontend {

// Returns the text with a question mark for each control character: names come from the file, and an error stays one line whatever is in
// them.
inline std::string inOneLine(std::string text) {
  std::replace_if(text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, '?');
  return text;
}

// One line, lower case, without the model's path.
class ImportError : public std::runtime_error {
public:
  explicit ImportError(const llvm::Twine &message) : std::runtime_error(inOneLine(message.str())) {}
};

// The import of a model is too long, in whatever form.
class BudgetError : public ImportError {
public:
  using ImportError::ImportError;
};

// Returns the message of an exception of an import for the user. One that is no ImportError is std::bad_alloc, or a container that cannot
// have the requested size.
inline std::string describeFailure(const std::exception &error) {
  return dynamic_cast<const ImportError *>(&error) ? error.what() : "cannot be read with the memory that there is";
}

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_IMPORT_ERROR_H
