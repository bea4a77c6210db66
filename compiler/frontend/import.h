// SPDX-License-Identifier: Apache-2.0
//
// ONNX -> nn. The module that comes out holds one nn.variable a parameter and the function @forward; see docs/onnx.md for the ops.

#ifndef ASHLAR_COMPILER_FRONTEND_IMPORT_H
#define ASHLAR_COMPILER_FRONTEND_IMPORT_H

#include "compiler/frontend/annotations/sharding_spec.h"
#include "compiler/frontend/weights/tied_weights.h"
#include "compiler/job/job.pb.h"

#include "dialects/dist/dist.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ashlar::frontend {

// Facts on a model that is the program of one device with its own collectives (mode HYBRID): its sizes are the sizes of shards.
struct LocalModel {
  dist::MeshAttr mesh;
  // Returns into how many pieces each dim of an input or parameter of this name and rank is cut.
  std::function<std::vector<int64_t>(llvm::StringRef name, int64_t rank)> pieces;
};

// Which of the model's multi-device annotations are read, and for which devices.
struct AnnotationChoice {
  std::string configuration; // the name of one of the model's device configurations
  DeviceMesh mesh;
};

// An initializer that stands for several parameters of the module, which the exporter merged (merged_initializers.h).
struct MergedParameter {
  std::string initializer;
  std::vector<std::string> others; // names of the parameters besides the one of its name
  bool isUntied = false;           // each is a parameter of its own
};

// The facts on a model that an import finds, as far as it comes.
struct ModelFacts {
  struct Initializer {
    std::string name, type; // "[2, 3] of f32"
    int64_t bytes = 0;
    std::string reason; // why it is a buffer
  };
  std::vector<Initializer> parameters, states, buffers; // states: running statistics
  std::vector<CopiedWeight> copies;                     // among parameters
  std::vector<MergedParameter> merged;
  std::vector<std::string> scalars;         // float scalars that may be parameters, and are constants
  std::vector<std::string> constantWeights; // floats of Constant nodes that layers read as weights, where nothing else is trained
  std::vector<std::string> faults;          // of all nodes that are refused, and of ops that are not supported
};

// The inputs of an import besides the model.
struct ImportOptions {
  // Replaces the symbolic first dim of the inputs. Without it a symbolic dim is an error.
  std::optional<int64_t> globalBatch;
  std::string batchName = "global_batch"; // how errors call it
  // A larger batch, for which the model is imported once more, as @larger_forward, if it can be; 0: none.
  int64_t largerBatch = 0;
  // Sizes of symbolic dims of the inputs, by name. A name that no input has is an error.
  llvm::StringMap<int64_t> dims;
  // Sizes of single open dims, by the input's name and the dim; they come first.
  std::map<std::pair<std::string, int64_t>, int64_t> inputDims;
  // Inputs whose values are known: they are constants of the program.
  std::vector<job::KnownInput> inputs;
  // Dropout draws a mask (from @ashlar.seed and @ashlar.step) instead of passing its input on; the product with the mask is marked
  // nn.training_only.
  bool training = false;
  // Masks and tables are constants of the program, and no parameters (weights/buffers.h), as with `training`.
  bool findsBuffers = false;
  // A model without a parameter that is trained is an error.
  bool needsParameters = false;
  // QuantizeLinear has the gradient of the identity within its range where a DequantizeLinear reads it.
  bool straightThrough = false;
  // First values of parameters; the first rule that matches wins. A graph input that a rule matches and that has no data becomes a
  // parameter; data in the model gives way to a rule that matches.
  std::vector<job::Init> init;
  // Globs of parameters that are not trained. One that matches none is an error.
  std::vector<std::string> frozen;
  // Globs of float initializers that are parameters though they look like buffers (buffers.h). One that matches no parameter is an error.
  std::vector<std::string> trained;
  // Parameter -> the one that it is, whose numbers it has (tied_weights.h).
  llvm::StringMap<std::string> ties;
  // Globs of initializers that the exporter merged of several parameters and that become one a use; one that matches none is an error.
  std::vector<std::string> untie;
  // Whether parameters that the model shows to be merged are taken apart, too.
  bool untieAuto = true;
  // Whether running variances take n / (n - 1) of the batch's in training; nothing: decided by the model, or its producer.
  std::optional<bool> unbiasedVariance;
  // The tensor of the loss; "" without one.
  std::string loss;
  // Graph inputs that the data set feeds: never parameters, whatever the rules in `init` match.
  std::vector<std::string> dataInputs;
  // For models of mode HYBRID; the collectives of the domain ai.ashlar.dist are refused without. `mode` is the job's, for that error.
  std::optional<LocalModel> local;
  std::string mode = "STAND_ALONE";
  // Annotations become the module's rules (dist.rules). Without a choice there is a warning when the model has any.
  std::optional<AnnotationChoice> annotations;
  // Receives the facts on the model, where it is given; then no remark lists the buffers among the initializers.
  ModelFacts *facts = nullptr;
  // Is called with each file next to the model that holds data of an initializer, before it is opened.
  std::function<llvm::Error(llvm::StringRef path)> checkDataFile;
};

// Returns the import options of a checked job. `annotations` and `local` are left out: they need a mesh.
ImportOptions makeImportOptions(const job::Job &job);

// Reads the model and returns it as a verified module. An error is one line that opens with the path. Loads the dialects it needs.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> importOnnx(llvm::StringRef path, const ImportOptions &options,
                                                             mlir::MLIRContext *context);

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_IMPORT_H
