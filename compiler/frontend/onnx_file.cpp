// SPDX-License-Identifier: Apache-2.0
//
// Reading the file: mapped and parsed in place, so that the only copy of the weights is protobuf's.

#include "compiler/frontend/onnx_file.h"

#include "compiler/frontend/import_error.h"

#include "llvm/Support/MemoryBuffer.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <limits>

namespace ashlar::frontend {

std::unique_ptr<onnx::ModelProto> readModelFile(llvm::StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!buffer) {
    throw ImportError("cannot be read: " + llvm::StringRef(buffer.getError().message()).lower());
  }
  size_t size = (*buffer)->getBufferSize();
  if (size > std::numeric_limits<int32_t>::max()) {
    throw ImportError("has " + llvm::Twine(size) + " bytes but a protobuf message ends at 2147483647; export it with external data");
  }
  google::protobuf::io::ArrayInputStream bytes((*buffer)->getBufferStart(), static_cast<int>(size));
  google::protobuf::io::CodedInputStream stream(&bytes);
  stream.SetTotalBytesLimit(std::numeric_limits<int32_t>::max());
  auto model = std::make_unique<onnx::ModelProto>();
  if (!model->ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage()) {
    throw ImportError("not an ONNX model: its " + llvm::Twine(size) + " bytes are no protobuf message; the file may be truncated");
  }
  if (!model->has_graph()) {
    throw ImportError("not an ONNX model: its " + llvm::Twine(size) + " bytes hold no graph");
  }
  return model;
}

} // namespace ashlar::frontend
