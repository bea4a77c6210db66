// SPDX-License-Identifier: Apache-2.0
//
// A mode, and numbers behind colons.

#include "passes/partition/fusion_setting.h"

using namespace mlir;

namespace ashlar::partition {
namespace {

// Whether a setting of the mode may have so many numbers.
bool takes(dist::FusionMode mode, size_t numbers) {
  switch (mode) {
  case dist::FusionMode::Id: // of parameters, not a setting
    return false;
  case dist::FusionMode::Auto:
    return numbers == 0;
  case dist::FusionMode::Size:
    return numbers == 1;
  case dist::FusionMode::Index:
    return numbers >= 1;
  }
  llvm_unreachable("unknown mode");
}

} // namespace

std::optional<FusionSetting> FusionSetting::parse(StringRef text) {
  FusionSetting setting;
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
  setting.mode = dist::symbolizeFusionMode(parts.front());
  return setting.mode && takes(*setting.mode, setting.numbers.size()) ? std::optional(setting) : std::nullopt;
}

llvm::raw_ostream &operator<<(llvm::raw_ostream &out, const FusionSetting &setting) {
  out << (setting.mode ? dist::stringifyFusionMode(*setting.mode) : "");
  llvm::for_each(setting.numbers, [&](int64_t number) { out << ':' << number; });
  return out;
}

} // namespace ashlar::partition

namespace llvm::cl {

using ashlar::partition::FusionSetting;

bool parser<FusionSetting>::parse(Option &option, StringRef, StringRef text, FusionSetting &setting) {
  std::optional<FusionSetting> read = FusionSetting::parse(text);
  if (!read) {
    return option.error("is \"" + text + "\"; one of auto, size:BYTES and index:N:M:... with growing numbers above 0");
  }
  setting = *read;
  return false;
}

void parser<FusionSetting>::printOptionDiff(const Option &option, const FusionSetting &, const OptionValue<FusionSetting> &,
                                            size_t width) const {
  printOptionNoValue(option, width);
}

} // namespace llvm::cl
