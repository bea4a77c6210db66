// SPDX-License-Identifier: Apache-2.0
//
// One node of the graph as its handler sees it: inputs by place, attributes by name, results to be set. Attributes and inputs that a
// handler did not ask for are an error afterwards, so none is ever ignored silently; an op that nn does not have for the types is one at
// once.

#ifndef ASHLAR_COMPILER_FRONTEND_NODE_H
#define ASHLAR_COMPILER_FRONTEND_NODE_H

#include "compiler/frontend/counted_dims.h"
#include "compiler/frontend/graph_values.h"
#include "compiler/frontend/import.h"
#include "compiler/frontend/import_error.h"
#include "compiler/frontend/onnx_proto.h"
#include "compiler/frontend/parameter_rules.h"

#include "dialects/nn/nn.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/SmallBitVector.h"
#include "llvm/ADT/StringSet.h"

#include <functional>
#include <string>
#include <vector>

namespace ashlar::frontend {

// The budget of computation at import of one model, in elements read and written: more than shape arithmetic ever needs, and less than a
// second. A model of a few bytes can describe constants of any size, so code that makes or walks one pays here first.
class ImportBudget {
public:
  static constexpr int64_t kElements = int64_t{1} << 26;

  // Takes `elements` off. Returns whether there was as much.
  bool spend(int64_t elements) { return elements >= 0 && elements <= left ? (left -= elements, true) : false; }

  // The path of the first node over the budget that could be computed at import otherwise; "" when there is none.
  std::string tooLong;

private:
  int64_t left = kElements;
};

// Facts that all nodes of a model share.
struct ModelInfo {
  const ImportOptions &options;
  const ParameterRules &rules; // of the options
  std::string directory;       // the model's, which external data is relative to
  int64_t opset;
  ImportBudget &budget;
  llvm::StringMap<int64_t> &draws; // by path: the nodes that drew random numbers so far, of which the steps of a loop have one path
  CountedDims &counted;
  int64_t &loops;           // the numbers that flat loops have got so far
  llvm::StringSet<> stored; // names of constants of types that are only stored (isStored), and of their moved elements
  bool isByTorch = false;   // one of torch's exporters wrote the model
  // Imports nodes of a body where the values' builder stands. Throws for one that is refused.
  std::function<void(std::vector<onnx::NodeProto> nodes)> importBody = nullptr;
};

// Returns an element type as errors name it: "f32", "bool".
std::string elementName(mlir::Type element);

// Returns a type as errors name it: "[2, 3] of f32".
std::string describeTensor(mlir::RankedTensorType type);

// Returns the module path of a node: its name without a leading slash, or "<OpType>_<index>".
std::string nodePath(const onnx::NodeProto &node, int index);

class Node {
public:
  Node(onnx::NodeProto &proto, std::string path, const ModelInfo &info, GraphValues &values)
      : proto(proto), path(std::move(path)), info(info), values(values) {}

  // Throws an ImportError that names this node.
  [[noreturn]] void fail(const llvm::Twine &fact) const;

  // The same where the model is too long to import, so that no other form of it is tried.
  [[noreturn]] void failBudget(const llvm::Twine &fact) const;

  // Number of inputs given, trailing empty names included.
  size_t numInputs() const { return proto.input_size(); }

  // Returns whether input `index` is there; optional inputs may be left out or have an empty name. Counts as asking for it.
  bool hasInput(size_t index) const;

  // The same, without asking for it.
  bool isGiven(size_t index) const { return index < numInputs() && !proto.input(index).empty(); }

  // Returns the name of an input that is given.
  llvm::StringRef inputName(size_t index) const { return proto.input(index); }

  // Returns the names of the tensors that an input is a sequence of. Fails when it is none.
  const std::vector<std::string> &sequenceInput(size_t index) const;

  // Returns the value of an input, which must be there.
  mlir::Value input(size_t index) const;

  // Returns the parameter of the model that an input is; "" when it is none. Does not count as asking for it.
  llvm::StringRef parameterOf(size_t index) const { return isGiven(index) ? values.getParameter(proto.input(index)) : llvm::StringRef(); }

  // Makes the parameter that an input is a state, which nothing trains.
  void keepAsState(size_t index) const { values.keepAsState(proto.input(index)); }

  // Returns the value of an input that is given; null where it has none yet. Does not count as asking for it.
  mlir::Value peekValue(size_t index) const { return isGiven(index) ? values.peekValue(proto.input(index)) : mlir::Value(); }

