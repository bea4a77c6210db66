// SPDX-License-Identifier: Apache-2.0
//
// Serialises into a temporary file in the folder of the target.

#include "tools/ashlar_zoo/write_model.h"

#include <google/protobuf/io/zero_copy_stream_impl.h>

#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <sys/stat.h>
#include <unistd.h>

namespace ashlar::zoo {

namespace {

std::string describe(int error) {
  std::string text = std::strerror(error);
  text[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(text[0])));
  return text;
}

} // namespace

std::string writeModel(const onnx::ModelProto &model, const std::string &path) {
  if (size_t bytes = model.ByteSizeLong(); bytes > std::numeric_limits<int32_t>::max()) {
    return path + ": the model has " + std::to_string(bytes) + " bytes but a protobuf message ends at 2147483647; use --no-data";
  }
  std::string temporary = path + ".XXXXXX";
  int file = mkstemp(temporary.data());
  if (file < 0) {
    return path + ": cannot be written: " + describe(errno);
  }
  int error = 0;
  {
    google::protobuf::io::FileOutputStream stream(file);
    if (!model.SerializeToZeroCopyStream(&stream) || !stream.Flush()) {
      error = stream.GetErrno() ? stream.GetErrno() : EIO;
    }
  }
  mode_t mask = umask(0); // mkstemp gives the owner alone access; the model is an ordinary file
  umask(mask);
  if (!error && fchmod(file, 0666 & ~mask) != 0) {
    error = errno;
  }
  if (close(file) != 0 && !error) {
    error = errno;
  }
  if (!error && std::rename(temporary.c_str(), path.c_str()) != 0) {
    error = errno;
  }
  if (error) {
    std::remove(temporary.c_str());
    return path + ": cannot be written: " + describe(error);
  }
  return "";
}

} // namespace ashlar::zoo
