// SPDX-License-Identifier: Apache-2.0
//
// metadata_props of values and nodes are newer than libonnx 1.12, which keeps them as unknown fields.

#include "compiler/frontend/exporter_notes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <google/protobuf/unknown_field_set.h>

using llvm::SmallVector;
using llvm::StringRef;

namespace ashlar::frontend {

namespace {

// The fields of ValueInfoProto and NodeProto, and the keys that torch's exporter writes there.
constexpr int kMetadataOfValue = 4, kMetadataOfNode = 9;
constexpr llvm::StringLiteral kKindKey = "pkg.torch.export.graph_signature.InputSpec.kind";
constexpr llvm::StringLiteral kPlaceholderKey = "pkg.torch.onnx.original_node_name";
constexpr llvm::StringLiteral kFoldedKey = "pkg.onnxscript.optimizer.folded_from";
constexpr llvm::StringLiteral kModulesKey = "pkg.torch.onnx.name_scopes";
constexpr llvm::StringLiteral kTorchNodeKey = "pkg.torch.onnx.fx_node";

template <typename Message, typename Use> void forEachEntry(const Message &message, int number, Use use) {
  for (int i = 0; i < message.unknown_fields().field_count(); ++i) {
    const google::protobuf::UnknownField &field = message.unknown_fields().field(i);
    onnx::StringStringEntryProto entry;
    if (field.number() == number && field.type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED &&
        entry.ParseFromString(field.length_delimited())) {
      use(entry);
    }
  }
}

// Returns the names of a list that Python printed: "['a', 'b']".
std::vector<std::string> parseNames(StringRef text) {
  SmallVector<StringRef> parts;
  text.split(parts, '\'');
  std::vector<std::string> names;
  for (size_t i = 1; i < parts.size(); i += 2) {
    names.push_back(parts[i].str());
  }
  return names;
}

// Returns the parameters (p_), buffers (b_) and constants (c_) among the arguments of a node of the torch program:
// "%mul : [...] = call_function[target=...](args = (%x, %p_scale), kwargs = {})".
std::vector<std::string> parsePlaceholders(StringRef text) {
  std::vector<std::string> names;
  SmallVector<StringRef> parts;
  text.split("args = ").second.split(parts, '%');
  for (StringRef part : llvm::drop_begin(parts)) {
    StringRef name = part.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
    if (name.starts_with("p_") || name.starts_with("b_") || name.starts_with("c_")) {
      names.push_back(name.str());
    }
  }
  return names;
}

bool isNumber(StringRef text) {
  return llvm::all_of(text, llvm::isDigit);
}

} // namespace

ExporterNotes::ExporterNotes(const onnx::GraphProto &graph) {
  for (const onnx::ValueInfoProto &value : graph.value_info()) {
    forEachEntry(value, kMetadataOfValue, [&](const onnx::StringStringEntryProto &entry) {
      if (entry.key() == kKindKey) {
        notes[value.name()].kind = entry.value();
        notesKinds = true;
      } else if (entry.key() == kPlaceholderKey) {
        notes[value.name()].placeholder = entry.value();
      } else if (entry.key() == kFoldedKey) {
        notes[value.name()].foldedFrom = parseNames(entry.value());
      }
    });
  }
}

bool ExporterNotes::isMadeByExporter(StringRef name) const {
  ValueNote note = lookup(name);
  if (!note.kind.empty()) {
    return false;
  }
  if (!note.foldedFrom.empty()) {
    return llvm::none_of(note.foldedFrom, [](StringRef from) { return from.contains('.'); });
  }
  return (notesKinds && !name.contains('.')) || isMadeUpName(name);
}

NodeNote readNote(const onnx::NodeProto &node) {
  NodeNote note;
  forEachEntry(node, kMetadataOfNode, [&](const onnx::StringStringEntryProto &entry) {
    if (entry.key() == kModulesKey) {
      note.modules = parseNames(entry.value());
      if (!note.modules.empty()) {
        note.modules.pop_back(); // the op itself
      }
    } else if (entry.key() == kTorchNodeKey) {
      note.placeholders = parsePlaceholders(entry.value());
    }
  });
  return note;
}

const onnx::AttributeProto *findAttribute(const onnx::NodeProto &node, StringRef name) {
  for (const onnx::AttributeProto &attribute : node.attribute()) {
    if (attribute.name() == name) {
      return &attribute;
    }
  }
  return nullptr;
}

bool isByTorch(const onnx::ModelProto &model) {
  return StringRef(model.producer_name()).contains("torch");
}

bool isMadeUpName(StringRef name) {
  StringRef value = name;
  return name.contains("::") || name.starts_with("/") || name.contains("_tensor_constant") || name.contains("lifted_tensor") ||
         (value.consume_front("val_") && isNumber(value)) || isNumber(name);
}

bool isModulePath(StringRef name) {
  SmallVector<StringRef> parts;
  name.split(parts, '.');
  const bool isPath = parts.size() > 1 && llvm::all_of(parts, [](StringRef part) {
                        return !part.empty() && llvm::all_of(part, [](char c) { return llvm::isAlnum(c) || c == '_' || c == '-'; });
                      });
  return isPath && !llvm::all_of(parts, isNumber) && parts.front() != "p2o" && !parts.back().starts_with("tmp_") &&
         llvm::none_of(parts, [](StringRef part) { return part.starts_with_insensitive("constant") || part == "const"; }) &&
         !isMadeUpName(name);
}

} // namespace ashlar::frontend