  // Returns the type of an input without computing it.
  mlir::RankedTensorType inputType(size_t index) const;

  // The same for an input that is given, without asking for it.
  mlir::RankedTensorType peekType(size_t index) const { return values.getType(proto.input(index)); }

  // Returns the value of an input that is known at import, null otherwise.
  mlir::DenseElementsAttr constantInput(size_t index) const;

  // The same, without asking for the input.
  mlir::DenseElementsAttr peekConstant(size_t index) const;

  // Whether an input holds numbers of a type that is only stored.
  bool isStoredInput(size_t index) const { return isGiven(index) && info.stored.contains(proto.input(index)); }

  // Returns the integers of an input (rank 0 or 1) that has to be known at import; `name` is the ONNX name of the input.
  llvm::SmallVector<int64_t> intsInput(size_t index, llvm::StringRef name) const;

  // Gives `other` all attributes of this node, which counts as asking for them.
  void copyAttributes(onnx::NodeProto &other);

  // Returns whether the attribute is there. Does not count as asking for it.
  bool hasAttribute(llvm::StringRef name) const { return findAttribute(name) != nullptr; }

  // Attributes, with a default for where they are left out.
  int64_t getInt(llvm::StringRef name, int64_t byDefault);
  double getFloat(llvm::StringRef name, double byDefault);
  std::string getString(llvm::StringRef name, llvm::StringRef byDefault);
  llvm::SmallVector<int64_t> getInts(llvm::StringRef name);
  llvm::SmallVector<float> getFloats(llvm::StringRef name);
  std::vector<std::string> getStrings(llvm::StringRef name);
  mlir::Type getElementType(llvm::StringRef name, mlir::Type byDefault);
  onnx::TensorProto *getTensor(llvm::StringRef name);             // null without
  onnx::GraphProto *getGraph(llvm::StringRef name);               // null without
  onnx::SparseTensorProto *getSparseTensor(llvm::StringRef name); // null without

  // Returns axis `name` (default `byDefault`) counted from the front; `limit` is one past the largest.
  int64_t getAxis(llvm::StringRef name, int64_t byDefault, int64_t limit);

  // Returns `axis`, counted from the back when negative, as counted from the front; fails when it is not in [-limit, limit).
  int64_t normalizeAxis(int64_t axis, int64_t limit) const;

  // Returns whether somebody may read result `index`.
  bool hasResult(size_t index) const { return index < static_cast<size_t>(proto.output_size()) && !proto.output(index).empty(); }
  size_t numResults() const { return proto.output_size(); }

  // Returns the name of result `index`, which somebody may read.
  llvm::StringRef resultName(size_t index) const { return proto.output(index); }

  // Returns a prefix that only names of this node have.
  llvm::StringRef uniqueName() const;

  // Defines result `index`: a value, a constant, or another name for input `input`.
  void setResult(size_t index, mlir::Value value);
  void setResult(size_t index, mlir::DenseElementsAttr constant);
  void aliasResult(size_t index, size_t input);
  // A sequence of the tensors with these names.
  void setSequence(size_t index, std::vector<std::string> elements);

  // Returns the value that result `index` was set to; null when it was set to none, or when nobody may read it.
  mlir::Value peekResult(size_t index) const { return hasResult(index) ? values.peekValue(proto.output(index)) : mlir::Value(); }

  // Makes result `index`, a value, a constant.
  void replaceResult(size_t index, mlir::DenseElementsAttr constant) { values.replace(proto.output(index), constant); }

  // The names of the graph, for a handler that imports a body in place: their meanings as for inputs, and new ones.
  bool isDefined(llvm::StringRef name) const { return values.isDefined(name); }
  bool isSequence(llvm::StringRef name) const { return values.getSequence(name) != nullptr; }
  bool isConstant(llvm::StringRef name) const { return static_cast<bool>(values.getConstant(name)); }
  mlir::DenseElementsAttr constantOf(llvm::StringRef name) const { return values.getConstant(name); }
  mlir::Value valueOf(llvm::StringRef name) const { return values.getValue(name); }
  void define(llvm::StringRef name, mlir::Value value) const { values.define(name, value); }

  // Imports nodes of a body where the builder stands. Throws for one that is refused.
  void importBody(std::vector<onnx::NodeProto> nodes) const { info.importBody(std::move(nodes)); }

