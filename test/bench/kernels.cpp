// SPDX-License-Identifier: Apache-2.0
//
// Speed of generated kernels on one thread: bytes of the operands and results, each counted once, per second, against memcpy in the same
// run. The arrays (4096 x 1024 f32, 16 MiB each; pooling: 8 x 64 x 112 x 112, 25 MiB) do not fit the caches of a core. Flush: none needed,
// each iteration streams all of them.

#include "test/unit/lower/compiled_kernels.h"
#include "test/unit/reference/parsed_module.h"

#include "dialects/support/element_type.h"

#include <benchmark/benchmark.h>
#include <cstring>

using namespace ashlar;
using namespace mlir;

namespace {

struct Kernel {
  std::string name;
  std::string text;
};

const std::vector<Kernel> kKernels = {
    {"relu(x + bias) + r",
     R"(func.func @f(%x: tensor<4096x1024xf32>, %b: tensor<1024xf32>, %r: tensor<4096x1024xf32>) -> tensor<4096x1024xf32> {
       %bb = nn.broadcast %b dims = [1] : tensor<1024xf32> -> tensor<4096x1024xf32>
       %s = nn.add %x, %bb : tensor<4096x1024xf32>
       %a = nn.relu %s : tensor<4096x1024xf32>
       %y = nn.add %a, %r : tensor<4096x1024xf32>
       return %y : tensor<4096x1024xf32> })"},
    {"gelu (erf)", R"(func.func @f(%x: tensor<4096x1024xf32>) -> tensor<4096x1024xf32> {
       %y = nn.gelu %x : tensor<4096x1024xf32>
       return %y : tensor<4096x1024xf32> })"},
    {"softmax of rows", R"(func.func @f(%x: tensor<4096x1024xf32>) -> tensor<4096x1024xf32> {
       %y = nn.softmax %x : tensor<4096x1024xf32>
       return %y : tensor<4096x1024xf32> })"},
    {"cross entropy of rows", R"(func.func @f(%x: tensor<4096x1024xf32>, %l: tensor<4096xi32>) -> tensor<4096xf32> {
       %y = nn.softmax_cross_entropy %x, %l : tensor<4096x1024xf32>, tensor<4096xi32> -> tensor<4096xf32>
       return %y : tensor<4096xf32> })"},
    {"relu gradient + column sum",
     R"(func.func @f(%h: tensor<4096x1024xf32>, %g: tensor<4096x1024xf32>) -> (tensor<4096x1024xf32>, tensor<1024xf32>) {
       %z = nn.constant dense<0.0> : tensor<4096x1024xf32>
       %p = nn.compare gt %h, %z : tensor<4096x1024xf32> -> tensor<4096x1024xi1>
       %d = nn.select %p, %g, %z : tensor<4096x1024xi1>, tensor<4096x1024xf32>
       %s = nn.reduce sum %d dims = [0] : tensor<4096x1024xf32> -> tensor<1024xf32>
       return %d, %s : tensor<4096x1024xf32>, tensor<1024xf32> })"},
    {"column sum", R"(func.func @f(%x: tensor<4096x1024xf32>) -> tensor<1024xf32> {
       %s = nn.reduce sum %x dims = [0] : tensor<4096x1024xf32> -> tensor<1024xf32>
       return %s : tensor<1024xf32> })"},
    {"row sum", R"(func.func @f(%x: tensor<4096x1024xf32>) -> tensor<4096xf32> {
       %s = nn.reduce sum %x dims = [1] : tensor<4096x1024xf32> -> tensor<4096xf32>
       return %s : tensor<4096xf32> })"},
    {"momentum update",
     R"(func.func @f(%w: tensor<4096x1024xf32>, %v: tensor<4096x1024xf32>, %g: tensor<4096x1024xf32>) -> (tensor<4096x1024xf32>, tensor<4096x1024xf32>) {
       %m = nn.constant dense<0.9> : tensor<4096x1024xf32>
       %l = nn.constant dense<0.01> : tensor<4096x1024xf32>
       %mv = nn.mul %v, %m : tensor<4096x1024xf32>
       %nv = nn.add %mv, %g : tensor<4096x1024xf32>
       %lv = nn.mul %nv, %l : tensor<4096x1024xf32>
       %nw = nn.sub %w, %lv : tensor<4096x1024xf32>
       return %nv, %nw : tensor<4096x1024xf32>, tensor<4096x1024xf32> })"},
    {"layer norm of rows", R"(func.func @f(%x: tensor<4096x1024xf32>, %g: tensor<1024xf32>, %b: tensor<1024xf32>) -> tensor<4096x1024xf32> {
       %n = nn.constant dense<9.765625e-04> : tensor<4096xf32>
       %e = nn.constant dense<1.0e-05> : tensor<4096xf32>
       %one = nn.constant dense<1.0> : tensor<4096xf32>
       %s = nn.reduce sum %x dims = [1] : tensor<4096x1024xf32> -> tensor<4096xf32>
       %m = nn.mul %s, %n : tensor<4096xf32>
       %mm = nn.broadcast %m dims = [0] : tensor<4096xf32> -> tensor<4096x1024xf32>
       %c = nn.sub %x, %mm : tensor<4096x1024xf32>
       %q = nn.mul %c, %c : tensor<4096x1024xf32>
       %v = nn.reduce sum %q dims = [1] : tensor<4096x1024xf32> -> tensor<4096xf32>
       %w = nn.mul %v, %n : tensor<4096xf32>
       %we = nn.add %w, %e : tensor<4096xf32>
       %r = nn.sqrt %we : tensor<4096xf32>
       %i = nn.div %one, %r : tensor<4096xf32>
       %ii = nn.broadcast %i dims = [0] : tensor<4096xf32> -> tensor<4096x1024xf32>
       %gg = nn.broadcast %g dims = [1] : tensor<1024xf32> -> tensor<4096x1024xf32>
       %bb = nn.broadcast %b dims = [1] : tensor<1024xf32> -> tensor<4096x1024xf32>
       %h = nn.mul %c, %ii : tensor<4096x1024xf32>
       %hg = nn.mul %h, %gg : tensor<4096x1024xf32>
       %y = nn.add %hg, %bb : tensor<4096x1024xf32>
       return %y : tensor<4096x1024xf32> })"},
    {"sigmoid", R"(func.func @f(%x: tensor<4096x1024xf32>) -> tensor<4096x1024xf32> {
       %y = nn.sigmoid %x : tensor<4096x1024xf32>
       return %y : tensor<4096x1024xf32> })"},
    {"reciprocal of a root", R"(func.func @f(%x: tensor<4096x1024xf32>) -> tensor<4096x1024xf32> {
       %one = nn.constant dense<1.0> : tensor<4096x1024xf32>
       %r = nn.sqrt %x : tensor<4096x1024xf32>
       %y = nn.div %one, %r : tensor<4096x1024xf32>
       return %y : tensor<4096x1024xf32> })"},
    {"adam update",
     R"(func.func @f(%w: tensor<4096x1024xf32>, %m: tensor<4096x1024xf32>, %v: tensor<4096x1024xf32>, %g: tensor<4096x1024xf32>) -> (tensor<4096x1024xf32>, tensor<4096x1024xf32>, tensor<4096x1024xf32>) {
       %b1 = nn.constant dense<0.9> : tensor<4096x1024xf32>
       %c1 = nn.constant dense<0.1> : tensor<4096x1024xf32>
       %b2 = nn.constant dense<0.999> : tensor<4096x1024xf32>
       %c2 = nn.constant dense<0.001> : tensor<4096x1024xf32>
       %e = nn.constant dense<1.0e-8> : tensor<4096x1024xf32>
       %l = nn.constant dense<0.01> : tensor<4096x1024xf32>
       %m1 = nn.mul %m, %b1 : tensor<4096x1024xf32>
       %m2 = nn.mul %g, %c1 : tensor<4096x1024xf32>
       %nm = nn.add %m1, %m2 : tensor<4096x1024xf32>
       %gg = nn.mul %g, %g : tensor<4096x1024xf32>
       %v1 = nn.mul %v, %b2 : tensor<4096x1024xf32>
       %v2 = nn.mul %gg, %c2 : tensor<4096x1024xf32>
       %nv = nn.add %v1, %v2 : tensor<4096x1024xf32>
       %r = nn.sqrt %nv : tensor<4096x1024xf32>
       %d = nn.add %r, %e : tensor<4096x1024xf32>
       %q = nn.div %nm, %d : tensor<4096x1024xf32>
       %lq = nn.mul %q, %l : tensor<4096x1024xf32>
       %nw = nn.sub %w, %lq : tensor<4096x1024xf32>
       return %nm, %nv, %nw : tensor<4096x1024xf32>, tensor<4096x1024xf32>, tensor<4096x1024xf32> })"},
};

