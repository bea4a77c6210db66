// SPDX-License-Identifier: Apache-2.0
//
// Walks the fields of the file, so that weights are neither parsed nor copied. Fields of a message may stand in any order, and the numbers
// of a tensor come last in it.

#include "compiler/frontend/weights/export_template.h"

#include "compiler/file/input_file.h"
#include "compiler/frontend/onnx_proto.h"
#include "compiler/frontend/weights/constant_parameters.h"
#include "compiler/frontend/weights/model_edits.h"

#include "dialects/nn/nn.h"
#include "dialects/support/element_type.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Path.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

using namespace mlir;

namespace ashlar::frontend {

namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// Text with holes in it.
struct Piece {
  std::string text;
  std::vector<ExportHole> holes;
  uint64_t holeBytes = 0; // that stand in the text, not in a file of data

  uint64_t bytes() const { return text.size() + holeBytes; }

  void append(Piece other) {
    for (ExportHole &hole : other.holes) {
      hole.offset += text.size();
      holes.push_back(std::move(hole));
    }
    text += other.text;
    holeBytes += other.holeBytes;
  }
};

struct Field {
  uint32_t number = 0;
  StringRef whole;    // with its tag
  StringRef payload;  // of a field of bytes
  uint64_t value = 0; // of a number
};

// Calls use(field) for each field. Returns whether all of them were there; readModelFile() has seen to that.
template <typename Use> bool forEachField(StringRef bytes, Use use) {
  CodedInputStream stream(reinterpret_cast<const uint8_t *>(bytes.data()), static_cast<int>(bytes.size()));
  while (stream.CurrentPosition() < static_cast<int>(bytes.size())) {
    const size_t begin = static_cast<size_t>(stream.CurrentPosition());
    const uint32_t tag = stream.ReadTag();
    Field field;
    field.number = tag >> 3;
    switch (tag & 7) {
    case WireFormatLite::WIRETYPE_LENGTH_DELIMITED: {
      uint32_t length = 0;
      if (!stream.ReadVarint32(&length)) {
        return false;
      }
      field.payload = bytes.substr(static_cast<size_t>(stream.CurrentPosition()), length);
      if (!stream.Skip(static_cast<int>(length))) {
        return false;
      }
      break;
    }
    case WireFormatLite::WIRETYPE_VARINT:
      if (!stream.ReadVarint64(&field.value)) {
        return false;
      }
      break;
    default:
      if (tag == 0 || !WireFormatLite::SkipField(&stream, tag)) {
        return false;
      }
    }
    field.whole = bytes.slice(begin, static_cast<size_t>(stream.CurrentPosition()));
    use(field);
  }
  return true;
}

std::string varint(uint64_t value) {
  std::string text;
  for (; value >= 0x80; value >>= 7) {
    text.push_back(static_cast<char>(value | 0x80));
  }
  text.push_back(static_cast<char>(value));
  return text;
}

// The beginning of a field of bytes.
std::string beginField(int number, uint64_t bytes) {
  return varint(static_cast<uint64_t>(number) << 3 | WireFormatLite::WIRETYPE_LENGTH_DELIMITED) + varint(bytes);
}

std::string numberField(int number, uint64_t value) {
  return varint(static_cast<uint64_t>(number) << 3 | WireFormatLite::WIRETYPE_VARINT) + varint(value);
}

Piece wrap(int number, Piece content) {
  Piece piece;
  piece.text = beginField(number, content.bytes());
  piece.append(std::move(content));
  return piece;
}

// Returns the float type of a type of ONNX that a parameter may have in a file; null for any other.
Type typeOfFile(int64_t type, MLIRContext *context) {
  switch (type) {
  case onnx::TensorProto::FLOAT:
    return Float32Type::get(context);
  case onnx::TensorProto::DOUBLE:
    return Float64Type::get(context);
  case onnx::TensorProto::FLOAT16:
    return Float16Type::get(context);
  case onnx::TensorProto::BFLOAT16:
    return BFloat16Type::get(context);
  default:
    return Type();
  }
}

int fileTypeOf(Type element) {
  return element.isF64()    ? onnx::TensorProto::DOUBLE
         : element.isF16()  ? onnx::TensorProto::FLOAT16
         : element.isBF16() ? onnx::TensorProto::BFLOAT16
                            : onnx::TensorProto::FLOAT;
}

bool isData(uint32_t number) {
  return llvm::is_contained(
      {onnx::TensorProto::kFloatDataFieldNumber, onnx::TensorProto::kInt32DataFieldNumber, onnx::TensorProto::kStringDataFieldNumber,
       onnx::TensorProto::kInt64DataFieldNumber, onnx::TensorProto::kRawDataFieldNumber, onnx::TensorProto::kDoubleDataFieldNumber,
       onnx::TensorProto::kUint64DataFieldNumber, onnx::TensorProto::kExternalDataFieldNumber, onnx::TensorProto::kDataLocationFieldNumber},
      static_cast<int>(number));
}

class TemplateMaker {
public:
  TemplateMaker(StringRef path, ModuleOp imported, StringRef dataFile) : path(path), dataFile(dataFile), edits(ModelEdits::of(imported)) {
    dropped.insert(edits.dropped.begin(), edits.dropped.end());
    for (const ModelEdits::Input &each : edits.inputs) {
      inputs[each.node].push_back(&each);
    }
    for (auto variable : imported.getOps<nn::VariableOp>()) {
      if (!variable.getInternal()) {
        variables[variable.getSymName()] = variable.getTensorType();
      }
    }
    if (auto tied = imported->getAttrOfType<DictionaryAttr>(kTiedAttr)) {
      for (NamedAttribute each : tied) {
        auto entry = cast<ArrayAttr>(each.getValue());
        ties[each.getName().getValue()] = {cast<StringAttr>(entry[0]).str(), cast<BoolAttr>(entry[1]).getValue()};
      }
    }
  }

