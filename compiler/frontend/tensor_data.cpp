// SPDX-License-Identifier: Apache-2.0
//
// Reading tensor data. Sizes are checked against the shape before anything is read; external files are mapped, not read.

#include "compiler/frontend/tensor_data.h"

#include "compiler/file/input_file.h"
#include "compiler/frontend/import_error.h"
#include "dialects/support/element_type.h"
#include "dialects/support/tensor_size.h"

#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"

#include <cstring>

using namespace mlir;

namespace ashlar::frontend {

namespace {

// Data up to this size is written out in the IR, where a reader sees it; above it is a resource.
constexpr size_t kInlineBytes = 256;

std::string describe(RankedTensorType type) {
  std::string text;
  llvm::raw_string_ostream(text) << "[" << llvm::join(llvm::map_range(type.getShape(), [](int64_t d) { return std::to_string(d); }), ", ")
                                 << "] of " << type.getElementType();
  return text;
}

// Copies `values`, converted to T, into bytes.
template <typename T, typename List> std::unique_ptr<std::string> pack(const List &values) {
  auto bytes = std::make_unique<std::string>(values.size() * sizeof(T), '\0');
  for (int i = 0; i < values.size(); ++i) {
    T value = static_cast<T>(values[i]);
    std::memcpy(bytes->data() + i * sizeof(T), &value, sizeof(T));
  }
  return bytes;
}

// Returns the elements of the list of TensorProto that holds a type of elements, which onnx.proto says.
template <typename T> std::unique_ptr<std::string> packTypedList(const onnx::TensorProto &tensor) {
  if constexpr (std::is_same_v<T, float>) {
    return pack<T>(tensor.float_data());
  } else if constexpr (std::is_same_v<T, double>) {
    return pack<T>(tensor.double_data());
  } else if constexpr (std::is_same_v<T, int64_t>) {
    return pack<T>(tensor.int64_data());
  } else if constexpr (std::is_same_v<T, uint32_t> || std::is_same_v<T, uint64_t>) {
    return pack<T>(tensor.uint64_data());
  } else {
    return pack<T>(tensor.int32_data()); // smaller ones, two bytes of a float, bools
  }
}

// An element type of ONNX that nn has.
struct ElementRow {
  onnx::TensorProto::DataType onnxType;
  Type (*get)(MLIRContext *context);
  std::unique_ptr<std::string> (*packList)(const onnx::TensorProto &tensor);
};

template <typename T> Type floatType(MLIRContext *context) {
  return T::get(context);
}
template <unsigned width> Type signedType(MLIRContext *context) {
  return IntegerType::get(context, width);
}
template <unsigned width> Type unsignedType(MLIRContext *context) {
  return IntegerType::get(context, width, IntegerType::Unsigned);
}

constexpr ElementRow kElements[] = {
    {onnx::TensorProto::FLOAT, floatType<Float32Type>, packTypedList<float>},
    {onnx::TensorProto::DOUBLE, floatType<Float64Type>, packTypedList<double>},
    {onnx::TensorProto::FLOAT16, floatType<Float16Type>, packTypedList<uint16_t>},
    {onnx::TensorProto::BFLOAT16, floatType<BFloat16Type>, packTypedList<uint16_t>},
    {onnx::TensorProto::INT8, signedType<8>, packTypedList<int8_t>},
    {onnx::TensorProto::INT16, signedType<16>, packTypedList<int16_t>},
    {onnx::TensorProto::INT32, signedType<32>, packTypedList<int32_t>},
    {onnx::TensorProto::INT64, signedType<64>, packTypedList<int64_t>},
    {onnx::TensorProto::UINT8, unsignedType<8>, packTypedList<uint8_t>},
    {onnx::TensorProto::UINT16, unsignedType<16>, packTypedList<uint16_t>},
    {onnx::TensorProto::UINT32, unsignedType<32>, packTypedList<uint32_t>},
    {onnx::TensorProto::UINT64, unsignedType<64>, packTypedList<uint64_t>},
    {onnx::TensorProto::BOOL, signedType<1>, packTypedList<uint8_t>},
};

const ElementRow *findElement(int32_t onnxType) {
  const auto *found = llvm::find_if(kElements, [&](const ElementRow &row) { return row.onnxType == onnxType; });
  return found == std::end(kElements) ? nullptr : found;
}

// Returns ONNX's name of an element type; the newer ones may be missing in the onnx.proto that we are built with.
std::string elementTypeName(int32_t onnxType) {
  constexpr int32_t kFirst = 17;
  constexpr llvm::StringLiteral kNewer[] = {"FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "UINT4",
                                            "INT4",         "FLOAT4E2M1",     "FLOAT8E8M0", "UINT2",          "INT2"};
  if (onnxType >= kFirst && onnxType < kFirst + static_cast<int32_t>(std::size(kNewer))) {
    return kNewer[onnxType - kFirst].str();
  }
  std::string name = onnx::TensorProto_DataType_Name(static_cast<onnx::TensorProto_DataType>(onnxType));
  return name.empty() ? std::to_string(onnxType) : name;
}

// An element type whose numbers are those of a wider one. An element has `bits`, the first of a byte in its lowest; `decode` returns its
// number in the wider type.
struct StoredRow {
  int32_t onnxType; // onnx.proto of the library that we are built with does not name them
  onnx::TensorProto::DataType wide;
  unsigned bits;
  uint32_t (*decode)(uint8_t bits);
};

template <const llvm::fltSemantics &(*semantics)()> uint32_t decodeFloat(uint8_t bits) {
  llvm::APFloat value(semantics(), llvm::APInt(llvm::APFloat::getSizeInBits(semantics()), bits));
  bool losesInfo = false;
  value.convert(llvm::APFloat::IEEEsingle(), llvm::APFloat::rmNearestTiesToEven, &losesInfo);
  return static_cast<uint32_t>(value.bitcastToAPInt().getZExtValue());
}
template <unsigned width> uint32_t decodeSigned(uint8_t bits) {
  return static_cast<uint32_t>(llvm::SignExtend32<width>(bits));
}
uint32_t decodeUnsigned(uint8_t bits) {
  return bits;
}

constexpr StoredRow kStored[] = {
    {17, onnx::TensorProto::FLOAT, 8, decodeFloat<llvm::APFloat::Float8E4M3FN>},
    {18, onnx::TensorProto::FLOAT, 8, decodeFloat<llvm::APFloat::Float8E4M3FNUZ>},
    {19, onnx::TensorProto::FLOAT, 8, decodeFloat<llvm::APFloat::Float8E5M2>},
    {20, onnx::TensorProto::FLOAT, 8, decodeFloat<llvm::APFloat::Float8E5M2FNUZ>},
    {21, onnx::TensorProto::UINT8, 4, decodeUnsigned},
    {22, onnx::TensorProto::INT8, 4, decodeSigned<4>},
    {23, onnx::TensorProto::FLOAT, 4, decodeFloat<llvm::APFloat::Float4E2M1FN>},
    {24, onnx::TensorProto::FLOAT, 8, decodeFloat<llvm::APFloat::Float8E8M0FNU>},
    {25, onnx::TensorProto::UINT8, 2, decodeUnsigned},
    {26, onnx::TensorProto::INT8, 2, decodeSigned<2>},
};

const StoredRow *findStored(int32_t onnxType) {
  const auto *found = llvm::find_if(kStored, [&](const StoredRow &row) { return row.onnxType == onnxType; });
  return found == std::end(kStored) ? nullptr : found;
}

// Returns the numbers of stored elements in their wider type.
std::unique_ptr<std::string> widen(const StoredRow &row, StringRef packed, int64_t count) {
  const size_t width = row.wide == onnx::TensorProto::FLOAT ? sizeof(float) : 1;
  auto bytes = std::make_unique<std::string>(count * width, '\0');
  const int64_t perByte = 8 / row.bits;
  for (int64_t i = 0; i < count; ++i) {
    const auto shifted = static_cast<uint8_t>(static_cast<uint8_t>(packed[i / perByte]) >> (i % perByte * row.bits));
    const uint32_t number = row.decode(static_cast<uint8_t>(shifted & ((1U << row.bits) - 1)));
    std::memcpy(bytes->data() + i * width, &number, width);
  }
  return bytes;
}

// Where external data lies.
struct ExternalLocation {
  std::string file; // as the model names it
  std::string path; // to open
  uint64_t offset = 0;
  std::optional<uint64_t> length;
};

// Returns the path of a file with all symbolic links followed; throws when they lead out of the directory, or to no regular file.
std::string resolveBelow(StringRef directory, StringRef file, const Twine &what) {
  llvm::Expected<file::ResolvedPath> resolved = file::resolveBelow(directory, file);
  if (!resolved) {
    throw ImportError(what + ": external data file \"" + file + "\" " + llvm::toString(resolved.takeError()));
  }
  if (!resolved->isBelow) {
    throw ImportError(what + ": external data lies in \"" + file + "\", a link to " + resolved->path +
                      ", which is not below the model's folder; copy the file there");
  }
  if (!llvm::sys::fs::is_regular_file(resolved->path)) {
    throw ImportError(what + ": external data lies in \"" + file + "\", which is no regular file");
  }
  return resolved->path;
}

ExternalLocation parseExternal(const onnx::TensorProto &tensor, StringRef directory, const Twine &what) {
  ExternalLocation location;
  for (const onnx::StringStringEntryProto &entry : tensor.external_data()) {
    uint64_t number = 0;
    if (entry.key() == "location") {
      location.file = entry.value();
      continue;
    }
    if (entry.key() != "offset" && entry.key() != "length") {
      continue; // "checksum" is optional to check, and newer keys are hints
    }
    if (StringRef(entry.value()).getAsInteger(10, number)) {
      throw ImportError(what + ": external data has " + entry.key() + " \"" + entry.value() + "\", which is not a number");
    }
    entry.key() == "offset" ? location.offset = number : *(location.length = number);
  }
  if (!file::namesBelow(location.file)) {
    throw ImportError(what + ": external data lies in \"" + location.file + "\", which is not below the model's folder");
  }
  location.path = resolveBelow(directory, location.file, what);
  return location;
}

std::unique_ptr<llvm::MemoryBuffer> mapExternal(const ExternalLocation &location, uint64_t bytes, RankedTensorType type,
                                                const Twine &what) {
  uint64_t size = 0;
  if (std::error_code error = llvm::sys::fs::file_size(location.path, size)) {
    throw ImportError(what + ": external data file \"" + location.file + "\" cannot be read: " + StringRef(error.message()).lower());
  }
  if (location.length && *location.length != bytes) {
    throw ImportError(what + ": external data has length " + Twine(*location.length) + " but shape " + describe(type) + " needs " +
                      Twine(bytes) + " bytes");
  }
  if (location.offset > size || size - location.offset < bytes) {
    throw ImportError(what + ": external data file \"" + location.file + "\" has " + Twine(size) + " bytes but offset " +
                      Twine(location.offset) + " and " + Twine(bytes) + " bytes are needed; the file may be truncated");
  }
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> buffer = file::mapPart(location.path, location.offset, bytes);
  if (!buffer) {
    throw ImportError(what + ": external data file \"" + location.file + "\" " + llvm::toString(buffer.takeError()));
  }
  return std::move(*buffer);
}

} // namespace

Type convertElementType(int32_t onnxType, MLIRContext *context, const Twine &what) {
  if (const ElementRow *row = findElement(onnxType)) {
    return row->get(context);
  }
  auto names = llvm::map_range(kElements, [](const ElementRow &row) { return onnx::TensorProto_DataType_Name(row.onnxType); });
  throw ImportError(what + ": element type " + elementTypeName(onnxType) + " is not supported; the supported ones are " +
                    llvm::join(names, ", "));
}

bool isFloat(int32_t onnxType) {
  return onnxType == onnx::TensorProto::FLOAT || onnxType == onnx::TensorProto::DOUBLE || onnxType == onnx::TensorProto::FLOAT16 ||
         onnxType == onnx::TensorProto::BFLOAT16;
}

bool isStored(int32_t onnxType) {
  return findStored(onnxType) != nullptr;
}

RankedTensorType makeTensorType(ArrayRef<int64_t> shape, Type element, const Twine &what) {
  if (std::string fault = findSizeFault(shape, element); !fault.empty()) {
    throw ImportError(what + ": " + fault);
  }
  return RankedTensorType::get(shape, element);
}

RankedTensorType tensorType(const onnx::TensorProto &tensor, MLIRContext *context, const Twine &what) {
  const StoredRow *stored = findStored(tensor.data_type());
  Type element = convertElementType(stored ? stored->wide : tensor.data_type(), context, what);
  return makeTensorType(SmallVector<int64_t>(tensor.dims().begin(), tensor.dims().end()), element, what);
}

TensorData TensorData::peek(const onnx::TensorProto &tensor, StringRef directory, MLIRContext *context, const Twine &what) {
  TensorData data;
  data.type = tensorType(tensor, context, what);
  if (tensor.has_segment()) {
    throw ImportError(what + ": data in segments is not supported");
  }
  const StoredRow *stored = findStored(tensor.data_type());
  const uint64_t count = data.type.getNumElements();
  const uint64_t expected = stored ? llvm::divideCeil(count * stored->bits, 8) : count * elementBytes(data.type.getElementType());
  if (tensor.data_location() == onnx::TensorProto::EXTERNAL) {
    data.mapped = mapExternal(parseExternal(tensor, directory, what), expected, data.type, what);
    data.bytes = data.mapped->getBuffer();
  } else if (tensor.has_raw_data()) {
    data.bytes = tensor.raw_data();
  } else {
    data.owned = stored ? pack<uint8_t>(tensor.int32_data()) : findElement(tensor.data_type())->packList(tensor);
    data.bytes = *data.owned;
  }
  data.checkLength(expected, what);
  if (stored) {
    data.owned = widen(*stored, data.bytes, static_cast<int64_t>(count));
    data.bytes = *data.owned;
    data.mapped.reset();
  }
  return data;
}

TensorData TensorData::take(onnx::TensorProto &tensor, StringRef directory, MLIRContext *context, const Twine &what) {
  TensorData data = peek(tensor, directory, context, what);
  if (!data.owned && !data.mapped) {
    data.owned.reset(tensor.release_raw_data());
    data.bytes = *data.owned;
  }
  return data;
}

void TensorData::checkLength(uint64_t expected, const Twine &what) const {
  if (bytes.size() != expected) {
    throw ImportError(what + ": has " + Twine(bytes.size()) + " bytes of data but shape " + describe(type) + " needs " + Twine(expected));
  }
}

onnx::TensorProto makeDense(const onnx::SparseTensorProto &sparse, StringRef directory, MLIRContext *context, const Twine &what) {
  constexpr int64_t kMostElements = int64_t{1} << 26; // a model of a few bytes can name any size
  onnx::TensorProto dense;
  const StoredRow *stored = findStored(sparse.values().data_type());
  dense.set_data_type(stored ? stored->wide : sparse.values().data_type());
  *dense.mutable_dims() = sparse.dims();
  RankedTensorType type = tensorType(dense, context, what);
  TensorData values = TensorData::peek(sparse.values(), directory, context, what + ": values");
  TensorData indices = TensorData::peek(sparse.indices(), directory, context, what + ": indices");
  const int64_t count = values.getType().getNumElements(), rank = type.getRank();
  ArrayRef<int64_t> shape = indices.getType().getShape();
  const bool isLinear = shape == ArrayRef<int64_t>{count};
  if (values.getType().getRank() != 1 || !indices.getType().getElementType().isInteger(64) ||
      !(isLinear || shape == ArrayRef<int64_t>{count, rank})) {
    throw ImportError(what + " has values " + describe(values.getType()) + " and indices " + describe(indices.getType()) +
                      "; there has to be an index, or one a dim, of each value");
  }
  if (type.getNumElements() > kMostElements) {
    throw ImportError(what + " has " + Twine(type.getNumElements()) + " elements but at most " + Twine(kMostElements) +
                      " are written out; make it a dense one");
  }
  const int64_t bytes = elementBytes(type.getElementType());
  std::string data(type.getNumElements() * bytes, '\0');
  for (int64_t i = 0; i < count; ++i) {
    int64_t position = 0;
    for (int64_t d = 0; d < (isLinear ? 1 : rank); ++d) {
      int64_t index = 0;
      std::memcpy(&index, indices.getBytes().data() + (i * (isLinear ? 1 : rank) + d) * sizeof(index), sizeof(index));
      const int64_t limit = isLinear ? type.getNumElements() : type.getDimSize(d);
      if (index < 0 || index >= limit) {
        throw ImportError(what + " has index " + Twine(index) + ", which is not in [0, " + Twine(limit) + ")");
      }
      position = position * limit + index;
    }
    std::memcpy(data.data() + position * bytes, values.getBytes().data() + i * bytes, bytes);
  }
  dense.set_raw_data(std::move(data));
  return dense;
}

DenseElementsAttr TensorData::toDense() const {
  if (type.getElementType().isInteger(1)) { // a byte each here, a bit each there
    SmallVector<bool> values(llvm::map_range(bytes, [](char c) { return c != 0; }));
    return DenseElementsAttr::get(type, values);
  }
  return DenseElementsAttr::getFromRawBuffer(type, ArrayRef<char>(bytes.data(), bytes.size()));
}

ElementsAttr TensorData::intoAttribute(StringRef name) && {
  if (bytes.size() <= kInlineBytes || type.getElementType().isInteger(1)) {
    return toDense();
  }
  size_t align = elementBytes(type.getElementType());
  ArrayRef<char> data(bytes.data(), bytes.size());
  if (reinterpret_cast<uintptr_t>(bytes.data()) % align != 0) { // an external file may start a tensor anywhere
    return DenseResourceElementsAttr::get(type, name, HeapAsmResourceBlob::allocateAndCopyWithAlign(data, align, /*dataIsMutable=*/false));
  }
  // The blob's deleter owns the bytes: it lives as long as the context.
  auto keepAlive = [owned = std::shared_ptr<std::string>(std::move(owned)),
                    mapped = std::shared_ptr<llvm::MemoryBuffer>(std::move(mapped))](void *, size_t, size_t) mutable {
    owned.reset();
    mapped.reset();
  };
  return DenseResourceElementsAttr::get(type, name, AsmResourceBlob(data, align, std::move(keepAlive), /*dataIsMutable=*/false));
}

} // namespace ashlar::frontend
