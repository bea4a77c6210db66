// SPDX-License-Identifier: Apache-2.0
//
// Gathers tensors tensor by tensor, so that rank 0 holds one of them at a time.

#include "runtime/launch/output_tensors.h"

#include "runtime/base/dtype.h"
#include "runtime/data/npy.h"
#include "runtime/launch/shard.h"

#include <algorithm>
#include <map>

namespace ashlar::rt {
namespace {

// Writes a tensor to a file that has no name yet.
Status write(const OutputTensor &output, const std::vector<char> &global, OutputFile &file) {
  const ashlar_rt_tensor &tensor = *output.tensor;
  const uint32_t held = npyElement(tensor.buffer.dtype);
  const std::vector<int64_t> shape(tensor.global_shape, tensor.global_shape + tensor.rank);
  std::vector<char> converted;
  if (held != tensor.buffer.dtype) {
    converted.resize(dtypeBytes(held) * numElements(shape));
    convertElements(tensor.buffer.dtype, global.data(), held, converted.data(), numElements(shape), /*scale=*/1, /*shift=*/0);
  }
  ASHLAR_RETURN_IF_ERROR(file.create(output.path));
  ASHLAR_RETURN_IF_ERROR(writeNpy(file, held, shape, (converted.empty() ? global : converted).data()));
  return file.close();
}

} // namespace

std::string outputFileName(std::string name) {
  std::replace(name.begin(), name.end(), '/', '_');
  return name + ".npy";
}

Status checkOutputTensors(const Session &session, const std::vector<OutputTensor> &tensors, const char *kind, const char *remedy) {
  std::map<std::string, const char *> tensorOf;
  for (const OutputTensor &output : tensors) {
    const ashlar_rt_tensor &tensor = *output.tensor;
    ASHLAR_RETURN_IF_ERROR(session.communicator->rank() == 0 ? checkOutput(output.path) : Status());
    auto [first, isNew] = tensorOf.emplace(fileIdentity(output.path), tensor.name);
    if (!isNew) {
      return invalid("{}s {} and {} would both be written to {}; {}", kind, first->second, tensor.name, output.path, remedy);
    }
  }
  return Status();
}

Status fetchGlobal(Session &session, const ashlar_rt_tensor &tensor, uint32_t stage, std::vector<char> &global) {
  Communicator &seat = *session.communicator;
  global.assign(seat.rank() == 0 ? globalBytes(tensor) : 0, 0);
  return session.executor->fetch(stage, tensor, [&](int device, const char *data) {
    if (holdsFirstCopy(tensor, device, seat.mesh().coordinates(device))) {
      copyShard(ShardCopy::kLocalToGlobal, tensor, *session.variant, static_cast<uint32_t>(device), global.data(),
                const_cast<char *>(data));
    }
  });
}

Status writeOutputTensors(Session &session, const std::vector<OutputTensor> &tensors) {
  Communicator &seat = *session.communicator;
  std::vector<OutputFile> files(tensors.size()); // without names until all are written
  Status written;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const ashlar_rt_tensor &tensor = *tensors[i].tensor;
    std::vector<char> global;
    ASHLAR_RETURN_IF_ERROR(fetchGlobal(session, tensor, tensors[i].stage, global));
    if (seat.rank() == 0 && written.ok()) {
      written = write(tensors[i], global, files[i]);
    }
    seat.noteProgress();
  }
  for (size_t i = 0; i < files.size() && seat.rank() == 0; ++i) {
    written.update(written.ok() ? files[i].commit() : Status());
  }
  return written;
}

} // namespace ashlar::rt
