// SPDX-License-Identifier: Apache-2.0
//
// Copies of nodes with other names.

#include "compiler/frontend/body.h"

#include "compiler/frontend/import_error.h"
#include "compiler/frontend/node.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

#include <google/protobuf/unknown_field_set.h>

namespace ashlar::frontend {

namespace {

using google::protobuf::RepeatedPtrField;

constexpr int kMostNodes = 1 << 20; // of all functions in their places; no exporter comes near

// Fields that libonnx 1.12 does not know.
constexpr int kDefaultsField = 11, kOverloadField = 13, kNodeOverloadField = 8;

std::string pathBelow(llvm::StringRef path, const onnx::NodeProto &node, int index) {
  return (path + "/" + nodePath(node, index)).str();
}

void rename(std::string *name, const Names &names) {
  if (auto found = names.find(*name); found != names.end()) {
    *name = found->second;
  }
}

void renameInputs(onnx::NodeProto &node, const Names &names);

// Renames what a subgraph takes from outside. What it defines itself hides what is outside.
void renameCaptured(onnx::GraphProto &graph, Names names) {
  for (const onnx::ValueInfoProto &input : graph.input()) {
    names.erase(input.name());
  }
  for (const onnx::TensorProto &initializer : graph.initializer()) {
    names.erase(initializer.name());
  }
  for (const onnx::NodeProto &node : graph.node()) {
    for (const std::string &output : node.output()) {
      names.erase(output);
    }
  }
  for (onnx::NodeProto &node : *graph.mutable_node()) {
    renameInputs(node, names);
  }
  for (onnx::ValueInfoProto &output : *graph.mutable_output()) {
    rename(output.mutable_name(), names);
  }
}

void renameInputs(onnx::NodeProto &node, const Names &names) {
  for (std::string &input : *node.mutable_input()) {
    rename(&input, names);
  }
  for (onnx::AttributeProto &attribute : *node.mutable_attribute()) {
    if (attribute.has_g()) {
      renameCaptured(*attribute.mutable_g(), names);
    }
    for (onnx::GraphProto &graph : *attribute.mutable_graphs()) {
      renameCaptured(graph, names);
    }
  }
}

// Copies nodes; `names` gets the values that they define.
std::vector<onnx::NodeProto> copyNodes(const RepeatedPtrField<onnx::NodeProto> &nodes, llvm::StringRef prefix, llvm::StringRef path,
                                       Names &names) {
  for (const onnx::NodeProto &node : nodes) {
    for (const std::string &output : node.output()) {
      if (!output.empty() && !names.try_emplace(output, (prefix + "/" + output).str()).second) {
        throw ImportError("\"" + output + "\" is defined twice in the body of \"" + path + "\"");
      }
    }
  }
  std::vector<onnx::NodeProto> copies(nodes.begin(), nodes.end());
  for (size_t i = 0; i < copies.size(); ++i) {
    copies[i].set_name(pathBelow(path, copies[i], static_cast<int>(i)));
    renameInputs(copies[i], names);
    for (std::string &output : *copies[i].mutable_output()) {
      rename(&output, names);
    }
  }
  return copies;
}

using Attributes = llvm::StringMap<const onnx::AttributeProto *>;

// Puts the attributes of a call in the place of those that refer to them; one that the call does not have is left out.
void bindAttributes(RepeatedPtrField<onnx::AttributeProto> &attributes, const Attributes &given);

void bindAttributes(onnx::GraphProto &graph, const Attributes &given) {
  for (onnx::NodeProto &node : *graph.mutable_node()) {
    bindAttributes(*node.mutable_attribute(), given);
  }
}

void bindAttributes(RepeatedPtrField<onnx::AttributeProto> &attributes, const Attributes &given) {
  for (int i = attributes.size() - 1; i >= 0; --i) {
    onnx::AttributeProto &attribute = attributes[i];
    if (attribute.ref_attr_name().empty()) {
      if (attribute.has_g()) {
        bindAttributes(*attribute.mutable_g(), given);
      }
      for (onnx::GraphProto &graph : *attribute.mutable_graphs()) {
        bindAttributes(graph, given);
      }
    } else if (const onnx::AttributeProto *value = given.lookup(attribute.ref_attr_name())) {
      std::string name = attribute.name();
      attribute = *value;
      attribute.set_name(name);
    } else {
      attributes.DeleteSubrange(i, 1);
    }
  }
}

class FunctionInliner {
public:
  explicit FunctionInliner(onnx::ModelProto &model) {
    for (const onnx::FunctionProto &function : model.functions()) {
      functions[keyOf(function.domain(), function.name(), overloadOf(function, kOverloadField))] = &function;
    }
  }

