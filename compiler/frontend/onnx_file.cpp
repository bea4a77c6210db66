// SPDX-License-Identifier: Apache-2.0
//
// Reading the file: mapped and parsed in place, so that the only copy of the weights is protobuf's.

#include "compiler/frontend/onnx_file.h"

#include "compiler/file/input_file.h"
#include "compiler/frontend/import_error.h"
#include "compiler/job/protobuf_log.h"

#include "llvm/Support/Path.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <limits>
#include <string>

namespace ashlar::frontend {

namespace {

using google::protobuf::io::ArrayInputStream;
using google::protobuf::io::CodedInputStream;

// Takes the value of one field off the stream. Returns whether it was there as a whole.
bool skipValue(CodedInputStream &stream, uint32_t wireType) {
  uint64_t number = 0;
  uint32_t length = 0;
  switch (wireType) {
  case 0: // varint
    return stream.ReadVarint64(&number);
  case 1: // 8 bytes
    return stream.Skip(sizeof(uint64_t));
  case 2: // a length, and as many bytes
    return stream.ReadVarint32(&length) && length <= static_cast<uint32_t>(std::numeric_limits<int32_t>::max()) &&
           stream.Skip(static_cast<int>(length));
  case 5: // 4 bytes
    return stream.Skip(sizeof(uint32_t));
  default:
    return false;
  }
}

// Returns the end of an error about a message that cannot be parsed: the place of the first field of the model that is not there as a
// whole;
// "" when all are, and something in one of them is broken.
std::string brokenPlace(const char *bytes, int size) {
  ArrayInputStream input(bytes, size);
  CodedInputStream stream(&input);
  for (int begin = 0; begin < size; begin = stream.CurrentPosition()) {
    uint32_t tag = stream.ReadTag();
    if (tag >> 3 == 0 || !skipValue(stream, tag & 7)) {
      return " from byte " + std::to_string(begin) + " on";
    }
  }
  return "";
}

} // namespace

std::unique_ptr<onnx::ModelProto> readModelFile(llvm::StringRef path) {
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> buffer = file::mapFile(path);
  if (!buffer) {
    throw ImportError(llvm::toString(buffer.takeError()));
  }
  size_t size = (*buffer)->getBufferSize();
  if (size > std::numeric_limits<int32_t>::max()) {
    throw ImportError("has " + llvm::Twine(size) + " bytes but a protobuf message ends at 2147483647; export it with external data");
  }
  ArrayInputStream bytes((*buffer)->getBufferStart(), static_cast<int>(size));
  CodedInputStream stream(&bytes);
  stream.SetTotalBytesLimit(std::numeric_limits<int32_t>::max());
  auto model = std::make_unique<onnx::ModelProto>();
  job::ProtobufLog log;
  if (!model->ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage()) {
    throw ImportError("not an ONNX model: its " + llvm::Twine(size) + " bytes are no protobuf message" +
                      brokenPlace((*buffer)->getBufferStart(), static_cast<int>(size)) + log.text() + "; the file may be truncated");
  }
  if (!model->has_graph()) {
    throw ImportError("not an ONNX model: its " + llvm::Twine(size) + " bytes hold no graph");
  }
  return model;
}

llvm::StringRef modelNameOf(const onnx::GraphProto &graph, llvm::StringRef path) {
  constexpr llvm::StringLiteral kNoNames[] = {"", "main_graph", "torch_jit", "torch-jit-export"};
  return llvm::is_contained(kNoNames, graph.name()) ? llvm::sys::path::stem(path) : llvm::StringRef(graph.name());
}

} // namespace ashlar::frontend
