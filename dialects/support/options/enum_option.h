// SPDX-License-Identifier: Apache-2.0
//
// C++ side of enum_option.td: reads an option by the names of an enum. The error for another name lists all of them; that of LLVM's own
// parser of enums has the wrong name alone.

#ifndef ASHLAR_DIALECTS_SUPPORT_OPTIONS_ENUM_OPTION_H
#define ASHLAR_DIALECTS_SUPPORT_OPTIONS_ENUM_OPTION_H

#include "llvm/Support/CommandLine.h"

#include <cstdint>
#include <string>

namespace ashlar {

// A case of an enum that TableGen made, with numbers from 0 on, as the type of an option: options of the enum itself are read by LLVM.
template <typename Enum> class NamedCase {
public:
  NamedCase(Enum value = {}) : value(value) {}
  operator Enum() const { return value; }

private:
  Enum value;
};

} // namespace ashlar

template <typename Enum> class llvm::cl::parser<ashlar::NamedCase<Enum>> : public llvm::cl::basic_parser<ashlar::NamedCase<Enum>> {
public:
  using basic_parser<ashlar::NamedCase<Enum>>::basic_parser;

  // Returns true, after an error, where the text is no name of the enum.
  bool parse(Option &option, StringRef, StringRef text, ashlar::NamedCase<Enum> &value) {
    std::string names;
    // The name of a number behind the last case is empty.
    for (uint32_t number = 0; !stringifyEnum(static_cast<Enum>(number)).empty(); ++number) {
      const StringRef name = stringifyEnum(static_cast<Enum>(number));
      if (name == text) {
        value = static_cast<Enum>(number);
        return false;
      }
      names += (names.empty() ? "" : ", ") + name.str();
    }
    return option.error("is \"" + text + "\"; one of " + names);
  }

  void printOptionDiff(const Option &option, const ashlar::NamedCase<Enum> &, const OptionValue<ashlar::NamedCase<Enum>> &,
                       size_t width) const {
    this->printOptionNoValue(option, width);
  }
};

#endif // ASHLAR_DIALECTS_SUPPORT_OPTIONS_ENUM_OPTION_H
