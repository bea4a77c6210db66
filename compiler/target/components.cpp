// SPDX-License-Identifier: Apache-2.0
//
// Reads the components off the instructions.

#include "compiler/target/components.h"

#include "dialects/exec/exec.h"
#include "passes/lower/calls/library_convolution.h"
#include "passes/lower/calls/library_product.h"
#include "runtime/abi/components.h"

#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/IR/Constants.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"

#include <set>

namespace ashlar::target {
namespace {

// Returns the component with the kernels that an instruction of the cpu target needs; "" for none.
std::string kernelsOf(mlir::Operation *op) {
  return llvm::TypeSwitch<mlir::Operation *, std::string>(op)
      .Case([](exec::GemmOp product) {
        const ashlar_rt_gemm_desc desc = lower::describeProduct(product);
        return desc.bytes != 0 ? "products_bytes" : desc.narrow != 0 ? "products_narrow" : "products_f32";
      })
      .Case([](exec::ConvOp convolution) {
        return lower::describeConvolution(convolution).narrow != 0 ? "convolutions_narrow" : "convolutions_f32";
      })
      .Case([](exec::AttentionOp) { return "attention"; })
      .Case([](exec::CollectiveOp collective) {
        const mlir::Type element = mlir::cast<exec::BufferAttr>(collective.getSources()[0]).getType().getElementType();
        return element.getIntOrFloatBitWidth() <= 16 ? "reductions_narrow" : "";
      })
      .Default([](mlir::Operation *) { return ""; });
}

// Whether samples take more than one scale and one shift, which the conversion of their elements does.
bool hasTransforms(const FeatureInfo &feature) {
  return llvm::any_of(feature.transforms, [](const TransformInfo &transform) {
    const bool isPlain = transform.kind == ASHLAR_RT_RESCALE || transform.kind == ASHLAR_RT_NORMALIZE;
    return !isPlain || transform.numbers.size() != 2;
  });
}

} // namespace

void referToComponents(mlir::ModuleOp program, const ImageInfo &info, llvm::Module &host) {
  std::set<std::string> components = {info.training ? "train" : info.context ? "generate" : "forward"};
  if (info.training && llvm::any_of(info.training->dataset.features, hasTransforms)) {
    components.insert("transforms");
  }
  if (info.training) { // --data may switch to another format
    components.insert("data_" + info.training->dataset.format);
    components.insert("data_" + info.training->dataset.directoryFormat);
  }
  components.erase("data_");
  if (info.target == "cpu") {
    program.walk([&](mlir::Operation *op) { components.insert(kernelsOf(op)); });
    components.erase("");
  } else { // libraries of the device have its kernels
    components.insert(info.target);
  }
  auto symbols = llvm::map_to_vector(components, [&](const std::string &component) -> llvm::Constant * {
    return host.getOrInsertGlobal(ASHLAR_RT_COMPONENT_PREFIX + component, llvm::Type::getInt8Ty(host.getContext()));
  });
  auto *type = llvm::ArrayType::get(llvm::PointerType::get(host.getContext(), 0), symbols.size());
  auto *table = new llvm::GlobalVariable(host, type, /*isConstant=*/true, llvm::GlobalValue::PrivateLinkage,
                                         llvm::ConstantArray::get(type, symbols), "components");
  llvm::appendToUsed(host, {table});
}

} // namespace ashlar::target
