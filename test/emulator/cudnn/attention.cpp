// SPDX-License-Identifier: Apache-2.0
//
// The graphs that engines of attention take: operations in an order that is known, and sizes that all chips take.

#include "test/emulator/cudnn/graph.h"

#include <algorithm>

namespace ashlar::emulator {
namespace {

constexpr int64_t kMostWidth = 128, kWidthMultiple = 8;

const char *nameOf(const GraphOperation &operation) {
  switch (operation.kind) {
  case GraphOperation::Multiply:
    return "product ";
  case GraphOperation::View:
    return "view ";
  case GraphOperation::Reduce:
    return operation.reduction == CUDNN_REDUCE_TENSOR_MAX ? "maximum " : "sum ";
  case GraphOperation::Apply:
    break;
  }
  switch (operation.mode) {
  case CUDNN_POINTWISE_ADD:
    return "+ ";
  case CUDNN_POINTWISE_SUB:
    return "- ";
  case CUDNN_POINTWISE_MUL:
    return "* ";
  case CUDNN_POINTWISE_DIV:
    return "/ ";
  case CUDNN_POINTWISE_EXP:
    return "exp ";
  case CUDNN_POINTWISE_LOG:
    return "log ";
  case CUDNN_POINTWISE_GEN_INDEX:
    return "index ";
  case CUDNN_POINTWISE_CMP_GE:
    return ">= ";
  case CUDNN_POINTWISE_BINARY_SELECT:
    return "select ";
  default:
    return "= ";
  }
}

std::string textOf(const OperationGraph &graph) {
  std::string text;
  for (const GraphOperation &operation : graph.operations) {
    text += nameOf(operation);
  }
  return text;
}

// With and without a mask that is added, and a causal one.
const std::string kAdded = "+ ", kCausal = "index index >= select ";
const std::string kForward[] = {"product * ", "", "maximum - exp sum log + / product "};
const std::string kBackward[] = {"* sum * product * ", "- ", "exp view product product - * * view product view product = "};

bool is(const std::string &text, const std::string (&parts)[3]) {
  for (const std::string &added : {std::string(), kAdded}) {
    for (const std::string &causal : {std::string(), kCausal}) {
      if (text == parts[0] + added + parts[1] + causal + parts[2]) {
        return true;
      }
    }
  }
  return false;
}

bool isNarrow(cudnnDataType_t type) {
  return type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16;
}

// Queries and keys of a graph, and its other products, in their order.
std::vector<const GraphOperation *> productsOf(const OperationGraph &graph) {
  std::vector<const GraphOperation *> products;
  for (const GraphOperation &operation : graph.operations) {
    if (operation.kind == GraphOperation::Multiply) {
      products.push_back(&operation);
    }
  }
  return products;
}

bool isMultiplied(const std::vector<const GraphOperation *> &products, int64_t id) {
  return std::any_of(products.begin(), products.end(), [&](const GraphOperation *product) {
    return std::any_of(product->operands.begin(), product->operands.end(), [&](const GraphTensor &operand) { return operand.id == id; });
  });
}

} // namespace

bool hasGradients(const OperationGraph &graph) {
  return graph.operations.front().kind == GraphOperation::Apply;
}

cudnnStatus_t checkSupport(const OperationGraph &graph) {
  const std::string text = textOf(graph);
  const bool isBackward = is(text, kBackward);
  if (!isBackward && !is(text, kForward)) {
    return refuse(CUDNN_STATUS_NOT_SUPPORTED, "no engine takes the graph " + text);
  }
  const std::vector<const GraphOperation *> products = productsOf(graph);
  const GraphTensor &query = products[0]->operands[0], &scores = products[0]->result;
  const int64_t keys = scores.dims[3], width = query.dims[3];
  // The product with the values, or of the output's gradient with them.
  const int64_t valueWidth = isBackward ? products[2]->operands[1].dims[2] : products[1]->operands[1].dims[3];
  if (!isNarrow(query.type)) {
    return refuse(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "queries must be f16 or bf16");
  }
  for (const int64_t each : {width, valueWidth}) {
    if (each % kWidthMultiple != 0 || each > kMostWidth) {
      return refuse(CUDNN_STATUS_NOT_SUPPORTED_SHAPE, "a width of " + std::to_string(each) + " is no multiple of 8 up to 128");
    }
  }
  if (keys == 1) {
    return refuse(CUDNN_STATUS_NOT_SUPPORTED_SHAPE, "one key");
  }
  for (const GraphTensor &tensor : graph.tensorsAt(Place::Memory)) {
    const bool isOfRows = tensor.dims[3] == 1 && !isMultiplied(products, tensor.id),
               isSum = isBackward && tensor.type == CUDNN_DATA_FLOAT && graph.isResult(tensor.id);
    if (tensor.type != (isOfRows || isSum ? CUDNN_DATA_FLOAT : query.type)) {
      return refuse(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "tensors are not of the type of the queries, or numbers of rows not f32");
    }
    if (std::min(tensor.strides[2], tensor.strides[3]) != 1) {
      return refuse(CUDNN_STATUS_NOT_SUPPORTED_LAYOUT, "the width of a tensor is not dense");
    }
  }
  for (const GraphOperation &operation : graph.operations) {
    const bool compares = operation.kind == GraphOperation::Apply && operation.mode == CUDNN_POINTWISE_CMP_GE;
    if (operation.kind != GraphOperation::View && operation.compute != (compares ? CUDNN_DATA_BOOLEAN : CUDNN_DATA_FLOAT)) {
      return refuse(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "an operation is not computed in f32, or a comparison not in bools");
    }
  }
  return CUDNN_STATUS_SUCCESS;
}

} // namespace ashlar::emulator