// Max pooling of 3x3 windows, 2 apart: forward, where the largest elements stand, and the gradient of the operand.
std::vector<Kernel> poolingKernels(bool channelsLast) {
  auto type = [&](int64_t size, const char *element, bool withWindows) {
    std::string sizes = std::to_string(size) + "x" + std::to_string(size) + "x", windows = withWindows ? "3x3x" : "";
    return "tensor<8x" + (channelsLast ? sizes + windows + "64x" : "64x" + sizes + windows) + element + ">";
  };
  std::string x = type(112, "f32", false), y = type(56, "f32", false), place = type(56, "i32", false);
  std::string kept = channelsLast ? "[0, 1, 2, 5]" : "[0, 1, 2, 3]", strides = channelsLast ? "[0, 0, 0, 3, 1, 0]" : "[0, 0, 0, 0, 3, 1]";
  std::string windows = std::string("dims = ") + (channelsLast ? "[1, 2]" : "[2, 3]") +
                        " [#nn.window<3, stride = 2, low = 1, high = 1>, #nn.window<3, stride = 2, low = 1, high = 1>] : ";
  auto unwind = [&](const std::string &name, const std::string &from, const char *element) {
    std::string repeated = type(56, element, true);
    return "%" + name + "r = nn.broadcast %" + name + " dims = " + kept + " : " + from + " -> " + repeated + "\n%" + name +
           "u = nn.unwindows %" + name + "r " + windows + repeated + " -> " + type(112, element, true) + "\n";
  };
  std::string numbers = type(112, "i64", true), places = type(112, "i32", true), each = type(112, "f32", true);
  std::string order = channelsLast ? ", [B, H, W, C]" : ", [B, C, H, W]";
  return {{"max pool" + order,
           "func.func @f(%x: " + x + ") -> " + y + " { %y = nn.max_pool %x " + windows + x + " -> " + y + "\n return %y : " + y + " }"},
          {"place of max pool" + order, "func.func @f(%x: " + x + ", %y: " + y + ") -> " + place + " { %p = nn.max_pool_place %x, %y " +
                                            windows + x + ", " + y + " -> " + place + "\n return %p : " + place + " }"},
          {"gradient of max pool" + order,
           "func.func @f(%p: " + place + ", %g: " + y + ") -> " + x + " {\n" + unwind("p", place, "i32") + unwind("g", y, "f32") +
               "%i = nn.index " + strides + " : " + numbers + "\n%k = nn.cast %i : " + numbers + " -> " + places +
               "\n%c = nn.compare eq %pu, %k : " + places + " -> " + type(112, "i1", true) + "\n%z = nn.constant dense<0.0> : " + each +
               "\n%s = nn.select %c, %gu, %z : " + type(112, "i1", true) + ", " + each + "\n%d = nn.reduce sum %s dims = " +
               (channelsLast ? "[3, 4]" : "[4, 5]") + " : " + each + " -> " + x + "\nreturn %d : " + x + " }"}};
}

