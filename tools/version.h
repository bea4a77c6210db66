// SPDX-License-Identifier: Apache-2.0
//
// The version that all tools print for --version.

#ifndef ASHLAR_TOOLS_VERSION_H
#define ASHLAR_TOOLS_VERSION_H

#include <string>

namespace ashlar::tools {

// Returns "NAME 0.1.0, commit 0123456789"; the commit is that of the checkout when it was built, "unknown" without one.
std::string versionOf(const std::string &name);

} // namespace ashlar::tools

#endif // ASHLAR_TOOLS_VERSION_H
