// SPDX-License-Identifier: Apache-2.0
//
// See rules.h.

#include "dialects/dist/rules.h"

using namespace mlir;

namespace ashlar::dist {

std::string describeRule(StringAttr match, StringAttr origin) {
  std::string text = "rule \"" + match.str() + "\"";
  return origin ? text + " (" + origin.str() + ")" : text;
}

InFlightDiagnostic emitRuleError(StringAttr match, StringAttr origin) {
  InFlightDiagnostic error = emitError(UnknownLoc::get(match.getContext()));
  if (origin) {
    error << origin.getValue() << ": ";
  }
  error << "rule \"" << match.getValue() << "\": ";
  return error;
}

} // namespace ashlar::dist
