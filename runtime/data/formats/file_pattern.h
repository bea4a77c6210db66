// SPDX-License-Identifier: Apache-2.0
//
// The files of a split that a pattern names.

#ifndef ASHLAR_RUNTIME_DATA_FORMATS_FILE_PATTERN_H
#define ASHLAR_RUNTIME_DATA_FORMATS_FILE_PATTERN_H

#include "runtime/base/status.h"

#include <string>
#include <vector>

namespace ashlar::rt {

// Whether `first` comes before `second` in the natural order: runs of digits count as numbers, so "a2" comes before "a10".
bool isNaturallyBefore(const std::string &first, const std::string &second);

// Whether a name matches a pattern: * stands for any characters, ? for one.
bool matchesPattern(const std::string &pattern, const std::string &name);

// Returns the names in a directory in the natural order, without names that begin with a dot.
Status listDirectory(const std::string &directory, std::vector<std::string> &names);

// Finds the files below `directory` that a relative path names, in the natural order; its last part may have wildcards. Fails when there is
// none: the error names the pattern and the directory.
Status findFiles(const std::string &directory, const std::string &pattern, std::vector<std::string> &paths);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_DATA_FORMATS_FILE_PATTERN_H