char *allocate(int64_t bytes) {
  auto *memory = static_cast<char *>(std::aligned_alloc(ASHLAR_RT_ALIGNMENT, llvm::alignTo(bytes, ASHLAR_RT_ALIGNMENT)));
  std::memset(memory, 0, bytes);
  return memory;
}

// Runs all kernels of a function, one after the other; its own operands and results count, as one reading or writing each.
void runKernel(benchmark::State &state, const Kernel &kernel) {
  OwningOpRef<ModuleOp> module = test::parse(kernel.text);
  test::fuse(*module);
  std::mt19937_64 random(1);
  test::CompiledKernels kernels(*module, random, /*inPlace=*/false);
  auto function = *module->getOps<func::FuncOp>().begin();
  std::vector<char *> allocated;
  llvm::DenseMap<Value, char *> buffers;
  auto bufferOf = [&](Value value) {
    char *&buffer = buffers[value];
    if (!buffer) {
      buffer = allocated.emplace_back(allocate(byteSize(cast<ShapedType>(value.getType()))));
    }
    return buffer;
  };
  struct Call {
    test::CompiledKernels::Loaded loaded;
    std::vector<void *> buffers;
  };
  std::vector<Call> calls;
  for (Operation &op : function.getBody().front()) {
    if (auto reshape = dyn_cast<nn::ReshapeOp>(op)) {
      buffers[reshape] = bufferOf(reshape.getInput());
    }
    if (auto fusion = dyn_cast<exec::FusionOp>(op)) {
      calls.push_back({kernels.load(fusion), {}});
      llvm::for_each(fusion.getInputs(), [&](Value value) { calls.back().buffers.push_back(bufferOf(value)); });
      llvm::for_each(fusion.getOutputs(), [&](Value value) { calls.back().buffers.push_back(bufferOf(value)); });
    }
  }
  int64_t bytes = 0;
  auto count = [&](Value value) { bytes += byteSize(cast<ShapedType>(value.getType())); };
  llvm::for_each(function.getArguments(), count);
  llvm::for_each(function.getBody().front().getTerminator()->getOperands(), count);
  for (auto _ : state) {
    for (Call &call : calls) {
      call.loaded.run(call.buffers.data(), 0, call.loaded.extent);
    }
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * bytes);
  llvm::for_each(allocated, std::free);
}

void runMemcpy(benchmark::State &state) {
  constexpr int64_t kBytes = int64_t{4096} * 1024 * 4;
  char *from = allocate(kBytes), *to = allocate(kBytes);
  for (auto _ : state) {
    std::memcpy(to, from, kBytes);
    benchmark::DoNotOptimize(to);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * 2 * kBytes);
  std::free(from);
  std::free(to);
}

} // namespace

int main(int argc, char **argv) {
  benchmark::RegisterBenchmark("memcpy", runMemcpy);
  std::vector<Kernel> kernels = kKernels;
  for (bool channelsLast : {true, false}) {
    llvm::append_range(kernels, poolingKernels(channelsLast));
  }
  for (const Kernel &kernel : kernels) {
    benchmark::RegisterBenchmark(kernel.name.c_str(), [&kernel](benchmark::State &state) { runKernel(state, kernel); });
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
