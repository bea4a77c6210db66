// SPDX-License-Identifier: Apache-2.0
//
// Reads and writes .npy files. The header is a Python dictionary in one line: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }.

#include "runtime/data/formats/npy.h"

#include <algorithm>
#include <cstring>

namespace ashlar::rt {

namespace {

constexpr char kMagic[] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};
constexpr size_t kMaxHeaderBytes = 1 << 20;

struct TypeCode {
  const char *code;
  uint32_t element;
};

// What numpy writes on a little-endian machine, and the spellings that mean the same there. Elements of two bytes that NumPy has no name
// for are bf16, the only such type of ml_dtypes.
constexpr TypeCode kTypeCodes[] = {{"<f4", ASHLAR_RT_F32}, {"<f8", ASHLAR_RT_F64},  {"<i4", ASHLAR_RT_I32}, {"<i8", ASHLAR_RT_I64},
                                   {"|u1", ASHLAR_RT_U8},  {"|b1", ASHLAR_RT_BOOL}, {"<u1", ASHLAR_RT_U8},  {"?", ASHLAR_RT_BOOL},
                                   {"<f2", ASHLAR_RT_F16}, {"|i1", ASHLAR_RT_I8},   {"<i1", ASHLAR_RT_I8},  {"<i2", ASHLAR_RT_I16},
                                   {"<u2", ASHLAR_RT_U16}, {"<u4", ASHLAR_RT_U32},  {"<u8", ASHLAR_RT_U64}, {"<V2", ASHLAR_RT_BF16},
                                   {"|V2", ASHLAR_RT_BF16}};

// Reads the few forms that a header's dictionary has. Every function skips blanks first and returns false when the text is something else.
class HeaderText {
public:
  HeaderText(const char *begin, const char *end) : at(begin), end(end) {}

  bool accept(char expected) {
    skipBlanks();
    if (at == end || *at != expected) {
      return false;
    }
    ++at;
    return true;
  }

  bool string(std::string &text) {
    skipBlanks();
    if (at == end || (*at != '\'' && *at != '"')) {
      return false;
    }
    const char quote = *at++;
    text.clear();
    while (at != end && *at != quote) {
      text += *at++;
    }
    return at != end && *at++ == quote;
  }

