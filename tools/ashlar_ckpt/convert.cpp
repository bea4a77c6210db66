// SPDX-License-Identifier: Apache-2.0
//
// convert: whole tensors under their own names, for other tools. Memory is that of a part, whatever the checkpoint's size.

#include "runtime/base/dtype.h"
#include "runtime/base/output_file.h"
#include "runtime/checkpoint/safetensors.h"
#include "tools/ashlar_ckpt/commands.h"

#include <algorithm>
#include <map>

namespace ashlar::ckpt {

using namespace ashlar::rt;

namespace {

// Returns the tensors that are asked for, those of larger elements first: so each begins at a multiple of its element.
std::vector<const CheckpointTensor *> chooseTensors(const CheckpointIndex &index, bool parametersOnly) {
  std::vector<const CheckpointTensor *> chosen;
  for (const CheckpointTensor &tensor : index.tensors) {
    if (!parametersOnly || tensor.isParameter()) {
      chosen.push_back(&tensor);
    }
  }
  std::sort(chosen.begin(), chosen.end(), [](const CheckpointTensor *a, const CheckpointTensor *b) {
    const size_t first = dtypeBytes(a->dtype), second = dtypeBytes(b->dtype);
    return first != second ? first > second : a->name < b->name;
  });
  return chosen;
}

} // namespace

Status convert(const std::string &checkpoint, const std::string &output, bool parametersOnly) {
  CheckpointReader reader;
  ASHLAR_RETURN_IF_ERROR(reader.open(checkpoint));
  FileRoles files;
  for (const std::string &path : reader.paths()) {
    files.addInput("a file of the checkpoint,", path);
  }
  files.addOutput("-o", output);
  ASHLAR_RETURN_IF_ERROR(checkFiles(files));
  const CheckpointIndex &index = reader.index();
  const std::vector<const CheckpointTensor *> chosen = chooseTensors(index, parametersOnly);
  std::vector<StoredTensor> stored;
  uint64_t bytes = 0;
  for (const CheckpointTensor *tensor : chosen) {
    if (tensor->name == kSafetensorsMetadata) {
      return invalid("{} has a tensor {}, a name that safetensors files cannot have; give it another one in the model", reader.folder(),
                     tensor->name);
    }
    stored.push_back({tensor->name, tensor->dtype, tensor->shape, bytes, tensor->bytes()});
    bytes += tensor->bytes();
  }
  // What Hugging Face's readers ask for is the format: that of PyTorch's tensors, rows first.
  const std::map<std::string, std::string> metadata = {
      {"format", "pt"}, {"model", index.model}, {"steps_done", std::to_string(index.stepsDone)}};
  const std::string header = writeSafetensorsHeader(stored, metadata);
  OutputFile file;
  ASHLAR_RETURN_IF_ERROR(file.create(output));
  ASHLAR_RETURN_IF_ERROR(file.write(header.data(), header.size()));
  std::vector<char> part;
  for (const CheckpointTensor *tensor : chosen) {
    ASHLAR_RETURN_IF_ERROR(
        forEachPart(tensor->shape, kPartElements, [&](const std::vector<int64_t> &start, const std::vector<int64_t> &size) {
          ASHLAR_RETURN_IF_ERROR(readPart(reader, *tensor, start, size, part));
          return file.write(part.data(), part.size());
        }));
  }
  ASHLAR_RETURN_IF_ERROR(reader.check());
  ASHLAR_RETURN_IF_ERROR(file.sync());
  ASHLAR_RETURN_IF_ERROR(file.commit());
  printLine(fmt::format("wrote {}: {} tensors, {} bytes", output, chosen.size(), header.size() + bytes));
  return Status();
}

} // namespace ashlar::ckpt
