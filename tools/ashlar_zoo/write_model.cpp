// SPDX-License-Identifier: Apache-2.0
//
// Serialises through an adaptor of protobuf's streams to LLVM's.

#include "tools/ashlar_zoo/write_model.h"

#include "compiler/file/output_file.h"

#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <limits>

namespace ashlar::zoo {

namespace {

// Hands on what protobuf writes; errors stay with the stream.
class CopyingStream : public google::protobuf::io::CopyingOutputStream {
public:
  explicit CopyingStream(llvm::raw_ostream &out) : out(out) {}

  bool Write(const void *buffer, int size) override {
    out.write(static_cast<const char *>(buffer), size);
    return true;
  }

private:
  llvm::raw_ostream &out;
};

} // namespace

std::string writeModel(const onnx::ModelProto &model, const std::string &path) {
  if (size_t bytes = model.ByteSizeLong(); bytes > std::numeric_limits<int32_t>::max()) {
    return path + ": the model has " + std::to_string(bytes) + " bytes but a protobuf message ends at 2147483647; use --no-data";
  }
  return llvm::toString(file::writeOutput(path, [&](llvm::raw_pwrite_stream &out) {
    CopyingStream stream(out);
    google::protobuf::io::CopyingOutputStreamAdaptor adaptor(&stream);
    model.SerializeToZeroCopyStream(&adaptor);
  }));
}

} // namespace ashlar::zoo
