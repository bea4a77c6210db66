// SPDX-License-Identifier: Apache-2.0
//
// Walks the fields of an ONNX model as far as its initializers, without parsing or copying them. Numbers are taken where they lie in the
// file as an array: in raw_data, float_data and double_data, or in a file of external data.

#include "runtime/base/dtype.h"
#include "runtime/checkpoint/weights.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>

namespace ashlar::rt {

namespace {

namespace fs = std::filesystem;

// Numbers of fields, and of types, in onnx.proto.
enum ModelField : uint32_t { kGraph = 7 };
enum GraphField : uint32_t { kInitializer = 5 };
enum TensorField : uint32_t {
  kDims = 1,
  kDataType = 2,
  kSegment = 3,
  kFloatData = 4,
  kInt32Data = 5,
  kInt64Data = 7,
  kName = 8,
  kRawData = 9,
  kDoubleData = 10,
  kUint64Data = 11,
  kExternalData = 13,
  kDataLocation = 14
};
enum EntryField : uint32_t { kKey = 1, kValue = 2 };
enum WireType : uint32_t { kVarint = 0, kEightBytes = 1, kBytes = 2, kFourBytes = 5 };

constexpr uint32_t kTypes[] = {0,
                               ASHLAR_RT_F32,
                               ASHLAR_RT_U8,
                               ASHLAR_RT_I8,
                               ASHLAR_RT_U16,
                               ASHLAR_RT_I16,
                               ASHLAR_RT_I32,
                               ASHLAR_RT_I64,
                               0,
                               ASHLAR_RT_BOOL,
                               ASHLAR_RT_F16,
                               ASHLAR_RT_F64,
                               ASHLAR_RT_U32,
                               ASHLAR_RT_U64,
                               0,
                               0,
                               ASHLAR_RT_BF16};

struct Field {
  uint32_t number = 0, wire = 0;
  uint64_t value = 0;       // of a number
  std::string_view payload; // of bytes
};

// The fields of a message, one after the other.
class Fields {
public:
  explicit Fields(std::string_view message) : rest(message) {}

  // Reads the next field. Returns false at the end, and where there is none that can be read.
  bool next(Field &field) {
    uint64_t tag = 0, length = 0;
    if (rest.empty() || !(good = readVarint(tag))) {
      return false;
    }
    field = Field();
    field.number = static_cast<uint32_t>(tag >> 3);
    field.wire = static_cast<uint32_t>(tag & 7);
    good = field.number != 0 && tag >> 32 == 0;
    switch (field.wire) {
    case kVarint:
      good = good && readVarint(field.value);
      return good;
    case kBytes:
      good = good && readVarint(length);
      break;
    case kEightBytes:
    case kFourBytes:
      length = field.wire == kEightBytes ? 8 : 4;
      break;
    default:
      good = false;
    }
    good = good && length <= rest.size();
    field.payload = rest.substr(0, good ? length : 0);
    rest.remove_prefix(field.payload.size());
    return good;
  }

  // Whether all that was read could be.
  bool areGood() const { return good; }

  // Reads a number, which ends with a byte below 128. Returns false where there is none.
  bool readVarint(uint64_t &value) {
    value = 0;
    for (unsigned shift = 0; shift < 70 && !rest.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(rest[0]);
      rest.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) {
        return true;
      }
    }
    return false;
  }

  bool isAtEnd() const { return rest.empty(); }

private:
  std::string_view rest;
  bool good = true;
};

// An initializer as its fields say.
struct Initializer {
  CheckpointTensor tensor;
  uint64_t type = 0;
  std::string_view data;   // where numbers are one array in the model
  std::string elsewhere;   // the field that they are in when they are not; "": none
  bool isExternal = false; // data_location
  std::map<std::string, std::string> external;
};

class Lister {
public:
  Lister(std::string_view model, const std::string &path, CheckpointIndex &index) : model(model), path(path), index(index) {
    index.files.push_back({path.substr(path.rfind('/') + 1), model.size()});
  }

  Status list() {
    bool hasGraph = false;
    Fields fields(model);
    for (Field field; fields.next(field);) {
      if (field.number == kGraph && field.wire == kBytes) {
        hasGraph = true;
        ASHLAR_RETURN_IF_ERROR(listGraph(field.payload));
      }
    }
    return fields.areGood() && hasGraph ? Status() : noModel();
  }

private:
  Status noModel() const { return invalid("{} is no ONNX model, or was cut: it cannot be read as fields of protobuf", path); }

  Status listGraph(std::string_view graph) {
    Fields fields(graph);
    for (Field field; fields.next(field);) {
      if (field.number == kInitializer && field.wire == kBytes) {
        Initializer initializer;
        if (!read(field.payload, initializer)) {
          return noModel();
        }
        ASHLAR_RETURN_IF_ERROR(place(initializer));
        index.tensors.push_back(std::move(initializer.tensor));
      }
    }
    return fields.areGood() ? Status() : noModel();
  }

  // Returns false where the tensor is none.
  static bool read(std::string_view message, Initializer &initializer) {
    Fields fields(message);
    for (Field field; fields.next(field);) {
      switch (field.number) {
      case kDims:
        if (!readDims(field, initializer.tensor.shape)) {
          return false;
        }
        break;
      case kDataType:
        initializer.type = field.value;
        break;
      case kName:
        initializer.tensor.name = std::string(field.payload);
        break;
      case kFloatData:
      case kDoubleData:
      case kRawData:
        // Several arrays, or numbers that each are a field, do not lie side by side.
        if (field.wire != kBytes || initializer.data.data() != nullptr) {
          initializer.elsewhere = "several parts";
        }
        initializer.data = field.payload;
        break;
      case kSegment:
        initializer.elsewhere = "segments";
        break;
      case kInt32Data:
        initializer.elsewhere = "int32_data";
        break;
      case kInt64Data:
        initializer.elsewhere = "int64_data";
        break;
      case kUint64Data:
        initializer.elsewhere = "uint64_data";
        break;
      case kExternalData:
        readEntry(field.payload, initializer.external);
        break;
      case kDataLocation:
        initializer.isExternal = field.value == 1;
        break;
      default:
        break;
      }
    }
    return fields.areGood();
  }

