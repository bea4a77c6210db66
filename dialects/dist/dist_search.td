// SPDX-License-Identifier: Apache-2.0
//
// Attributes that a search for layouts leaves: numbers and names, of which reports make sentences.

#ifndef ASHLAR_DIALECTS_DIST_DIST_SEARCH_TD
#define ASHLAR_DIALECTS_DIST_DIST_SEARCH_TD

include "dialects/dist/dist_base.td"

def Dist_StrategyAttr : Dist_Attr<"Strategy", "strategy"> {
  let summary = "A strategy that a search considered";
  let description = [{
    The predicted time of a step and the predicted bytes of a device.

        #dist.strategy<kind = data_parallel, step_ps = 104857600, bytes = 1048576>
  }];
  let parameters = (ins EnumParameter<Dist_StrategyKind>:$kind, "int64_t":$step_ps, "int64_t":$bytes);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Dist_SendAttr : Dist_Attr<"Send", "send"> {
  let summary = "The collectives of one kind in a step";
  let description = [{
    Their number, their time, and the part of it that computation does not hide.

        #dist.send<kind = all_reduce, count = 4, send_ps = 80000000, exposed_ps = 20000000>
  }];
  let parameters = (ins EnumParameter<Ashlar_CollectiveKind>:$kind, "int64_t":$count, "int64_t":$send_ps, "int64_t":$exposed_ps);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Dist_PredictionAttr : Dist_Attr<"Prediction", "prediction"> {
  let summary = "The predicted parts of a step and of the memory of a device";
  let description = [{
        #dist.prediction<compute_ps = 104857600, sends = [], parameter_bytes = 16384, state_bytes = 0, input_output_bytes = 524288,
                         intermediate_bytes = 0>
  }];
  let parameters = (ins "int64_t":$compute_ps, OptionalArrayRefParameter<"SendAttr">:$sends, "int64_t":$parameter_bytes,
                        "int64_t":$state_bytes, "int64_t":$input_output_bytes, "int64_t":$intermediate_bytes);
  let assemblyFormat = [{
    `<` `compute_ps` `=` $compute_ps `,` `sends` `=` custom<List>($sends) `,` `parameter_bytes` `=` $parameter_bytes `,`
    `state_bytes` `=` $state_bytes `,` `input_output_bytes` `=` $input_output_bytes `,` `intermediate_bytes` `=` $intermediate_bytes `>`
  }];
}

def Dist_RuleListAttr : Dist_Attr<"RuleList", "rule_list"> {
  let summary = "Rules that lead to the layouts of a strategy in mode SEMI_AUTO";
  let description = [{
    `others` is the number of tensors that get other layouts by these rules; `step_ps` the predicted step with them, unless inference refuses
    them.

        #dist.rule_list<[<match = "fc1.weight", layout = "[{}, {tp} ]">], kind = shortest, others = 0, step_ps = 104857600>
  }];
  let parameters = (ins OptionalArrayRefParameter<"RuleAttr">:$rules, EnumParameter<Dist_RuleListKind>:$kind, "int64_t":$others,
                        OptionalParameter<"std::optional<int64_t>">:$step_ps);
  let assemblyFormat = [{
    `<` custom<List>($rules) `,` `kind` `=` $kind `,` `others` `=` $others (`,` `step_ps` `=` $step_ps^)? `>`
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
    A block is a module of the model, or the first and the last of several that are decided as one.

        #dist.runner_up<block = "fc1", step_ps = 209715200, bytes = 32768,
                        differences = [<kind = parameter, name = "fc1.weight", layout = <[{}, {} ]>, taken = <[{"tp"}, {} ]>>]>
  }];
  let parameters = (ins "::mlir::StringAttr":$block, "int64_t":$step_ps, "int64_t":$bytes,
                        OptionalArrayRefParameter<"DifferenceAttr">:$differences);
  let assemblyFormat = [{
    `<` `block` `=` $block `,` `step_ps` `=` $step_ps `,` `bytes` `=` $bytes `,` `differences` `=` custom<List>($differences) `>`
  }];
}

def Dist_SearchAttr : Dist_Attr<"Search", "search"> {
  let summary = "The strategies that a search considered, and the one that it took";
  let description = [{
    `dist.search` of a module. `prediction` is that of the strategy `taken`. `cost_ps` is the cost of the search's choices in its graph, and
    no choices cost less than `bound_ps`. `runners_up` and `rules` are there where the search was to be explained.

        #dist.search<strategies = [<kind = search, step_ps = 104857600, bytes = 540672>], taken = search, cost_ps = 104857600,
                     bound_ps = 104857600, prediction = <...>, runners_up = [], rules = <...>>

    **Constraints:** (C1) `taken` is the kind of one of the strategies; (C2) no kind twice.
  }];
  let parameters = (ins ArrayRefParameter<"StrategyAttr">:$strategies, EnumParameter<Dist_StrategyKind>:$taken, "int64_t":$cost_ps,
                        "int64_t":$bound_ps, "PredictionAttr":$prediction, OptionalArrayRefParameter<"RunnerUpAttr">:$runners_up,
                        OptionalParameter<"RuleListAttr">:$rules);
  let assemblyFormat = [{
    `<` `strategies` `=` `[` $strategies `]` `,` `taken` `=` $taken `,` `cost_ps` `=` $cost_ps `,` `bound_ps` `=` $bound_ps `,`
    `prediction` `=` $prediction `,` `runners_up` `=` custom<List>($runners_up) (`,` `rules` `=` $rules^)? `>`
  }];
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    // Returns the strategy that was taken.
    ::ashlar::dist::StrategyAttr getTakenStrategy() const;
  }];
}

#endif // ASHLAR_DIALECTS_DIST_DIST_SEARCH_TD
