// SPDX-License-Identifier: Apache-2.0
//
// The smallest executor of exec.fusion: one buffer a value, no plan.

#include "test/unit/lower/compiled_kernels.h"

#include "compiler/pipelines/pipelines.h"
#include "compiler/target/cpu/kernels.h"
#include "dialects/nn/nn.h"
#include "dialects/support/element_type.h"
#include "passes/lower/kernels/kernel_emitter.h"
#include "test/unit/lower/simulated_kernel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/Support/FileSystem.h"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <limits>
#include <stdexcept>

using namespace mlir;

namespace ashlar::test {

namespace {

// Kernels of the cpu get buffers that begin so many bytes behind a boundary: at an element of any type, and where no vector is aligned.
constexpr size_t kShift = sizeof(int64_t);

// Elements start on the boundary that kernels of a GPU assume.
char *aligned(std::vector<char> &bytes) {
  auto address = reinterpret_cast<uintptr_t>(bytes.data());
  return bytes.data() + (ASHLAR_RT_ALIGNMENT - address % ASHLAR_RT_ALIGNMENT) % ASHLAR_RT_ALIGNMENT;
}

std::vector<char> allocate(Value value) {
  return std::vector<char>(byteSize(cast<ShapedType>(value.getType())) + ASHLAR_RT_ALIGNMENT + kShift, 0x55);
}

template <typename T> void storeElement(char *base, int64_t i, T value) {
  std::memcpy(base + i * sizeof(T), &value, sizeof(T));
}

template <typename T> T loadElement(const char *base, int64_t i) {
  T value;
  std::memcpy(&value, base + i * sizeof(T), sizeof(T));
  return value;
}

// A number of bf16 or f16.
llvm::APFloat narrow(double value, Type type) {
  llvm::APFloat number(value);
  bool losesInfo;
  number.convert(cast<FloatType>(type).getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven, &losesInfo);
  return number;
}

void write(const reference::Tensor &tensor, char *base) {
  Type element = tensor.getType().getElementType();
  for (int64_t i = 0; i < tensor.getNumElements(); ++i) {
    if (element.isF32()) {
      storeElement(base, i, static_cast<float>(tensor.getFloat(i)));
    } else if (isNarrowFloat(element)) {
      storeElement(base, i, static_cast<uint16_t>(narrow(tensor.getFloat(i), element).bitcastToAPInt().getZExtValue()));
    } else if (element.isF64()) {
      storeElement(base, i, tensor.getFloat(i));
    } else {
      int64_t value = tensor.getInt(i), bytes = elementBytes(element);
      std::memcpy(base + i * bytes, &value, bytes); // little endian
    }
  }
}

reference::Tensor read(RankedTensorType type, const char *base) {
  reference::Tensor tensor(type);
  Type element = type.getElementType();
  for (int64_t i = 0; i < tensor.getNumElements(); ++i) {
    if (element.isF32()) {
      tensor.setFloat(i, loadElement<float>(base, i));
    } else if (isNarrowFloat(element)) {
      llvm::APInt bits(16, loadElement<uint16_t>(base, i));
      tensor.setFloat(i, llvm::APFloat(cast<FloatType>(element).getFloatSemantics(), bits).convertToDouble());
    } else if (element.isF64()) {
      tensor.setFloat(i, loadElement<double>(base, i));
    } else {
      int64_t value = 0, bytes = elementBytes(element);
      std::memcpy(&value, base + i * bytes, bytes);
      tensor.setInt(i, value);
    }
  }
  return tensor;
}

} // namespace

void fuse(ModuleOp module, exec::Target target) {
  PassManager passes(module.getContext());
  pipelines::Variant variant;
  variant.target = target;
  pipelines::addFusionPasses(passes, variant, /*leastLibraryFlops=*/std::numeric_limits<int64_t>::max());
  if (failed(passes.run(module))) {
    throw std::runtime_error("kernels not fused");
  }
}

CompiledKernels::CompiledKernels(ModuleOp fused, std::mt19937_64 &random, bool inPlace, exec::Target target, target::HostCpu cpu)
    : fused(fused), random(random), target(target), module(ModuleOp::create(fused.getLoc())) {
  fused.getContext()
      ->loadDialect<arith::ArithDialect, gpu::GPUDialect, LLVM::LLVMDialect, math::MathDialect, memref::MemRefDialect, NVVM::NVVMDialect,
                    scf::SCFDialect, vector::VectorDialect>();
  SymbolTable symbols(*module);
  fused.walk([&](exec::FusionOp fusion) {
    if (fusion.getKind() == exec::FusionKind::Insert) {
      return;
    }
    Kernel kernel{"kernel_" + std::to_string(kernels.size()), {}, {}, 0};
    llvm::SmallDenseSet<int64_t> taken;
    for (unsigned r = 0; r < fusion.getNumResults(); ++r) {
      int64_t chosen = -1;
      for (unsigned o = 0; o < fusion.getInputs().size(); ++o) {
        if (inPlace && chosen < 0 && !taken.contains(o) && random() % 2 == 0 && lower::mayAlias(fusion, o, r, target)) {
          chosen = o;
          taken.insert(o);
        }
      }
      kernel.alias.push_back(chosen);
    }
    FailureOr<func::FuncOp> function = lower::emitKernel(fusion, kernel.alias, symbols, kernel.name, target);
    if (failed(function)) {
      throw std::runtime_error("kernel not emitted");
    }
    kernel.extent = (*function)->getAttrOfType<IntegerAttr>(exec::kExtentAttr).getInt();
    kernel.function = *function;
    kernels[fusion] = kernel;
  });
  if (target == exec::Target::Cpu) {
    compile(cpu);
  }
}

void CompiledKernels::compile(target::HostCpu cpu) {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> translated = cpu::translateKernels(*module, context);
  llvm::SmallString<128> folder;
  if (!translated || llvm::sys::fs::createUniqueDirectory("ashlar-kernels", folder)) {
    throw std::runtime_error("kernels not translated");
  }
  std::string object = (folder + "/kernels.o").str(), shared = (folder + "/kernels.so").str();
  if (llvm::Error error = target::emitObject(*translated, object, cpu)) {
    throw std::runtime_error(llvm::toString(std::move(error)));
  }
  if (std::system((ASHLAR_CXX_COMPILER " -fuse-ld=lld -nostdlib -shared -o " + shared + " " + object + " -lm -lc").c_str()) != 0) {
    throw std::runtime_error("kernels not linked");
  }
  library = dlopen(shared.c_str(), RTLD_NOW);
  llvm::sys::fs::remove_directories(folder);
  if (!library) {
    throw std::runtime_error(dlerror());
  }
}

CompiledKernels::~CompiledKernels() {
  if (library) {
    dlclose(library);
  }
}

CompiledKernels::Loaded CompiledKernels::load(exec::FusionOp fusion) {
  const Kernel &kernel = kernels[fusion];
  return {reinterpret_cast<ashlar_rt_kernel_fn>(dlsym(library, kernel.name.c_str())), kernel.extent};
}

void CompiledKernels::launch(const Kernel &kernel, ArrayRef<char *> buffers) {
  if (target == exec::Target::Cuda) {
    return simulateKernel(kernel.function, buffers);
  }
  auto run = reinterpret_cast<ashlar_rt_kernel_fn>(dlsym(library, kernel.name.c_str()));
  SmallVector<void *> addresses = llvm::map_to_vector(buffers, [](char *buffer) -> void * { return buffer + kShift; });
  func::FuncOp function = kernel.function;
  ArrayRef<Type> types = function.getArgumentTypes().take_front(buffers.size());
  for (auto [address, buffer, type] : llvm::zip_equal(addresses, buffers, types)) {
    std::memmove(address, buffer, byteSize(cast<ShapedType>(type)));
  }
  int64_t cut = std::uniform_int_distribution<int64_t>(0, kernel.extent)(random);
  run(addresses.data(), cut, kernel.extent);
  run(addresses.data(), 0, cut);
  for (auto [address, buffer, type] : llvm::zip_equal(addresses, buffers, types)) {
    std::memmove(buffer, address, byteSize(cast<ShapedType>(type)));
  }
}

void CompiledKernels::runKernel(exec::FusionOp fusion, llvm::DenseMap<Value, Bytes> &values) {
  const Kernel &kernel = kernels[fusion];
  std::vector<Bytes> operands;
  for (Value input : fusion.getInputs()) {
    // A copy: an overwritten operand may be needed again. Copied by element, since the aligned start differs.
    Bytes copy = allocate(input);
    std::memcpy(aligned(copy), aligned(values[input]), byteSize(cast<ShapedType>(input.getType())));
    operands.push_back(std::move(copy));
  }
  std::vector<Bytes> results;
  llvm::SmallVector<char *> buffers;
  for (Bytes &operand : operands) {
    buffers.push_back(aligned(operand));
  }
  for (auto [output, alias] : llvm::zip_equal(fusion.getOutputs(), kernel.alias)) {
    results.push_back(allocate(output));
    if (alias < 0) {
      buffers.push_back(aligned(results.back()));
    }
  }
  launch(kernel, buffers);
  for (auto [i, output] : llvm::enumerate(fusion.getOutputs())) {
    values[output] = std::move(kernel.alias[i] < 0 ? results[i] : operands[kernel.alias[i]]);
  }
}

std::vector<reference::Tensor> CompiledKernels::run(StringRef name, ArrayRef<reference::Tensor> inputs) {
  auto function = fused.lookupSymbol<func::FuncOp>(name);
  llvm::DenseMap<Value, Bytes> values;
  auto define = [&](Value value, const reference::Tensor &tensor) {
    Bytes bytes = allocate(value);
    write(tensor, aligned(bytes));
    values[value] = std::move(bytes);
  };
  for (auto [argument, input] : llvm::zip_equal(function.getArguments(), inputs)) {
    define(argument, input);
  }
  std::vector<reference::Tensor> results;
  for (Operation &op : function.getBody().front()) {
    if (auto fusion = dyn_cast<exec::FusionOp>(op); fusion && fusion.getKind() == exec::FusionKind::Insert) {
      SmallVector<reference::Tensor> operands;
      auto insert = cast<nn::InsertOp>(fusion.getBody().front().front());
      for (Value operand : insert->getOperands()) {
        Value input = fusion.getInputs()[cast<BlockArgument>(operand).getArgNumber()];
        operands.push_back(read(cast<RankedTensorType>(input.getType()), aligned(values[input])));
      }
      define(fusion.getOutputs()[0], insert.evaluate(operands));
    } else if (fusion) {
      runKernel(fusion, values);
    } else if (auto constant = dyn_cast<nn::ConstantOp>(op)) {
      define(constant, *reference::Tensor::fromAttribute(constant.getValue()));
    } else if (auto reshape = dyn_cast<nn::ReshapeOp>(op)) {
      define(reshape, read(reshape.getType(), aligned(values[reshape.getInput()])));
    } else if (isa<func::ReturnOp>(op)) {
      for (Value value : op.getOperands()) {
        results.push_back(read(cast<RankedTensorType>(value.getType()), aligned(values[value])));
      }
    } else {
      throw std::runtime_error("unexpected " + op.getName().getStringRef().str() + " in a fused function");
    }
  }
  return results;
}

} // namespace ashlar::test
