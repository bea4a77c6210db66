// SPDX-License-Identifier: Apache-2.0
//
// An option of a pass whose values are the cases of an enum, under the names that the enum gives them.

#ifndef ASHLAR_DIALECTS_SUPPORT_OPTIONS_ENUM_OPTION_TD
#define ASHLAR_DIALECTS_SUPPORT_OPTIONS_ENUM_OPTION_TD

include "mlir/IR/EnumAttr.td"
include "mlir/Pass/PassBase.td"

class EnumOption<string cppName, string flag, EnumInfo kind, string default, string what>
    : Option<cppName, flag, "::ashlar::NamedCase<" # kind.cppNamespace # "::" # kind.className # ">",
             kind.cppNamespace # "::" # kind.className # "::" # default, what,
             "::llvm::cl::value_desc(\"" # !interleave(!foreach(each, kind.enumerants, each.str), "|") # "\")">;

#endif // ASHLAR_DIALECTS_SUPPORT_OPTIONS_ENUM_OPTION_TD
