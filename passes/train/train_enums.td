// SPDX-License-Identifier: Apache-2.0
//
// Enums of the passes that make a training step.

#ifndef ASHLAR_PASSES_TRAIN_TRAIN_ENUMS_TD
#define ASHLAR_PASSES_TRAIN_TRAIN_ENUMS_TD

include "mlir/IR/EnumAttr.td"

class Train_Enum<string name, string enumSummary, list<I32EnumAttrCase> cases> : I32EnumAttr<name, enumSummary, cases> {
  let cppNamespace = "::ashlar::train";
  let genSpecializedAttr = 0;
}

def Train_LossKind : Train_Enum<"LossKind", "what the loss is made of", [
  I32EnumAttrCase<"SoftmaxCrossEntropy", 0, "softmax_cross_entropy">, I32EnumAttrCase<"MeanSquaredError", 1, "mean_squared_error">,
  I32EnumAttrCase<"NegativeLogLikelihood", 2, "negative_log_likelihood">, I32EnumAttrCase<"ModelOutput", 3, "model_output">]>;

def Train_OptimizerKind : Train_Enum<"OptimizerKind", "how parameters follow their gradients", [
  I32EnumAttrCase<"Sgd", 0, "sgd">, I32EnumAttrCase<"Momentum", 1, "momentum">, I32EnumAttrCase<"Adam", 2, "adam">,
  I32EnumAttrCase<"AdamW", 3, "adamw">, I32EnumAttrCase<"Lamb", 4, "lamb">]>;

def Train_ScheduleKind : Train_Enum<"ScheduleKind", "how the learning rate follows the number of the step", [
  I32EnumAttrCase<"Constant", 0, "constant">, I32EnumAttrCase<"Step", 1, "step">, I32EnumAttrCase<"Piecewise", 2, "piecewise">,
  I32EnumAttrCase<"Cosine", 3, "cosine">, I32EnumAttrCase<"Polynomial", 4, "polynomial">]>;

def Train_NarrowType : Train_Enum<"NarrowType", "type of -ashlar-mixed-precision besides f32", [
  I32EnumAttrCase<"BF16", 0, "bf16">, I32EnumAttrCase<"F16", 1, "f16">]>;

#endif // ASHLAR_PASSES_TRAIN_TRAIN_ENUMS_TD
