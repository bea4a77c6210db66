// SPDX-License-Identifier: Apache-2.0
//
// Gathers tensors tensor by tensor, so that rank 0 holds one of them at a time.

#include "runtime/run/checkpoint/output_tensors.h"

#include "runtime/base/dtype.h"
#include "runtime/data/formats/npy.h"
#include "runtime/run/checkpoint/shard.h"

#include <algorithm>
#include <cstring>

namespace ashlar::rt {
namespace {

// Writes a tensor of this shape to a file that has no name yet.
Status write(const OutputTensor &output, const std::vector<int64_t> &shape, const std::vector<char> &global, OutputFile &file) {
  const ashlar_rt_tensor &tensor = *output.tensor;
  const uint32_t held = npyElement(tensor.buffer.dtype);
  std::vector<char> converted;
  if (held != tensor.buffer.dtype) {
    converted.resize(dtypeBytes(held) * numElements(shape));
    convertElements(tensor.buffer.dtype, global.data(), held, converted.data(), numElements(shape), /*scale=*/1, /*shift=*/0);
  }
  ASHLAR_RETURN_IF_ERROR(file.create(output.path));
  ASHLAR_RETURN_IF_ERROR(writeNpy(file, held, shape, (converted.empty() ? global : converted).data()));
  return file.close();
}

// Calls `visit` for each dim of a tensor that has a count, with the output that holds it.
template <typename Visit> void forEachCount(const ashlar_rt_variant &variant, const ashlar_rt_tensor &tensor, Visit visit) {
  for (uint32_t d = 0; tensor.counts != nullptr && d < tensor.rank; ++d) {
    for (uint32_t i = 0; tensor.counts[d] != nullptr && i < variant.num_tensors; ++i) {
      const ashlar_rt_tensor &count = variant.tensors[i];
      if (count.role == ASHLAR_RT_OUTPUT && std::strcmp(count.name, tensor.counts[d]) == 0) {
        visit(d, count);
      }
    }
  }
}

// Puts the number of elements that are there into each dim of `shape` that has a count, and returns whether the program counted that many.
// Every rank calls it; only rank 0 gets the numbers.
Status fetchCounts(Session &session, const OutputTensor &output, std::vector<int64_t> &shape) {
  Status fetched;
  forEachCount(*session.variant, *output.tensor, [&](uint32_t dim, const ashlar_rt_tensor &count) {
    std::vector<char> value;
    fetched.update(fetchGlobal(session, count, output.stage, value));
    if (value.size() != sizeof(int64_t)) { // another rank than 0, or a fault
      return;
    }
    int64_t number = 0;
    std::memcpy(&number, value.data(), sizeof(number));
    if (number < 0 || number > shape[dim]) {
      fetched.update(internal("output {} has {} elements along dim {}, of at most {}", output.tensor->name, number, dim, shape[dim]));
      return;
    }
    shape[dim] = number;
  });
  return fetched;
}

// Takes the first elements of each dim of a tensor, as many as `kept` says, and moves them together. `width`: bytes of an element.
void keepLeading(std::vector<char> &data, std::vector<int64_t> shape, const std::vector<int64_t> &kept, size_t width) {
  size_t inner = width, outer = numElements(shape);
  for (size_t d = shape.size(); d-- > 0;) {
    outer = shape[d] == 0 ? 0 : outer / static_cast<size_t>(shape[d]);
    const size_t from = inner * static_cast<size_t>(shape[d]), to = inner * static_cast<size_t>(kept[d]);
    for (size_t i = 0; i < outer && from != to; ++i) {
      std::memmove(data.data() + i * to, data.data() + i * from, to);
    }
    inner = to;
  }
  data.resize(width * numElements(kept));
}

} // namespace

bool isCount(const ashlar_rt_variant &variant, const ashlar_rt_tensor &tensor) {
  bool found = false;
  for (uint32_t i = 0; i < variant.num_tensors; ++i) {
    forEachCount(variant, variant.tensors[i], [&](uint32_t, const ashlar_rt_tensor &count) { found |= &count == &tensor; });
  }
  return found;
}

std::string outputFileName(std::string name) {
  std::replace(name.begin(), name.end(), '/', '_');
  return name + ".npy";
}

Status checkOutputTensors(const Session &session, const std::vector<OutputTensor> &tensors) {
  for (const OutputTensor &output : tensors) {
    ASHLAR_RETURN_IF_ERROR(session.communicator->rank() == 0 ? checkOutput(output.path) : Status());
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
    const std::vector<int64_t> whole(tensor.global_shape, tensor.global_shape + tensor.rank);
    std::vector<int64_t> shape = whole;
    written.update(fetchCounts(session, tensors[i], shape));
    if (seat.rank() == 0 && written.ok()) {
      keepLeading(global, whole, shape, dtypeBytes(tensor.buffer.dtype));
      written = write(tensors[i], shape, global, files[i]);
    }
    seat.noteProgress();
  }
  for (size_t i = 0; i < files.size() && seat.rank() == 0; ++i) {
    written.update(written.ok() ? files[i].commit() : Status());
  }
  return written;
}

} // namespace ashlar::rt
