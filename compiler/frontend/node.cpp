// SPDX-License-Identifier: Apache-2.0
//
// Access to a node's inputs, attributes and results.

#include "compiler/frontend/node.h"

#include "compiler/frontend/registry.h"
#include "compiler/frontend/tensor_data.h"
#include "dialects/support/integer_type.h"
#include "dialects/support/tensor_values.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace ashlar::frontend {

namespace {

constexpr int64_t kMostDims = 1024; // more axes or sizes than this come from a broken model

// What to do about an op that may not read a tensor with a counted dim.
constexpr StringLiteral kCountedRemedy = "keep the original tensor, and a mask of the selection";

} // namespace

std::string elementName(Type element) {
  if (element.isInteger(1)) {
    return "bool";
  }
  if (element.isUnsignedInteger()) {
    return "u" + std::to_string(element.getIntOrFloatBitWidth());
  }
  std::string name;
  llvm::raw_string_ostream(name) << element;
  return name;
}

std::string describeTensor(RankedTensorType type) {
  return "[" + llvm::join(llvm::map_range(type.getShape(), [](int64_t d) { return std::to_string(d); }), ", ") + "] of " +
         elementName(type.getElementType());
}

std::string nodePath(const onnx::NodeProto &node, int index) {
  StringRef name = StringRef(node.name()).ltrim('/');
  return name.empty() ? node.op_type() + "_" + std::to_string(index) : name.str();
}

std::string Node::describeFault(const Twine &fact) const {
  return ("node \"" + path + "\" (" + proto.op_type() + ", opset " + Twine(info.opset) + "): " + fact).str();
}

void Node::fail(const Twine &fact) const {
  throw ImportError(describeFault(fact));
}

void Node::failBudget(const Twine &fact) const {
  throw BudgetError(describeFault(fact));
}

void Node::ask(size_t index) const {
  if (index < numInputs()) {
    askedInputs.resize(numInputs());
    askedInputs.set(index);
  }
}

bool Node::hasInput(size_t index) const {
  ask(index);
  return isGiven(index);
}

Value Node::input(size_t index) const {
  if (!hasInput(index)) {
    fail("input " + Twine(index) + " is missing");
  }
  return values.getValue(proto.input(index));
}

RankedTensorType Node::inputType(size_t index) const {
  if (!hasInput(index)) {
    fail("input " + Twine(index) + " is missing");
  }
  return values.getType(proto.input(index));
}

DenseElementsAttr Node::constantInput(size_t index) const {
  ask(index);
  return peekConstant(index);
}

DenseElementsAttr Node::peekConstant(size_t index) const {
  return isGiven(index) ? values.getConstant(proto.input(index)) : DenseElementsAttr();
}

SmallVector<int64_t> Node::intsInput(size_t index, StringRef name) const {
  DenseElementsAttr constant = constantInput(index);
  if (!constant || !constant.getElementType().isIntOrIndex() || constant.getType().getRank() > 1 || constant.getNumElements() > kMostDims) {
    fail("input \"" + name + "\" has to be a list of integers known at compile time" + whyUnknown());
  }
  return llvm::map_to_vector(constant.getValues<APInt>(), [&](const APInt &v) { return integerValue(constant.getElementType(), v); });
}

onnx::AttributeProto *Node::findAttribute(StringRef name) const {
  for (onnx::AttributeProto &attribute : *proto.mutable_attribute()) {
    if (name == attribute.name()) {
      return &attribute;
    }
  }
  return nullptr;
}

onnx::AttributeProto *Node::askAttribute(StringRef name, onnx::AttributeProto::AttributeType type) {
  asked.insert(name);
  onnx::AttributeProto *attribute = findAttribute(name);
  if (attribute && attribute->type() != type) {
    fail("attribute \"" + name + "\" has type " + onnx::AttributeProto_AttributeType_Name(attribute->type()) + ", not " +
         onnx::AttributeProto_AttributeType_Name(type));
  }
  return attribute;
}

