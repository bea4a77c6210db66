// SPDX-License-Identifier: Apache-2.0
//
// Dynamo's exporter notes at each node what its op read in the torch program, by names whose dots are underscores. The TorchScript exporter
// names nodes by the path of their module.

#include "compiler/frontend/weights/parameter_uses.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::StringRef;

namespace ashlar::frontend {

namespace {

std::string mangle(StringRef path) {
  std::string text = path.str();
  std::replace(text.begin(), text.end(), '.', '_');
  return text;
}

} // namespace

ParameterUses::ParameterUses(const onnx::GraphProto &graph) : notes(graph) {
  for (const onnx::TensorProto &initializer : graph.initializer()) {
    initializers.insert(initializer.name());
    byPlaceholder[placeholderOf(initializer.name())] = initializer.name();
    addModulesOf(initializer.name());
  }
  for (const onnx::NodeProto &node : graph.node()) {
    if (node.op_type() == "Identity" && node.output_size() == 1) {
      addModulesOf(node.output(0));
    }
    for (const std::string &module : readNote(node).modules) {
      modules.insert(module);
    }
  }
}

// TensorFlow's names have slashes for dots.
void ParameterUses::addModulesOf(StringRef parameter) {
  if (isMadeUpName(parameter)) {
    return;
  }
  std::string path = parameter.str();
  std::replace(path.begin(), path.end(), '/', '.');
  for (size_t dot = path.rfind('.'); dot != std::string::npos && dot > 0; dot = path.rfind('.', dot - 1)) {
    modules.insert(StringRef(path).take_front(dot));
  }
}

std::string ParameterUses::placeholderOf(StringRef initializer) const {
  std::string noted = notes.lookup(initializer).placeholder;
  return noted.empty() ? "p_" + mangle(initializer) : noted;
}

std::string ParameterUses::unmangle(StringRef placeholder, ArrayRef<std::string> modulesAround) const {
  if (auto known = byPlaceholder.find(placeholder); known != byPlaceholder.end()) {
    return known->second;
  }
  StringRef rest = placeholder.drop_front(2); // p_
  StringRef best;
  auto consider = [&](StringRef module) {
    std::string prefix = mangle(module) + "_";
    if (module.size() > best.size() && rest.size() > prefix.size() && rest.starts_with(prefix)) {
      best = module;
    }
  };
  llvm::for_each(modulesAround, consider);
  for (const auto &module : modules) {
    consider(module.first());
  }
  return best.empty() ? rest.str() : (best + "." + rest.drop_front(best.size() + 1)).str();
}

std::string ParameterUses::findNoted(const onnx::NodeProto &node, int input) const {
  std::string found = findAmongNoted(node, input);
  return found != node.input(input) && initializers.contains(found) ? "" : found; // that one is read by its own name
}

std::string ParameterUses::findAmongNoted(const onnx::NodeProto &node, int input) const {
  NodeNote note = readNote(node);
  SmallVector<int> held; // inputs that are initializers
  for (int i = 0; i < node.input_size(); ++i) {
    if (initializers.contains(node.input(i))) {
      held.push_back(i);
    }
  }
  const auto position = llvm::find(held, input);
  if (note.placeholders.empty() || position == held.end()) {
    return "";
  }
  if (held.size() == note.placeholders.size()) {
    return unmangle(note.placeholders[static_cast<size_t>(position - held.begin())], note.modules);
  }
  SmallVector<std::string> fitting;
  StringRef role = findRole(node, input);
  llvm::copy_if(note.placeholders, std::back_inserter(fitting),
                [&](StringRef name) { return !role.empty() && name.ends_with(("_" + role).str()); });
  if (fitting.size() == 1) {
    return unmangle(fitting.front(), note.modules);
  }
  return llvm::is_contained(note.placeholders, placeholderOf(node.input(input))) ? node.input(input) : "";
}

std::string ParameterUses::findModule(const onnx::NodeProto &node) const {
  if (NodeNote note = readNote(node); !note.modules.empty()) {
    return note.modules.back();
  }
  SmallVector<StringRef> parts;
  StringRef(node.name()).ltrim('/').split(parts, '/');
  std::string path;
  for (StringRef part : ArrayRef(parts).drop_back()) {
    StringRef first = part.rtrim("0123456789");
    const bool isNumbered = first.size() < part.size() && first.consume_back("_") && !first.empty();
    const std::string around = path.empty() ? "" : path + ".";
    path = isNumbered && !modules.contains(around + part.str()) ? around + first.str() : around + part.str();
  }
  return path;
}

StringRef ParameterUses::findRole(const onnx::NodeProto &node, int input) {
  constexpr llvm::StringLiteral kOfNorms[] = {"", "weight", "bias", "running_mean", "running_var"};
  StringRef op = node.op_type();
  if (op.ends_with("Normalization")) {
    return input < static_cast<int>(std::size(kOfNorms)) ? StringRef(kOfNorms[input]) : StringRef();
  }
  if (op == "Gemm" || op == "Conv" || op == "ConvTranspose") {
    return StringRef(input == 1 ? "weight" : input == 2 ? "bias" : "");
  }
  return llvm::StringSwitch<StringRef>(op)
      .Case("Add", "bias")
      .Cases({"Mul", "MatMul"}, "weight")
      .Case("PRelu", input == 1 ? "weight" : "")
      .Case("Gather", input == 0 ? "weight" : "")
      .Default("");
}

} // namespace ashlar::frontend