  // Returns the count of each dim of a value (counted_dims.h), null for a dim of fixed size; nothing where all are. A handler that asks for
  // them has to handle them in its use of input sizes.
  llvm::SmallVector<mlir::Value> countsOf(mlir::Value value) const;

  // The same of one dim of an input, without computing the input.
  mlir::Value inputCount(size_t index, int64_t dim) const;

  // Marks only the first `count` elements, an i64 scalar, of dim `dim` of a value as valid; or all.
  void setCount(mlir::Value value, int64_t dim, mlir::Value count) const;
  void settle(mlir::Value value, int64_t dim) const;

  // While one is there, followCounts() follows the ops of a body. The arguments of it that stand for `carried` values and the rows of
  // `sliced` tensors have the counted dims of these. Fails where the rows are counted themselves.
  class BodyCounts {
  public:
    BodyCounts(const Node &node, mlir::Block &body, mlir::ValueRange carried, mlir::ValueRange sliced);
    ~BodyCounts() { node.info.counted.leave(); }
    BodyCounts(const BodyCounts &) = delete;
    BodyCounts &operator=(const BodyCounts &) = delete;

    // Gives the results of the repeat the counted dims of what its body yields. Fails where a carried value gets other ones, and where an
    // iteration finds a count of its own.
    void handOn(mlir::ValueRange yielded, mlir::ValueRange results) const;

  private:
    const Node &node;
    mlir::Block &body;
    size_t carried;
  };

  // Finds the counted dims of the results of the node's ops. Fails where one may not read a tensor that has one.
  void followCounts() const;

  // Returns the inputs that have a counted dim, with the number of their uses; and fails where the handler took but the type of one.
  llvm::SmallVector<std::pair<size_t, unsigned>> countedInputs() const;
  void checkCountedInputs(llvm::ArrayRef<std::pair<size_t, unsigned>> before) const;

  // Creates an op at the node's location. Fails when its tensors are too large, or when nn does not have the op for these types.
  template <typename Op, typename... Args> Op create(Args &&...args) const {
    Op op = Op::create(values.getBuilder(), location(), std::forward<Args>(args)...);
    checkCreated(op);
    return op;
  }

  // Fails when no tensor can be as large.
  void checkSize(llvm::ArrayRef<int64_t> shape, mlir::Type element) const;

  // Returns the end of an error about an input that is not known at import: the node for which that may be so, if there is one.
  std::string whyUnknown() const;

  // Pays for `elements` that are computed or looked at now; fails when the model asks for too many.
  void spend(int64_t elements) const;

  // Returns the value of a module-level i64 scalar, declared on first use.
  mlir::Value readScalarVariable(llvm::StringRef name, std::optional<int64_t> init) const { return values.readScalarVariable(name, init); }

  // Returns whether the node stands in the body of a repeat.
  bool isInBody() const { return values.isInBody(); }

  // Returns how many iterations of bodies around it the node has, and a scalar with an element for each (GraphValues).
  int64_t countIterations() const { return values.countIterations(); }
  mlir::Value perIteration(mlir::Type element, llvm::ArrayRef<llvm::APInt> elements) const {
    return values.perIteration(element, elements);
  }

  GraphValues &getValues() const { return values; }

  mlir::Location location() const;
  mlir::OpBuilder &builder() const { return values.getBuilder(); }
  llvm::StringRef opType() const { return proto.op_type(); }
  std::string qualifiedOpType() const; // with its domain, as findOp() takes it
  llvm::StringRef getPath() const { return path; }
  int64_t getOpset() const { return info.opset; }
  const ModelInfo &getInfo() const { return info; }

  // Fails when the node has no output.
  void checkOutputs() const;

  // Fails unless every attribute and input was read and every result is defined; a node with an expansion defines them later.
  void checkComplete(bool isExpanded) const;

private:
  std::string describeFault(const llvm::Twine &fact) const;
  void checkCreated(mlir::Operation *op) const;
  [[noreturn]] void failCounted(const CountedDims::Fault &fault) const;
  void ask(size_t index) const;
  onnx::AttributeProto *findAttribute(llvm::StringRef name) const;
  onnx::AttributeProto *askAttribute(llvm::StringRef name, onnx::AttributeProto::AttributeType type);

  onnx::NodeProto &proto;
  std::string path;
  const ModelInfo &info;
  GraphValues &values;
  llvm::StringSet<> asked;
  mutable llvm::SmallBitVector askedInputs;
  mutable bool asksForCounts = false;
};

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_NODE_H
