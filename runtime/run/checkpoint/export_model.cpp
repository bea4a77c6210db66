// SPDX-License-Identifier: Apache-2.0

#include "runtime/run/checkpoint/export_model.h"

#include "runtime/base/dtype.h"
#include "runtime/base/output_file.h"
#include "runtime/base/stages.h"
#include "runtime/data/element.h"
#include "runtime/run/checkpoint/output_tensors.h"
#include "runtime/run/checkpoint/shard.h"

#include <cstring>

namespace ashlar::rt {

namespace {

// The file of data has the name that the model refers to, in the folder of the model.
std::string dataPath(const std::string &model, const char *name) {
  return model.substr(0, model.rfind('/') + 1) + name; // npos + 1 == 0
}

// A variable, and the stage that has it.
struct Found {
  const ashlar_rt_tensor *tensor = nullptr;
  uint32_t stage = 0;
};

Found findVariable(const ashlar_rt_variant &variant, const char *name) {
  for (const ashlar_rt_variant &stage : Stages(variant)) {
    if (const ashlar_rt_tensor *tensor = findTensor(stage, name)) {
      return {tensor, stage.stage};
    }
  }
  return {};
}

// Turns a matrix of `rows` rows into its transpose.
std::vector<char> transposed(const std::vector<char> &matrix, size_t rows, size_t columns, size_t element) {
  std::vector<char> result(matrix.size());
  for (size_t row = 0; row < rows; ++row) {
    for (size_t column = 0; column < columns; ++column) {
      std::memcpy(result.data() + (column * rows + row) * element, matrix.data() + (row * columns + column) * element, element);
    }
  }
  return result;
}

// Returns the numbers of a hole, in the type of the file.
std::vector<char> numbersOf(const ashlar_rt_export_hole &hole, const ashlar_rt_tensor &tensor, std::vector<char> global) {
  if (tensor.buffer.dtype != hole.dtype) {
    std::vector<char> converted(hole.bytes);
    convertElements(tensor.buffer.dtype, global.data(), hole.dtype, converted.data(),
                    static_cast<int64_t>(hole.bytes / dtypeBytes(hole.dtype)),
                    /*scale=*/1, /*shift=*/0);
    global = std::move(converted);
  }
  return hole.is_transposed == 0 ? std::move(global)
                                 : transposed(global, static_cast<size_t>(tensor.global_shape[0]),
                                              static_cast<size_t>(tensor.global_shape[1]), dtypeBytes(hole.dtype));
}

} // namespace

std::vector<std::string> exportFiles(const Session &session) {
  const std::string &path = session.options->exportFile;
  std::vector<std::string> files;
  if (!path.empty()) {
    files.push_back(path);
  }
  if (!path.empty() && session.image->exported->data_file != nullptr) {
    files.push_back(dataPath(path, session.image->exported->data_file));
  }
  return files;
}

Status checkExport(const Session &session) {
  const std::string &path = session.options->exportFile;
  if (path.empty()) {
    return Status();
  }
  const ashlar_rt_export &exported = *session.image->exported;
  if (exported.refusal != nullptr) {
    return invalid("--export {}: {}", path, exported.refusal);
  }
  for (uint32_t i = 0; i < exported.num_holes; ++i) {
    const ashlar_rt_export_hole &hole = exported.holes[i];
    const ashlar_rt_tensor *tensor = findVariable(*session.variant, hole.variable).tensor;
    if (tensor == nullptr || globalBytes(*tensor) / dtypeBytes(tensor->buffer.dtype) != hole.bytes / dtypeBytes(hole.dtype) ||
        (hole.is_transposed != 0 && tensor->rank != 2)) {
      return internal("the image exports {} bytes of {}, which no variable has", hole.bytes, hole.variable);
    }
  }
  if (session.communicator->rank() != 0) { // it writes nothing, and may be on a host without the folder
    return Status();
  }
  for (const std::string &file : exportFiles(session)) {
    ASHLAR_RETURN_IF_ERROR(checkOutput(file));
  }
  return Status();
}

Status exportModel(Session &session) {
  Communicator &seat = *session.communicator;
  const ashlar_rt_export &exported = *session.image->exported;
  const std::string &path = session.options->exportFile;
  const bool writes = seat.rank() == 0;
  OutputFile model, data; // neither has its name before both are written
  Status status;
  if (writes) {
    status = model.create(path);
    status.update(status.ok() && exported.data_file != nullptr ? data.create(dataPath(path, exported.data_file)) : Status());
  }
  OutputFile &numbers = exported.data_file != nullptr ? data : model;
  uint64_t written = 0; // of the text
  for (uint32_t i = 0; i < exported.num_holes; ++i) {
    const ashlar_rt_export_hole &hole = exported.holes[i];
    const Found found = findVariable(*session.variant, hole.variable);
    std::vector<char> global;
    ASHLAR_RETURN_IF_ERROR(fetchGlobal(session, *found.tensor, found.stage, global));
    if (writes && status.ok()) {
      const std::vector<char> bytes = numbersOf(hole, *found.tensor, std::move(global));
      status.update(model.write(exported.text + written, hole.offset - written));
      written = hole.offset;
      status.update(numbers.write(bytes.data(), bytes.size()));
    }
    seat.noteProgress();
  }
  if (!writes || !status.ok()) {
    return status;
  }
  ASHLAR_RETURN_IF_ERROR(model.write(exported.text + written, exported.bytes - written));
  ASHLAR_RETURN_IF_ERROR(model.close());
  if (exported.data_file != nullptr) {
    ASHLAR_RETURN_IF_ERROR(data.commit());
  }
  return model.commit();
}

} // namespace ashlar::rt
