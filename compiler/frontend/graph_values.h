// SPDX-License-Identifier: Apache-2.0
//
// The meanings of the names of an ONNX graph: values of @forward, constants known at import, parameters. Constants and parameters reach the
// function body only where an op computes with them, so values that only steer the import leave no trace.

#ifndef ASHLAR_COMPILER_FRONTEND_GRAPH_VALUES_H
#define ASHLAR_COMPILER_FRONTEND_GRAPH_VALUES_H

#include "dialects/nn/nn.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ashlar::frontend {

class GraphValues {
public:
  // Variables are declared before `function`, in the order of their first use; constants and reads are created where `builder` stands.
  GraphValues(mlir::Operation *function, mlir::OpBuilder &builder) : function(function), builder(builder) {}

  // Defines a name; throws when it is defined already.
  void define(llvm::StringRef name, mlir::Value value);
  void define(llvm::StringRef name, mlir::DenseElementsAttr constant);
  // A parameter: `makeInit` is called once, when something reads it.
  void defineParameter(llvm::StringRef name, mlir::RankedTensorType type, std::function<mlir::Attribute()> makeInit);
  // A sequence of the tensors that have these names.
  void defineSequence(llvm::StringRef name, std::vector<std::string> elements);
  // Makes `name` an alias of `other`.
  void alias(llvm::StringRef name, llvm::StringRef other);

  // Takes a name back, so that it can be defined again.
  void forget(llvm::StringRef name) { entries.erase(name); }

  // Returns how many names have been defined; takes the ones back that were defined behind so many.
  size_t countDefined() const { return defined.size(); }
  void forgetBehind(size_t count);

  bool isDefined(llvm::StringRef name) const { return entries.contains(name); }

  // Returns the parameter behind a name, an alias' too; "" for anything else. Throws for an unknown name.
  llvm::StringRef getParameter(llvm::StringRef name);

  // Makes the parameter behind a name a state: the model keeps it, and nothing trains it. Throws when something has read it as a parameter.
  void keepAsState(llvm::StringRef name);

  // Makes a constant of a name that is defined as a value.
  void replace(llvm::StringRef name, mlir::DenseElementsAttr constant);

  // While one is there, each use of a constant gets an op of its own, where the builder stands.
  class FreshConstants {
  public:
    explicit FreshConstants(GraphValues &values) : values(values) { values.freshConstants = true; }
    ~FreshConstants() { values.freshConstants = false; }
    FreshConstants(const FreshConstants &) = delete;
    FreshConstants &operator=(const FreshConstants &) = delete;

  private:
    GraphValues &values;
  };

  // The body of a repeat that is being imported: what stands in `block` may be of any iteration. Constants get ops of their own in it,
  // reads of variables stand outside of all bodies, and tensors of rows, one an iteration, come in as further arguments.
  struct Body {
    std::unique_ptr<mlir::Block> block;
    int64_t count;
    bool reversed;
    llvm::SmallVector<mlir::Value> sliced; // also by the first arguments behind the carried ones
  };

  // While one is there, the builder stands in a body. A body that is left by an error is kept until the end, without its uses of values:
  // no other value gets the address of one of its own.
  class BodyScope {
  public:
    BodyScope(GraphValues &values, Body &body);
    ~BodyScope();
    BodyScope(const BodyScope &) = delete;
    BodyScope &operator=(const BodyScope &) = delete;

  private:
    GraphValues &values;
    mlir::OpBuilder::InsertPoint outside;
    int exceptions;
  };

  bool isInBody() const { return !bodies.empty(); }

  // Returns how many iterations the op where the builder stands has, in all bodies around it.
  int64_t countIterations() const;

  // Returns an element for each iteration, in the order in which they run, where the builder stands: a scalar. Assumes countIterations()
  // elements.
  mlir::Value perIteration(mlir::Type element, llvm::ArrayRef<llvm::APInt> elements);

  // The value of a name, created now when need be. Throws for an unknown name.
  mlir::Value getValue(llvm::StringRef name);

  // The value of a name; null when it has none yet, and for an unknown name.
  mlir::Value peekValue(llvm::StringRef name) const { return entries.lookup(name).value; }

  // The tensors of a sequence; null for anything else. Throws for an unknown name.
  const std::vector<std::string> *getSequence(llvm::StringRef name);

  // The constant behind a name, null for anything else. Throws for an unknown name.
  mlir::DenseElementsAttr getConstant(llvm::StringRef name);

  // The type of a name's value. Throws for an unknown name, and for a sequence.
  mlir::RankedTensorType getType(llvm::StringRef name);

  // A tensor as rules name it.
  struct Tensor {
    std::string name;
    mlir::RankedTensorType type;
  };

  // Returns the tensor of the module behind a name: the parameter, input, or value, by the first of its names. Nothing for a constant, and
  // for a value that no node computes with.
  std::optional<Tensor> describe(llvm::StringRef name) const;

  // The value of an i64 scalar at module level, which is declared on first use (with the first value `init`, when there is one).
  mlir::Value readScalarVariable(llvm::StringRef name, std::optional<int64_t> init);

  mlir::OpBuilder &getBuilder() { return builder; }
  mlir::Location locationOf(llvm::StringRef path);

private:
  struct Entry {
    mlir::Value value; // null until something computes with the name
    mlir::DenseElementsAttr constant;
    mlir::RankedTensorType parameterType;
    std::function<mlir::Attribute()> makeInit;
    std::string parameter; // its name, which an alias keeps
    std::optional<std::vector<std::string>> sequence;
  };
  Entry &find(llvm::StringRef name);
  Entry &findTensor(llvm::StringRef name);
  Entry &add(llvm::StringRef name);
  void addName(mlir::Value value, llvm::StringRef name);
  mlir::Value readParameter(const Entry &entry);
  // The role of a variable: trained, kept by the model, or by the compiler.
  enum class Role { Parameter, State, Internal };
  void declareVariable(llvm::StringRef name, mlir::RankedTensorType type, mlir::Attribute init, Role role);

  // Returns a builder outside of all bodies.
  mlir::OpBuilder outsideBuilder() const;

  mlir::Operation *function;
  mlir::OpBuilder &builder;
  std::vector<std::unique_ptr<mlir::Block>> discarded; // first: what refers to its values goes before it
  llvm::SmallVector<Body *> bodies;                    // that are being imported, the outermost first
  mlir::OpBuilder::InsertPoint outside;                // of all of them
  bool freshConstants = false;
  llvm::StringMap<Entry> entries;
  std::vector<std::string> defined;   // all names, in the order of their definition
  llvm::StringMap<mlir::Value> reads; // parameter or scalar variable -> its one nn.read
  llvm::StringSet<> states;           // parameters that nothing trains
};

} // namespace ashlar::frontend

#endif // ASHLAR_COMPILER_FRONTEND_GRAPH_VALUES_H
