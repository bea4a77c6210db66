// SPDX-License-Identifier: Apache-2.0
//
// The options of ashlar-fuse-collectives.

#ifndef ASHLAR_PASSES_PARTITION_FUSION_SETTING_H
#define ASHLAR_PASSES_PARTITION_FUSION_SETTING_H

#include "dialects/dist/dist.h"

#include <optional>
#include <string>

namespace ashlar::partition {

// What becomes of the collectives of a kind whose parameters have no ids.
struct FusionSetting {
  std::string text;                     // as given
  std::optional<dist::FusionMode> mode; // nothing: they stay alone
  llvm::SmallVector<int64_t> numbers;   // of `size` the bytes, of `index` the bounds
};

// Reads "", "auto", "size:64000000" or "index:20:35"; nothing for any other text.
std::optional<FusionSetting> readFusionSetting(llvm::StringRef text);

} // namespace ashlar::partition

#endif // ASHLAR_PASSES_PARTITION_FUSION_SETTING_H
