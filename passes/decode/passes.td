// SPDX-License-Identifier: Apache-2.0
//
// From a model of whole sequences to programs that go on from the positions before.

#ifndef ASHLAR_PASSES_DECODE_PASSES_TD
#define ASHLAR_PASSES_DECODE_PASSES_TD

include "mlir/Pass/PassBase.td"

def DecodePass : Pass<"ashlar-decode", "::mlir::ModuleOp"> {
  let summary = "Makes the programs of text generation of a model of whole sequences.";
  let description = [{
    @forward becomes two programs that compute some positions of the sequences, from `position` on: @decode one position, with its logits,
    and @prefill `chunk` of them without. What is computed for each position by itself is computed for these positions alone. A causal
    attention needs the keys and values of all positions: each lies in a variable, into which the programs insert the rows of their
    positions. Other tensors with positions, as tables of them, are read at these positions (docs/generate.md).

        func.func @forward(%tokens: tensor<1x64xi64>) -> tensor<1x64x100xf32> {
          ...
          %l = nn.attention_log_sum %q, %k scale = 1.0 causal at %rows, %keys : (tensor<1x64x8xf32>, tensor<1x64x8xf32>, ...) -> tensor<1x64xf32>
    ==>
        nn.variable @cache.keys internal : tensor<1x64x8xf32> = #nn.fill<0.0>
        func.func @decode(%tokens: tensor<1x1xi64>, %position: tensor<i64>) -> tensor<1x1x100xf32> {
          ...
          %old = nn.read @cache.keys : tensor<1x64x8xf32>
          %new = nn.insert %k into %old at %position dim = 1 : tensor<1x1x8xf32>, tensor<1x64x8xf32>, tensor<i64> -> tensor<1x64x8xf32>
          %l = nn.attention_log_sum %q, %new scale = 1.0 causal at %row, %keys : (tensor<1x1x8xf32>, tensor<1x64x8xf32>, ...) -> tensor<1x1xf32>

    Needs: @forward of one input, the tokens (batch, positions), with its attentions as ops (ashlar-recognize-attention). Fails where an op but a causal attention computes from several
    positions.
  }];
  let options = [
    Option<"logits", "logits", "std::string", "", "the output of the logits, (batch, positions, vocabulary); empty: the only one of rank 3">,
    Option<"chunk", "chunk", "int64_t", "64", "positions of @prefill, at most those of the model">,
  ];
  let dependentDialects = ["::ashlar::nn::NnDialect"];
}

#endif // ASHLAR_PASSES_DECODE_PASSES_TD
