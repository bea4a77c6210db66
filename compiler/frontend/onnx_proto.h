// SPDX-License-Identifier: Apache-2.0
//
// ONNX's protobuf classes with the two definitions that Debian's library was built with. The only way this folder includes them.

#ifndef ASHLAR_COMPILER_FRONTEND_ONNX_PROTO_H
#define ASHLAR_COMPILER_FRONTEND_ONNX_PROTO_H

#ifndef ONNX_ML
#define ONNX_ML 1
#endif
#ifndef ONNX_NAMESPACE
#define ONNX_NAMESPACE onnx
#endif
#include <onnx/onnx_pb.h>

#endif // ASHLAR_COMPILER_FRONTEND_ONNX_PROTO_H