  void inlineInto(RepeatedPtrField<onnx::NodeProto> &nodes) {
    RepeatedPtrField<onnx::NodeProto> result;
    for (int i = 0; i < nodes.size(); ++i) {
      add(std::move(nodes[i]), i, result);
    }
    nodes.Swap(&result);
  }

private:
  static std::string keyOf(llvm::StringRef domain, llvm::StringRef name, llvm::StringRef overload) {
    return ((domain == "ai.onnx" ? "" : domain) + ":" + name + ":" + overload).str();
  }

  // Returns which of the functions of one name a function is, or a node calls; "" where there is but one.
  static std::string overloadOf(const google::protobuf::Message &message, int number) {
    const google::protobuf::UnknownFieldSet &fields = message.GetReflection()->GetUnknownFields(message);
    for (int i = 0; i < fields.field_count(); ++i) {
      if (fields.field(i).number() == number && fields.field(i).type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED) {
        return fields.field(i).length_delimited();
      }
    }
    return "";
  }

  void add(onnx::NodeProto node, int index, RepeatedPtrField<onnx::NodeProto> &result) {
    for (onnx::AttributeProto &attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) {
        inlineInto(*attribute.mutable_g()->mutable_node());
      }
    }
    const onnx::FunctionProto *function = functions.lookup(keyOf(node.domain(), node.op_type(), overloadOf(node, kNodeOverloadField)));
    if (!function) {
      if (++count > kMostNodes) {
        throw ImportError("has more than " + llvm::Twine(kMostNodes) + " nodes when its functions stand in their places");
      }
      *result.Add() = std::move(node);
      return;
    }
    std::string path = nodePath(node, index);
    for (const onnx::FunctionProto *caller : callers) {
      if (caller == function) {
        throw ImportError("node \"" + path + "\" calls the function \"" + function->name() + "\" from within itself");
      }
    }
    callers.push_back(function);
    std::vector<onnx::NodeProto> body = open(*function, node, path);
    for (size_t i = 0; i < body.size(); ++i) {
      add(std::move(body[i]), static_cast<int>(i), result);
    }
    callers.pop_back();
  }

  // Returns the nodes of a function for one call.
  std::vector<onnx::NodeProto> open(const onnx::FunctionProto &function, const onnx::NodeProto &call, const std::string &path) {
    if (call.input_size() > function.input_size() || call.output_size() > function.output_size()) {
      throw ImportError("node \"" + path + "\" has " + llvm::Twine(call.input_size()) + " inputs and " + llvm::Twine(call.output_size()) +
                        " outputs but function \"" + function.name() + "\" has " + llvm::Twine(function.input_size()) + " and " +
                        llvm::Twine(function.output_size()));
    }
    Names names;
    for (int i = 0; i < function.input_size(); ++i) {
      names[function.input(i)] = i < call.input_size() ? call.input(i) : "";
    }
    std::string prefix = path;
    for (const std::string &output : call.output()) {
      prefix = output.empty() ? prefix : output; // which no other call has
    }
    std::vector<onnx::NodeProto> body = copyNodes(function.node(), prefix, path, names);
    std::vector<onnx::AttributeProto> defaults = defaultsOf(function);
    Attributes given;
    for (const onnx::AttributeProto &attribute : defaults) {
      given[attribute.name()] = &attribute;
    }
    for (const onnx::AttributeProto &attribute : call.attribute()) {
      given[attribute.name()] = &attribute;
    }
    for (onnx::NodeProto &node : body) {
      bindAttributes(*node.mutable_attribute(), given);
    }
    for (int i = 0; i < call.output_size(); ++i) {
      if (!call.output(i).empty()) {
        auto inner = names.find(function.output(i));
        body.push_back(makeNode("Identity", {inner == names.end() ? function.output(i) : inner->second}, {call.output(i)}, path));
      }
    }
    return body;
  }

  static std::vector<onnx::AttributeProto> defaultsOf(const onnx::FunctionProto &function) {
    std::vector<onnx::AttributeProto> defaults;
    for (int i = 0; i < function.unknown_fields().field_count(); ++i) {
      const google::protobuf::UnknownField &field = function.unknown_fields().field(i);
      if (field.number() == kDefaultsField && field.type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED &&
          !defaults.emplace_back().ParseFromString(field.length_delimited())) {
        throw ImportError("function \"" + function.name() + "\" has a default that is no attribute");
      }
    }
    return defaults;
  }