void Node::copyAttributes(onnx::NodeProto &other) {
  for (const onnx::AttributeProto &attribute : proto.attribute()) {
    asked.insert(attribute.name());
    *other.add_attribute() = attribute;
  }
}

int64_t Node::getInt(StringRef name, int64_t byDefault) {
  const onnx::AttributeProto *attribute = askAttribute(name, onnx::AttributeProto::INT);
  return attribute ? attribute->i() : byDefault;
}

double Node::getFloat(StringRef name, double byDefault) {
  const onnx::AttributeProto *attribute = askAttribute(name, onnx::AttributeProto::FLOAT);
  return attribute ? attribute->f() : byDefault;
}

std::string Node::getString(StringRef name, StringRef byDefault) {
  const onnx::AttributeProto *attribute = askAttribute(name, onnx::AttributeProto::STRING);
  return attribute ? attribute->s() : byDefault.str();
}

SmallVector<int64_t> Node::getInts(StringRef name) {
  const onnx::AttributeProto *attribute = askAttribute(name, onnx::AttributeProto::INTS);
  return attribute ? SmallVector<int64_t>(attribute->ints().begin(), attribute->ints().end()) : SmallVector<int64_t>();
}

SmallVector<float> Node::getFloats(StringRef name) {
  const onnx::AttributeProto *attribute = askAttribute(name, onnx::AttributeProto::FLOATS);
  return attribute ? SmallVector<float>(attribute->floats().begin(), attribute->floats().end()) : SmallVector<float>();
}

std::vector<std::string> Node::getStrings(StringRef name) {
  const onnx::AttributeProto *attribute = askAttribute(name, onnx::AttributeProto::STRINGS);
  return attribute ? std::vector<std::string>(attribute->strings().begin(), attribute->strings().end()) : std::vector<std::string>();
}

Type Node::getElementType(StringRef name, Type byDefault) {
  const onnx::AttributeProto *attribute = askAttribute(name, onnx::AttributeProto::INT);
  if (!attribute) {
    return byDefault;
  }
  constexpr int64_t kNone = onnx::TensorProto::UNDEFINED;
  int64_t type = llvm::isInt<32>(attribute->i()) ? attribute->i() : kNone;
  return convertElementType(static_cast<int32_t>(type), builder().getContext(), "node \"" + path + "\"");
}

onnx::GraphProto *Node::getGraph(StringRef name) {
  onnx::AttributeProto *attribute = askAttribute(name, onnx::AttributeProto::GRAPH);
  return attribute ? attribute->mutable_g() : nullptr;
}

onnx::SparseTensorProto *Node::getSparseTensor(StringRef name) {
  onnx::AttributeProto *attribute = askAttribute(name, onnx::AttributeProto::SPARSE_TENSOR);
  return attribute ? attribute->mutable_sparse_tensor() : nullptr;
}

onnx::TensorProto *Node::getTensor(StringRef name) {
  onnx::AttributeProto *attribute = askAttribute(name, onnx::AttributeProto::TENSOR);
  return attribute ? attribute->mutable_t() : nullptr;
}

int64_t Node::normalizeAxis(int64_t axis, int64_t limit) const {
  if (axis < -limit || axis >= limit) {
    fail("axis " + Twine(axis) + " is not in [" + Twine(-limit) + ", " + Twine(limit) + ")");
  }
  return axis < 0 ? axis + limit : axis;
}

int64_t Node::getAxis(StringRef name, int64_t byDefault, int64_t limit) {
  return normalizeAxis(getInt(name, byDefault), limit);
}

void Node::setResult(size_t index, Value value) {
  if (hasResult(index)) {
    values.define(proto.output(index), value);
  }
}

void Node::setResult(size_t index, DenseElementsAttr constant) {
  if (hasResult(index)) {
    values.define(proto.output(index), constant);
  }
}

