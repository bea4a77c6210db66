// SPDX-License-Identifier: Apache-2.0
//
// Writing a model so that no partial file is ever seen.

#ifndef ASHLAR_TOOLS_ASHLAR_ZOO_WRITE_MODEL_H
#define ASHLAR_TOOLS_ASHLAR_ZOO_WRITE_MODEL_H

#include "compiler/frontend/onnx_proto.h"

#include <string>

namespace ashlar::zoo {

// Writes `model` to `path`, as all outputs are written (compiler/file/output_file.h). Returns "" or the error, one line that names the
// path.
std::string writeModel(const onnx::ModelProto &model, const std::string &path);

} // namespace ashlar::zoo

#endif // ASHLAR_TOOLS_ASHLAR_ZOO_WRITE_MODEL_H
