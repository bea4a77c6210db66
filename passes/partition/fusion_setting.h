// SPDX-License-Identifier: Apache-2.0
//
// The options of ashlar-fuse-collectives.

#ifndef ASHLAR_PASSES_PARTITION_FUSION_SETTING_H
#define ASHLAR_PASSES_PARTITION_FUSION_SETTING_H

#include "dialects/dist/dist.h"

#include "llvm/Support/CommandLine.h"

#include <optional>

namespace ashlar::partition {

// The fusion of the collectives of a kind whose parameters have no ids.
struct FusionSetting {
  std::optional<dist::FusionMode> mode = {}; // nothing: they stay alone
  llvm::SmallVector<int64_t> numbers = {};   // of `size` the bytes, of `index` the bounds

  // Reads "", "auto", "size:64000000" or "index:20:35"; nothing for any other text.
  static std::optional<FusionSetting> parse(llvm::StringRef text);
};

// Prints a setting as FusionSetting::parse reads it.
llvm::raw_ostream &operator<<(llvm::raw_ostream &out, const FusionSetting &setting);

} // namespace ashlar::partition

// Makes a setting the type of an option.
template <> class llvm::cl::parser<ashlar::partition::FusionSetting> : public llvm::cl::basic_parser<ashlar::partition::FusionSetting> {
public:
  using basic_parser::basic_parser;

  // Returns true, after an error, where the text is no setting.
  bool parse(Option &option, StringRef name, StringRef text, ashlar::partition::FusionSetting &setting);
  StringRef getValueName() const override { return "setting"; }
  void printOptionDiff(const Option &option, const ashlar::partition::FusionSetting &setting,
                       const OptionValue<ashlar::partition::FusionSetting> &fallback, size_t width) const;
};

#endif // ASHLAR_PASSES_PARTITION_FUSION_SETTING_H