  llvm::Expected<ExportTemplate> make() {
    llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> file = file::mapFile(path);
    if (!file) {
      return llvm::createStringError(path + ": " + llvm::toString(file.takeError()));
    }
    Piece model;
    bool whole = forEachField((*file)->getBuffer(), [&](const Field &field) {
      if (field.number == onnx::ModelProto::kGraphFieldNumber) {
        model.append(wrap(onnx::ModelProto::kGraphFieldNumber, graph(field.payload)));
      } else {
        model.text += field.whole;
      }
    });
    if (!whole) {
      return llvm::createStringError(path + ": cannot be read as fields of protobuf");
    }
    total = model.bytes();
    return ExportTemplate{std::move(model.text), std::move(model.holes), dataFile.str(), refusal};
  }

  // Bytes of the model that comes out, without those of a file beside it.
  uint64_t bytes() const { return total; }

private:
  Piece graph(StringRef content) {
    Piece piece;
    llvm::StringMap<RankedTensorType> missing = variables;
    forEachField(content, [&](const Field &field) {
      if (field.number == onnx::GraphProto::kInitializerFieldNumber) {
        piece.append(wrap(onnx::GraphProto::kInitializerFieldNumber, initializer(field.payload, missing)));
      } else if (field.number == onnx::GraphProto::kNodeFieldNumber && !edits.isEmpty()) {
        piece.text += node(field);
      } else {
        piece.text += field.whole;
      }
    });
    for (const ModelEdits::Added &each : edits.added) {
      piece.append(wrap(onnx::GraphProto::kInitializerFieldNumber, initializer(renamed(each, content), missing)));
    }
    // A parameter that the model has as an input without data, and the job gave first values.
    std::vector<std::string> names;
    for (const auto &each : missing) {
      names.push_back(each.first().str());
    }
    llvm::sort(names);
    for (const std::string &name : names) {
      RankedTensorType type = missing[name];
      Piece tensor;
      for (int64_t size : type.getShape()) {
        tensor.text += numberField(onnx::TensorProto::kDimsFieldNumber, static_cast<uint64_t>(size));
      }
      const int fileType = fileTypeOf(type.getElementType());
      tensor.text += numberField(onnx::TensorProto::kDataTypeFieldNumber, static_cast<uint64_t>(fileType));
      tensor.text += beginField(onnx::TensorProto::kNameFieldNumber, name.size()) + name;
      addHole(tensor, name, type.getElementType(), static_cast<uint64_t>(type.getNumElements()), /*isTransposed=*/false);
      piece.append(wrap(onnx::GraphProto::kInitializerFieldNumber, std::move(tensor)));
    }
    return piece;
  }

