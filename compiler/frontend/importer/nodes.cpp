// SPDX-License-Identifier: Apache-2.0
//
// Nodes in order, each by its row of the registry; refused ones by stand-ins, so that one error lists all.

#include "compiler/frontend/importer/importer.h"

#include "compiler/frontend/body.h"
#include "compiler/frontend/folding/known_node.h"
#include "compiler/frontend/folding/stored_constants.h"
#include "compiler/frontend/graph_inputs.h"
#include "compiler/frontend/registry.h"
#include "compiler/frontend/tensor_data.h"
#include "dialects/support/tensor_size.h"

#include "llvm/ADT/StringExtras.h"

#include <map>

using namespace mlir;

namespace ashlar::frontend {

namespace {

// Returns one error with all the ops that have no row, and why; "" without any.
template <typename Nodes> std::string findUnsupported(const Nodes &nodes, int64_t opset) {
  constexpr size_t kNamesShown = 4;
  std::map<std::string, SmallVector<std::string>> unsupported; // op -> names of its nodes
  for (auto [i, node] : llvm::enumerate(nodes)) {
    if (std::string name = qualifiedOpType(node); !findOp(name)) {
      unsupported[name].push_back(nodePath(node, static_cast<int>(i)));
    }
  }
  std::vector<std::string> ops;
  for (const auto &[op, names] : unsupported) {
    std::string shown = llvm::join(ArrayRef(names).take_front(kNamesShown), "\", \"");
    std::string more = names.size() > kNamesShown ? " and " + std::to_string(names.size() - kNamesShown) + " more" : "";
    ops.push_back(op + " (node" + (names.size() > 1 ? "s" : "") + " \"" + shown + "\"" + more + ", opset " + std::to_string(opset) + ")");
  }
  if (ops.empty()) {
    return "";
  }
  // Of a domain that is neither ONNX's nor a runtime's.
  bool isOthers = llvm::any_of(unsupported, [](const auto &op) {
    StringRef name = op.first;
    return name.contains('.') && !name.starts_with("ai.") && !name.starts_with("com.microsoft.");
  });
  return std::to_string(ops.size()) + (ops.size() == 1 ? " op is" : " ops are") + " not supported: " + llvm::join(ops, ", ") +
         (isOthers ? "; --load-plugin adds ops (docs/plugins.md)" : "");
}

} // namespace

std::string Importer::findUnsupportedNodes() const {
  return findUnsupported(graph.node(), info.opset);
}

// What a node stands for comes next, before the nodes that follow it. A node that is refused does not end the import: the others are tried,
// so that one error lists all.
void Importer::importNodes() {
  std::vector<onnx::NodeProto> pending; // the next one last
  auto import = [&](onnx::NodeProto &nodeProto, const std::string &path) {
    try {
      if (!findOp(qualifiedOpType(nodeProto)) || readsUnknown(nodeProto)) {
        return standIn(nodeProto);
      }
      Node node(nodeProto, path, info, *values);
      followStored(nodeProto, node, info.stored);
      std::vector<onnx::NodeProto> stoodFor = importNode(node);
      if (std::string fault = findUnsupported(stoodFor, info.opset); !fault.empty()) {
        throw ImportError(fault);
      }
      std::move(stoodFor.rbegin(), stoodFor.rend(), std::back_inserter(pending));
    } catch (const ImportError &error) {
      faults.push_back(error.what());
      standIn(nodeProto);
    }
  };
  for (int i = 0; i < graph.node_size(); ++i) {
    import(*graph.mutable_node(i), nodePath(graph.node(i), i));
    while (!pending.empty()) {
      onnx::NodeProto node = std::move(pending.back());
      pending.pop_back();
      import(node, nodePath(node, 0)); // it has a name
    }
  }
}

void Importer::importBody(std::vector<onnx::NodeProto> nodes) {
  std::reverse(nodes.begin(), nodes.end());
  while (!nodes.empty()) {
    onnx::NodeProto proto = std::move(nodes.back());
    nodes.pop_back();
    if (std::string fault = findUnsupported(ArrayRef(proto), info.opset); !fault.empty()) {
      throw ImportError(fault);
    }
    Node node(proto, nodePath(proto, 0), info, *values);
    followStored(proto, node, info.stored);
    std::vector<onnx::NodeProto> stoodFor = importNode(node);
    std::move(stoodFor.rbegin(), stoodFor.rend(), std::back_inserter(nodes));
  }
}

bool Importer::readsUnknown(const onnx::NodeProto &node) const {
  auto isUnknown = [&](const std::string &name) { return unknown.contains(name); };
  return llvm::any_of(node.input(), isUnknown) || (!unknown.empty() && llvm::any_of(node.attribute(), [&](const auto &attribute) {
           return attribute.has_g() && llvm::any_of(outerNames(attribute.g()), isUnknown);
         }));
}

RankedTensorType Importer::declaredFloats(const onnx::ValueInfoProto &value) const {
  const onnx::TypeProto::Tensor &type = value.type().tensor_type();
  if (!isFloat(type.elem_type()) || !type.has_shape()) {
    return {};
  }
  SmallVector<int64_t> shape;
  for (int i = 0; i < type.shape().dim_size(); ++i) {
    std::optional<int64_t> size = givenSize(value, i, options);
    if (!size && batchSymbols.contains(symbolOf(type.shape().dim(i)))) {
      size = options.globalBatch;
    }
    if (!size) {
      return {};
    }
    shape.push_back(*size);
  }
  std::string what = "value \"" + value.name() + "\"";
  Type element = convertElementType(type.elem_type(), context, what);
  return findSizeFault(shape, element).empty() ? RankedTensorType::get(shape, element) : RankedTensorType();
}

// What a refused node computes has the type that the model declares, if it is one of floats: what is computed from integers may have to be
// known, so that it would be refused for the wrong reason.
void Importer::standIn(const onnx::NodeProto &node) {
  if (declared.empty()) {
    for (const auto *list : {&graph.value_info(), &graph.output()}) {
      for (const onnx::ValueInfoProto &value : *list) {
        declared[value.name()] = &value;
      }
    }
  }
  for (const std::string &output : node.output()) {
    if (output.empty()) {
      continue;
    }
    values->forget(output);
    const onnx::ValueInfoProto *value = declared.lookup(output);
    RankedTensorType type = value ? declaredFloats(*value) : RankedTensorType();
    if (!type) {
      unknown.insert(output);
      continue;
    }
    values->define(output, UnrealizedConversionCastOp::create(builder, values->locationOf(output), type, ValueRange()).getResult(0));
  }
}

void Importer::reportFaults(const std::string &unsupported) {
  constexpr size_t kShown = 16;
  if (!unsupported.empty()) {
    faults.insert(faults.begin(), unsupported);
  }
  if (options.facts) {
    options.facts->faults = faults;
  }
  if (!faults.empty()) {
    std::string more = faults.size() > kShown ? "; and " + std::to_string(faults.size() - kShown) + " more nodes are refused" : "";
    throw ImportError(llvm::join(ArrayRef(faults).take_front(kShown), "; ") + more);
  }
}

std::vector<onnx::NodeProto> Importer::importNode(Node &node) {
  node.checkOutputs();
  for (size_t input = 0; input < node.numInputs(); ++input) {
    if (node.isGiven(input) && !values->isDefined(node.inputName(input))) {
      node.fail("reads \"" + node.inputName(input) + "\" but nothing before defines it");
    }
  }
  const RegistryRow &row = *findOp(node.qualifiedOpType());
  checkElementType(node, row);
  std::vector<onnx::NodeProto> nodes;
  if (row.expand) {
    nodes = row.expand(node);
  } else {
    SmallVector<std::pair<size_t, unsigned>> countedInputs = node.countedInputs();
    importByHandler(node, row, *values);
    node.checkCountedInputs(countedInputs);
  }
  node.checkComplete(/*isExpanded=*/row.expand != nullptr);
  return nodes;
}

} // namespace ashlar::frontend
