// SPDX-License-Identifier: Apache-2.0
//
// ONNX models put together in a test, imported through a file as a user's are, and run by the reference interpreter.

#ifndef ASHLAR_TEST_UNIT_FRONTEND_ONNX_MODEL_H
#define ASHLAR_TEST_UNIT_FRONTEND_ONNX_MODEL_H

#include "compiler/frontend/import.h"
#include "compiler/frontend/onnx_proto.h"
#include "dialects/support/reference_tensor.h"
#include "test/unit/reference/parsed_module.h"

#include "mlir/IR/MLIRContext.h"

#include <string>
#include <variant>
#include <vector>

#include <catch2/catch.hpp>

namespace ashlar::test {

// Matches a message that holds a text.
inline constexpr auto contains = [](const std::string &text) { return Catch::Contains(text); };

// A file that goes away with the object.
class TemporaryFile {
public:
  explicit TemporaryFile(const std::string &contents, const std::string &suffix = ".onnx");
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile &) = delete;
  const std::string &getPath() const { return path; }
  std::string getName() const { return path.substr(path.rfind('/') + 1); }

private:
  std::string path;
};

// A dim of an input: a size, or the name of a symbolic one.
using Dim = std::variant<int64_t, std::string>;

// An attribute of a node.
struct Attribute {
  std::string name;
  std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>, std::vector<std::string>, onnx::TensorProto> value;
};

// Returns a tensor message with typed data; all lists take doubles.
onnx::TensorProto tensorProto(const std::string &name, int32_t type, std::vector<int64_t> dims, std::vector<double> values);

class OnnxModel {
public:
  explicit OnnxModel(int64_t opset = 17);
  OnnxModel &input(const std::string &name, std::vector<Dim> dims, int32_t type = onnx::TensorProto::FLOAT);
  OnnxModel &initializer(const std::string &name, int32_t type, std::vector<int64_t> dims, std::vector<double> values);
  // An i64 vector: shapes, axes.
  OnnxModel &ints(const std::string &name, std::vector<double> values);
  // A node named `name`, "" for none. `op` may have a domain before it: "ai.ashlar.dist.AllReduce".
  OnnxModel &node(const std::string &op, std::vector<std::string> inputs, std::vector<std::string> outputs,
                  std::vector<Attribute> attributes = {}, const std::string &name = "");
  OnnxModel &output(const std::string &name);
  onnx::ModelProto proto;
};

// Returns the model of a text: ONNX's messages in protobuf's text form.
OnnxModel parseModel(const std::string &text);

// A model that import() took.
struct ImportedModel {
  onnx::ModelProto model;
  frontend::ImportOptions options;
  std::string caseName; // of the case that it is from
};

// The models that import() took so far, those with more than a few kilobytes left out.
std::vector<ImportedModel> &importedModels();

// Imports a model through a temporary file; throws std::runtime_error with the message, in which the path is "model.onnx".
mlir::OwningOpRef<mlir::ModuleOp> import(const OnnxModel &model, const frontend::ImportOptions &options = {});

// Returns the error of an import that must fail.
std::string importError(const OnnxModel &model, const frontend::ImportOptions &options = {});

// Returns the text of a module.
std::string print(mlir::ModuleOp module);

// Returns a tensor for the interpreter; every element type takes doubles.
reference::Tensor makeTensor(mlir::Type element, std::vector<int64_t> shape, std::vector<double> values);
reference::Tensor f32(std::vector<int64_t> shape, std::vector<double> values);
reference::Tensor i64(std::vector<int64_t> shape, std::vector<double> values);
reference::Tensor boolean(std::vector<int64_t> shape, std::vector<double> values);

// Imports the model and runs @forward.
std::vector<reference::Tensor> evaluate(const OnnxModel &model, std::vector<reference::Tensor> inputs,
                                        const frontend::ImportOptions &options = {});

// Whether a tensor has this shape and, within 1e-6 (f32 and a hand-made expectation), these elements, a NaN for a NaN; Catch2 shows it
// otherwise.
bool holds(const reference::Tensor &tensor, std::vector<int64_t> shape, std::vector<double> values);

} // namespace ashlar::test

#endif // ASHLAR_TEST_UNIT_FRONTEND_ONNX_MODEL_H
