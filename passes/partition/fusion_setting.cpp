// SPDX-License-Identifier: Apache-2.0
//
// A word, and numbers behind colons.

#include "passes/partition/fusion_setting.h"

using namespace mlir;

namespace ashlar::partition {

std::optional<FusionSetting> readFusionSetting(StringRef text) {
  FusionSetting setting{text.str(), std::nullopt, {}};
  if (text.empty()) {
    return setting;
  }
  SmallVector<StringRef> parts;
  text.split(parts, ':');
  for (StringRef part : ArrayRef(parts).drop_front()) {
    int64_t least = setting.numbers.empty() ? 1 : setting.numbers.back() + 1;
    if (part.getAsInteger(10, setting.numbers.emplace_back()) || setting.numbers.back() < least) {
      return std::nullopt;
    }
  }
  size_t count = setting.numbers.size();
  setting.mode = parts.front() == "auto"   ? dist::FusionMode::Auto
                 : parts.front() == "size" ? dist::FusionMode::Size
                                           : dist::FusionMode::Index;
  bool isGood = parts.front() == "auto" ? count == 0 : parts.front() == "size" ? count == 1 : parts.front() == "index" ? count >= 1 : false;
  return isGood ? std::optional(setting) : std::nullopt;
}

} // namespace ashlar::partition