  bool word(std::string &text) {
    skipBlanks();
    text.clear();
    while (at != end && ((*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z'))) {
      text += *at++;
    }
    return !text.empty();
  }

  // A non-negative integer below 2^60.
  bool integer(int64_t &value) {
    skipBlanks();
    if (at == end || *at < '0' || *at > '9') {
      return false;
    }
    value = 0;
    while (at != end && *at >= '0' && *at <= '9') {
      if (value > (int64_t{1} << 56)) {
        return false;
      }
      value = value * 10 + (*at++ - '0');
    }
    return true;
  }

  // A tuple of integers: (), (3,), (3, 4).
  bool tuple(std::vector<int64_t> &values) {
    values.clear();
    if (!accept('(')) {
      return false;
    }
    while (!accept(')')) {
      int64_t value = 0;
      if (!integer(value)) {
        return false;
      }
      values.push_back(value);
      if (!accept(',')) {
        return accept(')');
      }
    }
    return true;
  }

private:
  void skipBlanks() {
    while (at != end && (*at == ' ' || *at == '\n' || *at == '\t')) {
      ++at;
    }
  }

  const char *at, *end;
};

struct HeaderFields {
  std::string descr, fortranOrder;
  std::vector<int64_t> shape;
};

// Parses the dictionary. Returns false when it is malformed or lacks one of the three keys.
bool parseHeader(HeaderText text, HeaderFields &header) {
  bool hasShape = false;
  if (!text.accept('{')) {
    return false;
  }
  while (!text.accept('}')) {
    std::string key;
    if (!text.string(key) || !text.accept(':')) {
      return false;
    }
    bool good = false;
    if (key == "descr") {
      good = text.string(header.descr);
    } else if (key == "fortran_order") {
      good = text.word(header.fortranOrder);
    } else if (key == "shape") {
      good = hasShape = text.tuple(header.shape);
    }
    if (!good) {
      return false;
    }
    if (!text.accept(',')) {
      if (!text.accept('}')) {
        return false;
      }
      break;
    }
  }
  return hasShape && !header.descr.empty() && !header.fortranOrder.empty();
}

// Returns the text without blanks at its end and with a question mark for each byte that is not printable ASCII.
std::string printable(std::string text) {
  std::replace_if(text.begin(), text.end(), [](char c) { return c != '\n' && (c < ' ' || c > '~'); }, '?');
  text.erase(text.find_last_not_of(" \n") + 1);
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

// Finds the header in the file's bytes and sets `offset` to the first element.
Status readHeader(const std::string &path, const char *bytes, size_t size, HeaderFields &header, size_t &offset) {
  if (size < 10 || std::memcmp(bytes, kMagic, sizeof(kMagic)) != 0) {
    return invalid("\"{}\" is not a .npy file: it does not begin with \\x93NUMPY", path);
  }
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(bytes[i])); };
  const size_t version = byte(6);
  if (version != 1 && version != 2) {
    return invalid("\"{}\" is a .npy file of version {}; versions 1 and 2 can be read", path, version);
  }
  const size_t start = version == 1 ? 10 : 12;
  const size_t length = version == 1 ? byte(8) | byte(9) << 8
                        : size < 12  ? kMaxHeaderBytes
                                     : byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24;
  if (length > kMaxHeaderBytes || start + length > size) {
    return invalid("\"{}\" is truncated: its header has {} bytes but the file only {}", path, start + length, size);
  }
  offset = start + length;
  if (!parseHeader(HeaderText(bytes + start, bytes + offset), header)) {
    return invalid("\"{}\" has a malformed .npy header: {}", path, printable(std::string(bytes + start, std::min<size_t>(length, 80))));
  }
  return {};
}

} // namespace

Status readNpyHeader(const std::string &name, const char *bytes, size_t size, NpyHeader &header) {
  HeaderFields fields;
  ASHLAR_RETURN_IF_ERROR(readHeader(name, bytes, size, fields, header.offset));
  const TypeCode *type = nullptr;
  for (const TypeCode &candidate : kTypeCodes) {
    type = fields.descr == candidate.code ? &candidate : type;
  }
  if (!type) {
    return invalid(
        "\"{}\" has elements of type '{}'; little-endian f2, f4, f8, i1, i2, i4, i8, u1, u2, u4, u8, b1 and bf16 (V2) can be read", name,
        fields.descr);
  }
  if (fields.fortranOrder != "False") {
    return invalid("\"{}\" is in Fortran order; save it with numpy.ascontiguousarray", name);
  }
  header.element = type->element;
  header.shape = fields.shape;
  // Counted in floating point first: a forged shape must not overflow.
  double announced = static_cast<double>(dtypeBytes(type->element));
  for (int64_t dim : header.shape) {
    announced *= static_cast<double>(dim);
  }
  const size_t found = size - header.offset;
  if (announced != static_cast<double>(found)) {
    return invalid("\"{}\" announces {} elements of {} ({:.0f} bytes) but holds {} bytes", name, shapeText(header.shape),
                   dtypeName(type->element), announced, found);
  }
  return {};
}

Status NpyFile::open(const std::string &path, NpyFile &file) {
  NpyFile opened;
  opened.filePath = path;
  ASHLAR_RETURN_IF_ERROR(MappedFile::open(path, opened.mapping));
  ASHLAR_RETURN_IF_ERROR(readNpyHeader(path, opened.mapping.data(), opened.mapping.size(), opened.header));
  file = std::move(opened);
  return {};
}

Status NpyFile::expect(uint32_t expectedElement, const std::vector<int64_t> &expectedShape) const {
  if (header.element != expectedElement) {
    return invalid("\"{}\" holds {} but {} is expected", filePath, dtypeName(header.element), dtypeName(expectedElement));
  }
  if (header.shape != expectedShape) {
    return invalid("\"{}\" has shape {} but {} is expected", filePath, shapeText(header.shape), shapeText(expectedShape));
  }
  return {};
}

Status writeNpy(OutputFile &file, uint32_t element, const std::vector<int64_t> &shape, const void *data) {
  static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "elements are written as they lie in memory");
  const char *code = nullptr;
  for (const TypeCode &candidate : kTypeCodes) {
    code = !code && candidate.element == element ? candidate.code : code;
  }
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", code, shapeText(shape));
  // The elements begin at a multiple of 64 bytes, as numpy itself does it.
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::string prefix(kMagic, sizeof(kMagic));
  for (size_t byte : {size_t{1}, size_t{0}, header.size() & 255, header.size() >> 8}) {
    prefix += static_cast<char>(byte);
  }
  prefix += header;
  ASHLAR_RETURN_IF_ERROR(file.write(prefix.data(), prefix.size()));
  return file.write(data, dtypeBytes(element) * numElements(shape));
}

Status writeNpy(const std::string &path, uint32_t element, const std::vector<int64_t> &shape, const void *data) {
  OutputFile file;
  ASHLAR_RETURN_IF_ERROR(file.create(path));
  ASHLAR_RETURN_IF_ERROR(writeNpy(file, element, shape, data));
  return file.commit();
}

} // namespace ashlar::rt
