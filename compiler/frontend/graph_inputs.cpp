// SPDX-License-Identifier: Apache-2.0

#include "compiler/frontend/graph_inputs.h"

#include "compiler/frontend/import_error.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlir;

namespace ashlar::frontend {

namespace {

std::string quotedList(ArrayRef<std::string> names) {
  return names.empty() ? "none" : "\"" + llvm::join(names, "\", \"") + "\"";
}

std::vector<std::string> namesOf(ArrayRef<const onnx::ValueInfoProto *> inputs) {
  std::vector<std::string> names;
  for (const onnx::ValueInfoProto *input : inputs) {
    names.push_back(input->name());
  }
  return names;
}

const onnx::ValueInfoProto *findInput(ArrayRef<const onnx::ValueInfoProto *> inputs, StringRef name) {
  const auto *found = llvm::find_if(inputs, [&](const onnx::ValueInfoProto *input) { return input->name() == name; });
  return found == inputs.end() ? nullptr : *found;
}

// Checks sizes that are given by the name of a dim.
void checkNamedDims(ArrayRef<const onnx::ValueInfoProto *> inputs, const ImportOptions &options) {
  std::vector<std::string> symbols;
  for (const onnx::ValueInfoProto *input : inputs) {
    for (const Dimension &dim : input->type().tensor_type().shape().dim()) {
      if (!dim.dim_param().empty() && !llvm::is_contained(symbols, dim.dim_param())) {
        symbols.push_back(dim.dim_param());
      }
    }
  }
  for (const auto &dim : options.dims) {
    if (!llvm::is_contained(symbols, dim.first())) {
      throw ImportError("dims \"" + dim.first() + "\" names no symbolic dim of an input; there are " + quotedList(symbols));
    }
  }
}

// Checks sizes that are given by an input and a place.
void checkPlacedDims(ArrayRef<const onnx::ValueInfoProto *> inputs, const ImportOptions &options) {
  for (const auto &[place, size] : options.inputDims) {
    const std::string what = llvm::formatv("dims gives dim {0} of input \"{1}\" the size {2}", place.second, place.first, size);
    const onnx::ValueInfoProto *input = findInput(inputs, place.first);
    if (!input) {
      throw ImportError(what + " but there is no such input; there are " + quotedList(namesOf(inputs)));
    }
    const onnx::TensorShapeProto &shape = input->type().tensor_type().shape();
    if (place.second >= shape.dim_size()) {
      throw ImportError(what + " but its rank is " + Twine(shape.dim_size()));
    }
    const Dimension &dim = shape.dim(static_cast<int>(place.second));
    if (!isOpen(dim)) {
      throw ImportError(what + " but the model gives it the size " + Twine(dim.dim_value()) + "; leave it out of dims in the job");
    }
  }
}

void checkKnownInputs(ArrayRef<const onnx::ValueInfoProto *> inputs, const ImportOptions &options) {
  for (const job::KnownInput &known : options.inputs) {
    if (!findInput(inputs, known.name())) {
      throw ImportError("inputs gives \"" + known.name() + "\" a value but there is no such input; there are " +
                        quotedList(namesOf(inputs)));
    }
    if (llvm::is_contained(options.dataInputs, known.name())) {
      throw ImportError("inputs gives \"" + known.name() + "\" a value but the dataset feeds it; leave out one of the two in the job");
    }
  }
}

// Returns a number as an element; throws where the type does not hold it.
template <typename Fail> Attribute makeElement(Type type, double number, const Fail &fail) {
  if (auto floats = dyn_cast<FloatType>(type)) {
    llvm::APFloat value(number);
    bool losesInfo = false;
    value.convert(floats.getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven, &losesInfo);
    if (!value.isFinite()) {
      fail(number);
    }
    return FloatAttr::get(type, value);
  }
  auto integer = cast<IntegerType>(type);
  const bool hasSign = integer.isSignless() && integer.getWidth() > 1;
  constexpr int kExactBits = 53; // a job writes numbers as f64
  const double most = std::ldexp(1.0, std::min(kExactBits, static_cast<int>(integer.getWidth() - (hasSign ? 1 : 0))));
  if (number != std::floor(number) || number >= most || number < (hasSign ? -most : 0)) {
    fail(number);
  }
  const llvm::APInt value = hasSign ? llvm::APInt(integer.getWidth(), static_cast<int64_t>(number), /*isSigned=*/true)
                                    : llvm::APInt(integer.getWidth(), static_cast<uint64_t>(number));
  return IntegerAttr::get(type, value);
}

} // namespace

std::vector<const onnx::ValueInfoProto *> inputsWithoutData(const onnx::GraphProto &graph) {
  llvm::StringSet<> initializers;
  for (const onnx::TensorProto &initializer : graph.initializer()) {
    initializers.insert(initializer.name());
  }
  for (const onnx::SparseTensorProto &initializer : graph.sparse_initializer()) {
    initializers.insert(initializer.values().name());
  }
  std::vector<const onnx::ValueInfoProto *> inputs;
  for (const onnx::ValueInfoProto &input : graph.input()) {
    if (!initializers.contains(input.name())) {
      inputs.push_back(&input);
    }
  }
  return inputs;
}

bool isOpen(const Dimension &dim) {
  return !dim.has_dim_value() || dim.dim_value() == -1;
}

StringRef symbolOf(const Dimension &dim) {
  StringRef name = dim.dim_param();
  const bool isName = name != "-1" && name != "None" && llvm::any_of(name, [](char c) { return llvm::isAlnum(c) || c == '_'; });
  return isName ? name : "";
}

std::optional<int64_t> givenSize(const onnx::ValueInfoProto &value, int index, const ImportOptions &options) {
  const Dimension &dim = value.type().tensor_type().shape().dim(index);
  if (!isOpen(dim)) {
    return dim.dim_value();
  }
  if (auto placed = options.inputDims.find({value.name(), index}); placed != options.inputDims.end()) {
    return placed->second;
  }
  auto named = options.dims.find(dim.dim_param());
  return named == options.dims.end() ? std::nullopt : std::optional(named->second);
}

std::string dimEntry(const onnx::ValueInfoProto &input, int index) {
  StringRef symbol = symbolOf(input.type().tensor_type().shape().dim(index));
  return symbol.empty() ? llvm::formatv("dims {{ input: \"{0}\" dim: {1} size: 128 }", input.name(), index).str()
                        : llvm::formatv("dims {{ name: \"{0}\" size: 128 }", symbol).str();
}

void checkGivenInputs(const onnx::GraphProto &graph, const ImportOptions &options) {
  const std::vector<const onnx::ValueInfoProto *> inputs = inputsWithoutData(graph);
  checkNamedDims(inputs, options);
  checkPlacedDims(inputs, options);
  checkKnownInputs(inputs, options);
}

DenseElementsAttr knownValue(StringRef input, RankedTensorType type, const ImportOptions &options) {
  const auto known = llvm::find_if(options.inputs, [&](const job::KnownInput &each) { return each.name() == input; });
  if (known == options.inputs.end()) {
    return {};
  }
  std::string typeText;
  llvm::raw_string_ostream(typeText) << type.getElementType();
  if (known->value_size() != 1 && known->value_size() != type.getNumElements()) {
    throw ImportError("inputs gives \"" + input + "\" " + Twine(known->value_size()) + " numbers but it has " +
                      Twine(type.getNumElements()) + " elements; give one number, or one for each element");
  }
  auto fail = [&](double number) {
    throw ImportError(
        llvm::formatv("inputs gives \"{0}\" the value {1}, which {2} does not hold exactly", input, llvm::format("%.17g", number), typeText)
            .str());
  };
  SmallVector<Attribute> elements;
  for (double number : known->value()) {
    elements.push_back(makeElement(type.getElementType(), number, fail));
  }
  return elements.size() == 1 ? DenseElementsAttr::get(type, elements.front()) : DenseElementsAttr::get(type, elements);
}

} // namespace ashlar::frontend