  llvm::StringMap<const onnx::FunctionProto *> functions;
  std::vector<const onnx::FunctionProto *> callers;
  int count = 0;
};

} // namespace

onnx::NodeProto makeNode(llvm::StringRef opType, std::vector<std::string> inputs, std::vector<std::string> outputs, llvm::StringRef path) {
  onnx::NodeProto node;
  node.set_op_type(opType.str());
  node.set_name(path.str());
  for (std::string &input : inputs) {
    node.add_input(std::move(input));
  }
  for (std::string &output : outputs) {
    node.add_output(std::move(output));
  }
  return node;
}

void setInt(onnx::NodeProto &node, llvm::StringRef name, int64_t value) {
  onnx::AttributeProto *attribute = node.add_attribute();
  attribute->set_name(name.str());
  attribute->set_type(onnx::AttributeProto::INT);
  attribute->set_i(value);
}

void setInts(onnx::NodeProto &node, llvm::StringRef name, const std::vector<int64_t> &values) {
  onnx::AttributeProto *attribute = node.add_attribute();
  attribute->set_name(name.str());
  attribute->set_type(onnx::AttributeProto::INTS);
  for (int64_t value : values) {
    attribute->add_ints(value);
  }
}

onnx::NodeProto makeInt(const std::string &output, int64_t value, llvm::StringRef path) {
  onnx::NodeProto node = makeNode("Constant", {}, {output}, path);
  setInt(node, "value_int", value);
  return node;
}

onnx::NodeProto makeInts(const std::string &output, const std::vector<int64_t> &values, llvm::StringRef path) {
  onnx::NodeProto node = makeNode("Constant", {}, {output}, path);
  setInts(node, "value_ints", values);
  return node;
}

void setList(onnx::NodeProto &node, int64_t opset, llvm::StringRef attribute, const std::vector<int64_t> &values,
             const std::string &constant) {
  if (opset < 13) {
    return setInts(node, attribute, values);
  }
  node.add_input(constant);
}

std::vector<onnx::NodeProto> openGraph(const onnx::GraphProto &graph, llvm::StringRef prefix, llvm::StringRef path, Names &names) {
  std::vector<onnx::NodeProto> nodes;
  for (const onnx::TensorProto &initializer : graph.initializer()) {
    std::string name = (prefix + "/" + initializer.name()).str();
    names[initializer.name()] = name;
    onnx::NodeProto &node = nodes.emplace_back(makeNode("Constant", {}, {name}, path));
    onnx::AttributeProto *attribute = node.add_attribute();
    attribute->set_name("value");
    attribute->set_type(onnx::AttributeProto::TENSOR);
    *attribute->mutable_t() = initializer;
  }
  std::vector<onnx::NodeProto> copies = copyNodes(graph.node(), prefix, path, names);
  nodes.insert(nodes.end(), std::make_move_iterator(copies.begin()), std::make_move_iterator(copies.end()));
  for (const onnx::ValueInfoProto &output : graph.output()) {
    names.try_emplace(output.name(), output.name()); // one of the graph around it
  }
  return nodes;
}

std::vector<std::string> outerNames(const onnx::GraphProto &graph) {
  llvm::StringSet<> known;
  for (const onnx::ValueInfoProto &input : graph.input()) {
    known.insert(input.name());
  }
  for (const onnx::TensorProto &initializer : graph.initializer()) {
    known.insert(initializer.name());
  }
  for (const onnx::NodeProto &node : graph.node()) {
    for (const std::string &output : node.output()) {
      known.insert(output);
    }
  }
  std::vector<std::string> names;
  auto read = [&](const std::string &name) {
    if (!name.empty() && known.insert(name).second) {
      names.push_back(name);
    }
  };
  for (const onnx::NodeProto &node : graph.node()) {
    llvm::for_each(node.input(), read);
    for (const onnx::AttributeProto &attribute : node.attribute()) {
      if (attribute.has_g()) {
        llvm::for_each(outerNames(attribute.g()), read);
      }
    }
  }
  for (const onnx::ValueInfoProto &output : graph.output()) {
    read(output.name());
  }
  return names;
}

bool learnsStatistics(const onnx::NodeProto &node) {
  return node.op_type() == "BatchNormalization" || llvm::any_of(node.attribute(), [](const onnx::AttributeProto &attribute) {
           return attribute.has_g() && llvm::any_of(attribute.g().node(), learnsStatistics);
         });
}

void inlineFunctions(onnx::ModelProto &model) {
  if (model.functions_size() > 0) {
    FunctionInliner(model).inlineInto(*model.mutable_graph()->mutable_node());
  }
}

} // namespace ashlar::frontend
