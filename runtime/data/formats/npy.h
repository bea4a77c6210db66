// SPDX-License-Identifier: Apache-2.0
//
// Files in NumPy's .npy format, versions 1 and 2: little endian, C order, integers of 1 to 8 bytes, f2 f4 f8, b1, and bf16 as
// ml_dtypes writes it. Anything else is refused by name. Format: numpy/lib/format.py (NEP 1).

#ifndef ASHLAR_RUNTIME_DATA_FORMATS_NPY_H
#define ASHLAR_RUNTIME_DATA_FORMATS_NPY_H

#include "runtime/base/mapped_file.h"
#include "runtime/base/output_file.h"
#include "runtime/base/status.h"
#include "runtime/data/element.h"

#include <string>
#include <vector>

namespace ashlar::rt {

// The header of .npy bytes.
struct NpyHeader {
  uint32_t element = ASHLAR_RT_F32;
  std::vector<int64_t> shape;
  size_t offset = 0; // of the first element
};

// Reads the header at the beginning of a file's bytes and checks that exactly the elements that it announces are behind it. `name`: of the
// file, for errors.
Status readNpyHeader(const std::string &name, const char *bytes, size_t size, NpyHeader &header);

// A .npy file mapped for reading. The elements stay on disk until they are touched. Movable; unmaps when destroyed.
class NpyFile {
public:
  // Maps `path` and checks that the header is well formed and the file holds exactly the elements it announces.
  static Status open(const std::string &path, NpyFile &file);

  const std::string &path() const { return filePath; }
  uint32_t element() const { return header.element; }
  const std::vector<int64_t> &shape() const { return header.shape; }

  // Returns the first element, row major. Valid while this object lives.
  const void *data() const { return mapping.data() + header.offset; }

  // Fails when not all elements could be read since open(): the file was cut or rewritten.
  Status check() const { return mapping.check(); }

  // Returns an error naming the file, the expected and the actual values, unless type and shape are exactly these.
  Status expect(uint32_t expectedElement, const std::vector<int64_t> &expectedShape) const;

private:
  std::string filePath;
  NpyHeader header;
  MappedFile mapping;
};

// Returns the element type as which a file that we write holds elements of a type: bf16, which NumPy does not have, as f32, all others as
// they are.
inline uint32_t npyElement(uint32_t dtype) {
  return dtype == ASHLAR_RT_BF16 ? static_cast<uint32_t>(ASHLAR_RT_F32) : dtype;
}

// Writes a version 1 file: `shape` elements at `data`, row major.
Status writeNpy(OutputFile &file, uint32_t element, const std::vector<int64_t> &shape, const void *data);

// The same, to a file that takes the place of `path` when it is whole.
Status writeNpy(const std::string &path, uint32_t element, const std::vector<int64_t> &shape, const void *data);

} // namespace ashlar::rt

#endif // ASHLAR_RUNTIME_DATA_FORMATS_NPY_H