void Node::aliasResult(size_t index, size_t input) {
  if (!hasInput(input)) {
    fail("input " + Twine(input) + " is missing");
  }
  if (hasResult(index)) {
    values.alias(proto.output(index), proto.input(input));
  }
}

void Node::setSequence(size_t index, std::vector<std::string> elements) {
  if (hasResult(index)) {
    values.defineSequence(proto.output(index), std::move(elements));
  }
}

const std::vector<std::string> &Node::sequenceInput(size_t index) const {
  const std::vector<std::string> *sequence = hasInput(index) ? values.getSequence(proto.input(index)) : nullptr;
  if (!sequence) {
    fail("input " + Twine(index) + " is no sequence");
  }
  return *sequence;
}

StringRef Node::uniqueName() const {
  for (const std::string &output : proto.output()) {
    if (!output.empty()) {
      return output;
    }
  }
  return path;
}

std::string Node::qualifiedOpType() const {
  return frontend::qualifiedOpType(proto);
}

Location Node::location() const {
  return values.locationOf(path);
}

void Node::checkSize(ArrayRef<int64_t> shape, Type element) const {
  if (std::string fault = findSizeFault(shape, element); !fault.empty()) {
    fail(fault);
  }
}

std::string Node::whyUnknown() const {
  const std::string &node = info.budget.tooLong;
  return node.empty()
             ? ""
             : ("; node \"" + node + "\" would take more than the " + Twine(ImportBudget::kElements) + " steps that are taken at import")
                   .str();
}

void Node::followCounts() const {
  Block *block = builder().getInsertionBlock();
  if (std::optional<CountedDims::Fault> fault = info.counted.advance(*block)) {
    failCounted(*fault);
  }
}

void Node::failCounted(const CountedDims::Fault &fault) const {
  std::string name = "an input";
  for (size_t i = 0; i < numInputs(); ++i) {
    if (isGiven(i) && (peekValue(i) == fault.operand || name == "an input") && !info.counted.of(peekValue(i)).empty()) {
      name = "input " + std::to_string(i) + " \"" + proto.input(i) + "\"";
    }
  }
  fail(name + " has at most " + Twine(shapeOf(fault.operand)[fault.dim]) + " elements along a dim, how many only a run finds, and the op " +
       fault.why + "; " + kCountedRemedy);
}

Node::BodyCounts::BodyCounts(const Node &node, Block &body, ValueRange carried, ValueRange sliced)
    : node(node), body(body), carried(carried.size()) {
  node.followCounts();
  CountedDims &counted = node.info.counted;
  for (Value value : sliced) {
    if (ArrayRef<Value> counts = counted.of(value); !counts.empty() && counts[0]) {
      node.failCounted({value, 0, CountedDims::kMixes.str()});
    }
  }
  counted.enter(body);
  for (auto [i, value] : llvm::enumerate(llvm::concat<const Value>(SmallVector<Value>(carried), SmallVector<Value>(sliced)))) {
    SmallVector<Value> counts(counted.of(value));
    for (auto [d, count] : llvm::enumerate(ArrayRef(counts).drop_front(i < carried.size() || counts.empty() ? 0 : 1))) {
      if (count) {
        counted.declare(body.getArgument(i), static_cast<int64_t>(d), count);
      }
    }
  }
}

void Node::BodyCounts::handOn(ValueRange yielded, ValueRange results) const {
  CountedDims &counted = node.info.counted;
  for (auto [i, value, result] : llvm::enumerate(yielded, results)) {
    SmallVector<Value> counts(counted.of(value));
    if (i < carried && ArrayRef(counts) != counted.of(body.getArgument(i))) {
      node.fail("state " + Twine(i) + " gets other sizes that only a run finds in its body; a state keeps them");
    }
    for (auto [d, count] : llvm::enumerate(counts)) {
      if (count && count.getParentBlock() == &body) {
        node.fail("result " + Twine(i) + " of its body has a dim whose size each iteration finds; " + kCountedRemedy);
      }
      if (count) {
        counted.declare(result, static_cast<int64_t>(i < carried ? d : d + 1), count);
      }
    }
  }
}

