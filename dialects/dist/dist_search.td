// SPDX-License-Identifier: Apache-2.0
//
// Attributes that a search for layouts leaves: numbers and names, of which reports make sentences.

#ifndef ASHLAR_DIALECTS_DIST_DIST_SEARCH_TD
#define ASHLAR_DIALECTS_DIST_DIST_SEARCH_TD

include "dialects/dist/dist_base.td"

def Dist_StrategyAttr : Dist_Attr<"Strategy", "strategy"> {
  let summary = "A strategy that a search considered";
  let description = [{
    The predicted time of a step and the predicted bytes of a device: of its lowered programs, or estimated from its layouts alone.

        #dist.strategy<kind = data_parallel, is_lowered = true, step_ps = 104857600, bytes = 1048576>
  }];
  let parameters = (ins EnumParameter<Dist_StrategyKind>:$kind, "bool":$is_lowered, "int64_t":$step_ps, "int64_t":$bytes);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Dist_RuleListAttr : Dist_Attr<"RuleList", "rule_list"> {
  let summary = "Rules that lead to the layouts of a strategy in mode SEMI_AUTO";
  let description = [{
    `others` is the number of tensors that get other layouts by these rules; `more_ps` what a step is estimated to take more with them, unless
    inference refuses them.

        #dist.rule_list<[<match = "fc1.weight", layout = "[{}, {tp} ]">], kind = shortest, others = 0, more_ps = 0>
  }];
  let parameters = (ins OptionalArrayRefParameter<"RuleAttr">:$rules, EnumParameter<Dist_RuleListKind>:$kind, "int64_t":$others,
                        OptionalParameter<"std::optional<int64_t>">:$more_ps);
  let assemblyFormat = [{
    `<` custom<List>($rules) `,` `kind` `=` $kind `,` `others` `=` $others (`,` `more_ps` `=` $more_ps^)? `>`
  }];
}

def Dist_DifferenceAttr : Dist_Attr<"Difference", "difference"> {
  let summary = "A parameter or op that another strategy lays out otherwise";
  let description = [{
    `layout` is that of the other strategy, `taken` that of the one that was taken. The name stands for several where they are decided as
    one.

        #dist.difference<kind = parameter, name = "fc1.weight", layout = <[{}, {} ]>, taken = <[{"tp"}, {} ]>>

    **Constraints:** (C1) the kind is `parameter` or `op`.
  }];
  let parameters = (ins EnumParameter<Dist_EndKind>:$kind, "::mlir::StringAttr":$name, "LayoutAttr":$layout, "LayoutAttr":$taken);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Dist_RunnerUpAttr : Dist_Attr<"RunnerUp", "runner_up"> {
  let summary = "The best strategy in which a block of the model is laid out otherwise";
  let description = [{
    A block is a module of the model, or the first and the last of several that are decided as one. `more_ps` and `more_bytes` are what a step
    takes and a device holds more than with the strategy that was taken, by estimates of both.

        #dist.runner_up<block = "fc1", more_ps = 209715200, more_bytes = -32768,
                        differences = [<kind = parameter, name = "fc1.weight", layout = <[{}, {} ]>, taken = <[{"tp"}, {} ]>>]>
  }];
  let parameters = (ins "::mlir::StringAttr":$block, "int64_t":$more_ps, "int64_t":$more_bytes,
                        OptionalArrayRefParameter<"DifferenceAttr">:$differences);
  let assemblyFormat = [{
    `<` `block` `=` $block `,` `more_ps` `=` $more_ps `,` `more_bytes` `=` $more_bytes `,` `differences` `=` custom<List>($differences) `>`
  }];
}

def Dist_SearchAttr : Dist_Attr<"Search", "search"> {
  let summary = "The strategies that a search considered, and the one that it took";
  let description = [{
    `dist.search` of a module. `cost_ps` is the cost of the search's choices in its graph, and no choices cost less than `bound_ps`. `units`
    is the work that the search counted. `stopped_s` is there where the clock ended it, after so many seconds: another machine may find
    another strategy. `runners_up` and `rules` are there where the search was to be explained.

        #dist.search<strategies = [<kind = search, is_lowered = false, step_ps = 104857600, bytes = 540672>], taken = search,
                     cost_ps = 104857600, bound_ps = 104857600, units = 2048, runners_up = [], rules = <...>>

    **Constraints:** (C1) `taken` is the kind of one of the strategies; (C2) no kind twice.
  }];
  let parameters = (ins ArrayRefParameter<"StrategyAttr">:$strategies, EnumParameter<Dist_StrategyKind>:$taken, "int64_t":$cost_ps,
                        "int64_t":$bound_ps, "int64_t":$units, OptionalParameter<"::mlir::FloatAttr">:$stopped_s,
                        OptionalArrayRefParameter<"RunnerUpAttr">:$runners_up,
                        OptionalParameter<"RuleListAttr">:$rules);
  let assemblyFormat = [{
    `<` `strategies` `=` `[` $strategies `]` `,` `taken` `=` $taken `,` `cost_ps` `=` $cost_ps `,` `bound_ps` `=` $bound_ps `,`
    `units` `=` $units `,` (`stopped_s` `=` $stopped_s^ `,`)? `runners_up` `=` custom<List>($runners_up) (`,` `rules` `=` $rules^)? `>`
  }];
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    // Returns the strategy that was taken.
    ::ashlar::dist::StrategyAttr getTakenStrategy() const;
  }];
}

#endif // ASHLAR_DIALECTS_DIST_DIST_SEARCH_TD