  // Sizes are one field each, or all in one.
  static bool readDims(const Field &field, std::vector<int64_t> &shape) {
    if (field.wire == kVarint) {
      shape.push_back(static_cast<int64_t>(field.value));
      return true;
    }
    Fields numbers(field.payload);
    for (uint64_t size = 0; !numbers.isAtEnd(); shape.push_back(static_cast<int64_t>(size))) {
      if (!numbers.readVarint(size)) {
        return false;
      }
    }
    return true;
  }

  static void readEntry(std::string_view message, std::map<std::string, std::string> &external) {
    std::string key, value;
    Fields fields(message);
    for (Field field; fields.next(field);) {
      (field.number == kKey ? key : value) = std::string(field.payload);
    }
    external[key] = value;
  }

  // Says where the numbers are, or why they cannot be taken.
  Status place(Initializer &initializer) {
    CheckpointTensor &tensor = initializer.tensor;
    tensor.dtype = initializer.type < std::size(kTypes) ? kTypes[initializer.type] : 0;
    uint64_t bytes = dtypeBytes(tensor.dtype);
    for (int64_t size : tensor.shape) {
      if (size < 0 || __builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes)) {
        return invalid("{}: initializer {} has a size of {}, or too many elements to count", path, tensor.name, size);
      }
    }
    if (tensor.dtype == 0) {
      tensor.unreadable = fmt::format("it has ONNX's element type {}, which Ashlar does not have", initializer.type);
    } else if (!initializer.elsewhere.empty()) {
      tensor.unreadable = fmt::format("its numbers are in {}; save the model with them in raw_data", initializer.elsewhere);
    } else if (initializer.isExternal) {
      return placeExternal(initializer, bytes);
    } else if (initializer.data.size() != bytes) {
      return invalid("{}: initializer {} has {} bytes but its shape and type need {}", path, tensor.name, initializer.data.size(), bytes);
    } else if (bytes != 0) {
      tensor.pieces.push_back(wholePiece(/*file=*/0, static_cast<uint64_t>(initializer.data.data() - model.data()), tensor.shape));
    }
    return Status();
  }

  Status placeExternal(Initializer &initializer, uint64_t bytes) {
    CheckpointTensor &tensor = initializer.tensor;
    const std::string &location = initializer.external["location"];
    uint64_t offset = 0, length = bytes;
    if (!readNumber(initializer.external, "offset", offset) || !readNumber(initializer.external, "length", length) || length != bytes) {
      return invalid("{}: the external data of initializer {} have offset \"{}\" and length \"{}\" but its shape and type need {} bytes",
                     path, tensor.name, initializer.external["offset"], initializer.external["length"], bytes);
    }
    uint32_t file = 0;
    ASHLAR_RETURN_IF_ERROR(findFile(location, tensor.name, file));
    if (offset > index.files[file].bytes || index.files[file].bytes - offset < bytes) {
      return invalid("{}: initializer {} is {} bytes from byte {} of {} on, which has {} bytes; it was cut or belongs to another model",
                     path, tensor.name, bytes, offset, location, index.files[file].bytes);
    }
    if (bytes != 0) {
      tensor.pieces.push_back(wholePiece(file, offset, tensor.shape));
    }
    return Status();
  }

  // Reads a number where there is one. Returns false where there is another text.
  static bool readNumber(const std::map<std::string, std::string> &external, const char *key, uint64_t &number) {
    const auto found = external.find(key);
    if (found == external.end()) {
      return true;
    }
    const std::string &text = found->second;
    const std::from_chars_result result = std::from_chars(text.data(), text.data() + text.size(), number);
    return result.ec == std::errc() && result.ptr == text.data() + text.size();
  }

  // The number of a file of external data, which lies below the model's folder, through links too.
  Status findFile(const std::string &location, const std::string &name, uint32_t &number) {
    if (const auto known = files.find(location); known != files.end()) {
      number = known->second;
      return Status();
    }
    const std::string folder = path.substr(0, path.rfind('/') + 1); // npos + 1 == 0
    std::error_code error;
    const fs::path top = fs::canonical(folder.empty() ? "." : folder, error), place = fs::canonical(folder + location, error);
    const bool isBelow =
        !error && !fs::path(location).is_absolute() && std::mismatch(top.begin(), top.end(), place.begin(), place.end()).first == top.end();
    if (error || location.empty() || !fs::is_regular_file(place, error)) {
      return unavailable("{}: initializer {} lies in {}{}, which is not there", path, name, folder, location);
    }
    if (!isBelow) {
      return invalid("{}: initializer {} lies in \"{}\", which is not below the model's folder; copy the file there", path, name, location);
    }
    number = files[location] = static_cast<uint32_t>(index.files.size());
    index.files.push_back({location, fs::file_size(place, error)});
    return Status();
  }

  std::string_view model;
  const std::string &path;
  CheckpointIndex &index;
  std::map<std::string, uint32_t> files; // of external data, by location
};

} // namespace

Status listInitializers(std::string_view model, const std::string &path, CheckpointIndex &index) {
  return Lister(model, path, index).list();
}

} // namespace ashlar::rt