SmallVector<Value> Node::countsOf(Value value) const {
  asksForCounts = true;
  followCounts();
  return SmallVector<Value>(info.counted.of(value));
}

Value Node::inputCount(size_t index, int64_t dim) const {
  Value value = peekValue(index);
  SmallVector<Value> counts = value ? countsOf(value) : SmallVector<Value>();
  return counts.empty() ? Value() : counts[dim];
}

void Node::setCount(Value value, int64_t dim, Value count) const {
  followCounts();
  info.counted.declare(value, dim, count);
}

void Node::settle(Value value, int64_t dim) const {
  followCounts();
  info.counted.settle(value, dim);
}

SmallVector<std::pair<size_t, unsigned>> Node::countedInputs() const {
  SmallVector<std::pair<size_t, unsigned>> inputs;
  for (size_t i = 0; i < numInputs(); ++i) {
    Value value = peekValue(i);
    if (value && !info.counted.of(value).empty()) {
      inputs.push_back({i, llvm::range_size(value.getUses())});
    }
  }
  return inputs;
}

void Node::checkCountedInputs(ArrayRef<std::pair<size_t, unsigned>> before) const {
  followCounts();
  for (auto [i, uses] : before) {
    Value value = peekValue(i);
    bool isPassedOn = false;
    for (size_t result = 0; result < numResults(); ++result) {
      isPassedOn |= peekResult(result) == value;
    }
    if (!asksForCounts && !isPassedOn && llvm::range_size(value.getUses()) == uses) {
      fail("takes the shape of input " + Twine(i) + " \"" + proto.input(i) + "\", which only a run finds; " + kCountedRemedy);
    }
  }
}

void Node::spend(int64_t elements) const {
  if (!info.budget.spend(elements)) {
    failBudget("computes with constants of so many elements that the model exceeds the " + Twine(ImportBudget::kElements) +
               " that are handled at import; make them parameters or inputs");
  }
}

// The handlers check what ONNX says about shapes. Which element types an op has is for its own verifier to know, whose text is about nn.
void Node::checkCreated(Operation *op) const {
  for (Type type : op->getResultTypes()) {
    auto tensor = cast<RankedTensorType>(type);
    checkSize(tensor.getShape(), tensor.getElementType());
  }
  ScopedDiagnosticHandler silence(op->getContext(), [](Diagnostic &) { return success(); });
  if (succeeded(op->getName().verifyInvariants(op))) {
    return;
  }
  std::vector<std::string> types;
  for (size_t i = 0; i < numInputs(); ++i) {
    if (isGiven(i)) {
      types.push_back(describeTensor(peekType(i)));
    }
  }
  fail("cannot compute with inputs " + llvm::join(types, ", "));
}

void Node::checkOutputs() const {
  if (llvm::all_of(proto.output(), [](const std::string &name) { return name.empty(); })) {
    fail("has no output");
  }
}

void Node::checkComplete(bool isExpanded) const {
  for (const onnx::AttributeProto &attribute : proto.attribute()) {
    if (!asked.contains(attribute.name())) {
      fail("attribute \"" + attribute.name() + "\" is not supported");
    }
  }
  for (size_t i = 0; i < numInputs(); ++i) {
    if (isGiven(i) && (i >= askedInputs.size() || !askedInputs.test(i))) {
      fail("input " + Twine(i) + " \"" + proto.input(i) + "\" is not supported");
    }
  }
  for (size_t i = 0; i < numResults(); ++i) {
    if (!isExpanded && hasResult(i) && !values.isDefined(proto.output(i))) {
      fail("output " + Twine(i) + " \"" + proto.output(i) + "\" is not supported");
    }
  }
}

} // namespace ashlar::frontend