  // Returns the field of a node as the import changed it: "" of one that it dropped.
  std::string node(const Field &field) {
    onnx::NodeProto proto;
    if (!proto.ParseFromArray(field.payload.data(), static_cast<int>(field.payload.size())) || proto.output_size() == 0) {
      return field.whole.str();
    }
    if (dropped.contains(proto.output(0))) {
      if (std::optional<onnx::TensorProto> constant = readConstantFloats(proto)) {
        constants[proto.output(0)] = constant->SerializeAsString();
      }
      return "";
    }
    auto found = inputs.find(proto.output(0));
    if (found == inputs.end()) {
      return field.whole.str();
    }
    for (const ModelEdits::Input *each : found->second) {
      proto.set_input(static_cast<int>(each->index), each->name);
    }
    const std::string text = proto.SerializeAsString();
    return beginField(onnx::GraphProto::kNodeFieldNumber, text.size()) + text;
  }

  // Returns the tensor that an added initializer begins with, under its name.
  std::string renamed(const ModelEdits::Added &added, StringRef graphContent) {
    std::string original = constants.lookup(added.from);
    forEachField(graphContent, [&](const Field &field) {
      if (field.number == onnx::GraphProto::kInitializerFieldNumber && nameOf(field.payload) == added.from) {
        original = field.payload.str();
      }
    });
    if (original.empty()) {
      refusal = "parameter " + added.name + " is a constant of a function, which --export does not write";
    }
    std::string text;
    forEachField(original,
                 [&](const Field &field) { text += field.number == onnx::TensorProto::kNameFieldNumber ? StringRef() : field.whole; });
    return text + beginField(onnx::TensorProto::kNameFieldNumber, added.name.size()) + added.name;
  }

  static std::string nameOf(StringRef tensor) {
    std::string name;
    forEachField(tensor, [&](const Field &field) {
      if (field.number == onnx::TensorProto::kNameFieldNumber) {
        name = field.payload.str();
      }
    });
    return name;
  }

  void addHole(Piece &tensor, StringRef variable, Type element, uint64_t elements, bool isTransposed) {
    const uint64_t bytes = elements * element.getIntOrFloatBitWidth() / 8;
    if (dataFile.empty()) {
      tensor.text += beginField(onnx::TensorProto::kRawDataFieldNumber, bytes);
      tensor.holeBytes += bytes;
    } else {
      const std::pair<std::string, std::string> entries[] = {
          {"location", dataFile.str()}, {"offset", std::to_string(dataBytes)}, {"length", std::to_string(bytes)}};
      for (const auto &[key, value] : entries) {
        const std::string text = beginField(onnx::StringStringEntryProto::kKeyFieldNumber, key.size()) + key +
                                 beginField(onnx::StringStringEntryProto::kValueFieldNumber, value.size()) + value;
        tensor.text += beginField(onnx::TensorProto::kExternalDataFieldNumber, text.size()) + text;
      }
      tensor.text += numberField(onnx::TensorProto::kDataLocationFieldNumber, onnx::TensorProto::EXTERNAL);
      dataBytes += bytes;
    }
    tensor.holes.push_back({tensor.text.size(), variable.str(), element, bytes, isTransposed});
  }

