// SPDX-License-Identifier: Apache-2.0
//
// Outputs of the graph as results of @forward, with the counts of their counted dims.

#include "compiler/frontend/importer/importer.h"

#include "compiler/frontend/graph_inputs.h"
#include "compiler/frontend/tensor_data.h"
#include "dialects/nn/counted_dims.h"

using namespace mlir;

namespace ashlar::frontend {

void Importer::checkOutput(const onnx::ValueInfoProto &output, RankedTensorType type) const {
  std::string what = "output \"" + output.name() + "\"";
  if (output.type().value_case() == onnx::TypeProto::VALUE_NOT_SET) {
    return;
  }
  if (!output.type().has_tensor_type()) {
    throw ImportError(what + " is declared as no tensor but the graph computes " + describeTensor(type));
  }
  const onnx::TypeProto::Tensor &declared = output.type().tensor_type();
  if (declared.elem_type() != onnx::TensorProto::UNDEFINED) {
    Type element = convertElementType(declared.elem_type(), context, what);
    if (element != type.getElementType()) {
      throw ImportError(what + " is declared with elements of " + elementName(element) + " but the graph computes " + describeTensor(type));
    }
  }
  if (!declared.has_shape()) {
    return;
  }
  auto warn = [&](const Twine &declaration) {
    if (!options.facts) {
      emitWarning(UnknownLoc::get(context)) << inOneLine(
          (path + ": " + what + " is declared with " + declaration + " but the graph computes " + describeTensor(type)).str());
    }
  };
  if (declared.shape().dim_size() != type.getRank()) {
    return warn("rank " + Twine(declared.shape().dim_size()));
  }
  ArrayRef<Value> counts = counted.of(values->peekValue(output.name()));
  for (auto [i, dim] : llvm::enumerate(declared.shape().dim())) {
    const bool fits = counts.empty() || !counts[i] ? dim.dim_value() == type.getDimSize(i) : dim.dim_value() <= type.getDimSize(i);
    if (!isOpen(dim) && !fits) {
      return warn("size " + Twine(dim.dim_value()) + " in dim " + Twine(i));
    }
  }
}

void Importer::returnOutputs() {
  SmallVector<Value> results;
  SmallVector<Type> types;
  llvm::StringSet<> names;
  for (const onnx::ValueInfoProto &output : graph.output()) {
    if (!values->isDefined(output.name())) {
      throw ImportError("output \"" + output.name() + "\" is computed by no node");
    }
    if (!names.insert(output.name()).second) {
      throw ImportError("output \"" + output.name() + "\" is listed twice; remove one in the export");
    }
    checkOutput(output, values->getType(output.name()));
    results.push_back(values->getValue(output.name()));
    types.push_back(results.back().getType());
  }
  if (results.empty()) {
    throw ImportError("the graph has no output");
  }
  llvm::MapVector<Value, std::string> counts = nameCounts(results, names);
  for (const auto &[count, name] : counts) {
    results.push_back(count);
    types.push_back(count.getType());
  }
  func::ReturnOp::create(builder, forward.getLoc(), results);
  forward.setType(builder.getFunctionType(forward.getArgumentTypes(), types));
  for (int i = 0; i < graph.output_size(); ++i) {
    forward.setResultAttr(i, nn::kNameAttr, builder.getStringAttr(graph.output(i).name()));
    ArrayRef<Value> own = counts.empty() ? ArrayRef<Value>() : counted.of(results[i]);
    if (!own.empty()) {
      SmallVector<Attribute> named;
      for (Value count : own) {
        named.push_back(builder.getStringAttr(counts.lookup(count)));
      }
      forward.setResultAttr(i, nn::kCountsAttr, builder.getArrayAttr(named));
    }
  }
  for (auto [i, count] : llvm::enumerate(counts)) {
    forward.setResultAttr(graph.output_size() + i, nn::kNameAttr, builder.getStringAttr(count.second));
    forward.setResultAttr(graph.output_size() + i, nn::kInternalAttr, builder.getUnitAttr());
  }
}

llvm::MapVector<Value, std::string> Importer::nameCounts(ArrayRef<Value> results, const llvm::StringSet<> &taken) const {
  llvm::MapVector<Value, std::string> counts;
  if (options.training) { // nothing is written
    return counts;
  }
  llvm::StringSet<> names = taken;
  for (auto [output, result] : llvm::zip(graph.output(), results)) {
    for (Value count : counted.of(result)) {
      if (!count || counts.contains(count)) {
        continue;
      }
      std::string name = output.name() + ".count";
      while (!names.insert(name).second) {
        name += "_";
      }
      counts[count] = name;
    }
  }
  return counts;
}

void Importer::checkLoss() const {
  if (!options.training || (options.loss.empty() && graph.output_size() == 0)) {
    return;
  }
  const std::string &name = options.loss.empty() ? graph.output(0).name() : options.loss;
  if (!counted.of(values->peekValue(name)).empty()) {
    throw ImportError("the loss is of \"" + name +
                      "\", which has a dim whose size only a run finds; let the model reduce it, by ReduceSum or ReduceMean, or keep the "
                      "original tensor, and a mask of the selection");
  }
}

} // namespace ashlar::frontend
