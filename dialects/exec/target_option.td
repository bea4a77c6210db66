// SPDX-License-Identifier: Apache-2.0
//
// The option of a pass that chooses by the target.

#ifndef ASHLAR_DIALECTS_EXEC_TARGET_OPTION_TD
#define ASHLAR_DIALECTS_EXEC_TARGET_OPTION_TD

include "dialects/exec/exec_enums.td"
include "dialects/support/options/enum_option.td"

class TargetOption<string text> : EnumOption<"target", "target", Exec_Target, "Cpu", text>;

#endif // ASHLAR_DIALECTS_EXEC_TARGET_OPTION_TD