  Piece initializer(StringRef content, llvm::StringMap<RankedTensorType> &missing) {
    std::string name, kept; // all but the data
    int64_t type = 0;
    uint64_t elements = 1;
    llvm::StringMap<std::string> external;
    forEachField(content, [&](const Field &field) {
      kept += isData(field.number) ? StringRef() : field.whole;
      switch (field.number) {
      case onnx::TensorProto::kNameFieldNumber:
        name = field.payload.str();
        break;
      case onnx::TensorProto::kDataTypeFieldNumber:
        type = static_cast<int64_t>(field.value);
        break;
      case onnx::TensorProto::kDimsFieldNumber:
        forEachDim(field, [&](uint64_t size) { elements *= size; });
        break;
      case onnx::TensorProto::kExternalDataFieldNumber: {
        onnx::StringStringEntryProto entry;
        if (entry.ParseFromArray(field.payload.data(), static_cast<int>(field.payload.size()))) {
          external[entry.key()] = entry.value();
        }
        break;
      }
      default:
        break;
      }
    });
    auto tie = ties.find(name);
    const std::string variable = tie == ties.end() ? name : tie->second.first;
    missing.erase(name);
    Piece tensor;
    if (!variables.contains(variable)) {
      tensor.text = external.empty() ? content.str() : kept + readExternal(name, external);
      return tensor;
    }
    Type element = typeOfFile(type, variables[variable].getContext());
    if (!element) {
      refusal = "parameter " + name + " has a type of ONNX that --export does not write";
      return tensor;
    }
    tensor.text = std::move(kept);
    addHole(tensor, variable, element, elements, tie != ties.end() && tie->second.second);
    return tensor;
  }

  // Sizes stand each for itself or all in one field.
  template <typename Use> static void forEachDim(const Field &field, Use use) {
    if (field.payload.data() == nullptr) {
      use(field.value);
      return;
    }
    CodedInputStream stream(reinterpret_cast<const uint8_t *>(field.payload.data()), static_cast<int>(field.payload.size()));
    for (uint64_t size = 0; stream.CurrentPosition() < static_cast<int>(field.payload.size()) && stream.ReadVarint64(&size);) {
      use(size);
    }
  }

  // Returns the data of a constant that lies in another file, as a field of the tensor.
  std::string readExternal(StringRef name, const llvm::StringMap<std::string> &external) {
    SmallString<256> place(llvm::sys::path::parent_path(path));
    llvm::sys::path::append(place, external.lookup("location"));
    uint64_t offset = 0, length = 0;
    StringRef(external.lookup("offset")).getAsInteger(10, offset);
    llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> file = file::mapFile(place);
    if (file && StringRef(external.lookup("length")).getAsInteger(10, length)) {
      length = (*file)->getBufferSize() - std::min<uint64_t>(offset, (*file)->getBufferSize());
    }
    if (!file || offset > (*file)->getBufferSize() || length > (*file)->getBufferSize() - offset) {
      llvm::consumeError(file.takeError());
      refusal = ("the data of " + name + " in " + place + " cannot be read again").str();
      return "";
    }
    return beginField(onnx::TensorProto::kRawDataFieldNumber, length) + (*file)->getBuffer().substr(offset, length).str();
  }

  StringRef path, dataFile;
  llvm::StringMap<RankedTensorType> variables;
  llvm::StringMap<std::pair<std::string, bool>> ties;
  ModelEdits edits;
  llvm::StringSet<> dropped;
  llvm::StringMap<std::vector<const ModelEdits::Input *>> inputs; // by node
  llvm::StringMap<std::string> constants;                         // tensors of dropped Constant nodes, by name
  uint64_t dataBytes = 0, total = 0;
  std::string refusal;
};

} // namespace

llvm::Expected<ExportTemplate> makeExportTemplate(StringRef path, ModuleOp imported, StringRef name, uint64_t mostBytes) {
  TemplateMaker inside(path, imported, "");
  llvm::Expected<ExportTemplate> result = inside.make();
  if (!result || inside.bytes() <= mostBytes) {
    return result;
  }
  const std::string dataFile = (name + ".data").str();
  return TemplateMaker(path, imported, dataFile).make();
}

} // namespace ashlar::frontend
