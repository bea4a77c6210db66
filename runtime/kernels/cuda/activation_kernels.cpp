// SPDX-License-Identifier: Apache-2.0
//
// A thread does the 8 neighbouring values of a chunk, one byte of a mask: one or two accesses of 16 bytes a tensor. Registers of the PTX:
// %r<n> words, %h<n> halves, %v<n> values and %o<n> the other tensor's as f32, %t<n> what an expression needs between.

#include "runtime/kernels/cuda/activation_kernels.h"

#include "runtime/base/dtype.h"

#include <climits>
#include <cstring>

namespace ashlar::rt {
namespace {

constexpr int kChunk = 8; // values of a thread
constexpr unsigned kThreads = 256;

struct Kernel {
  ActivationWork work;
  const char *name;
};

constexpr Kernel kKernels[] = {{ActivationWork::ReluMask, "relu_mask"},
                               {ActivationWork::ReluSlope, "relu_slope"},
                               {ActivationWork::Gelu, "gelu"},
                               {ActivationWork::GeluSlope, "gelu_slope"}};

// Returns a number as PTX writes it: 0f3F800000.
std::string literal(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return fmt::format("0f{:08X}", bits);
}

// Writes the body of a kernel, a line for each instruction.
class Body {
public:
  explicit Body(uint32_t dtype) : dtype(dtype) {}

  template <typename... Values> void line(const char *format, const Values &...values) {
    text += "  " + fmt::format(fmt::runtime(format), values...) + ";\n";
  }

  // Reads a chunk at the address in `from` to the registers %v or %o.
  void load(const char *from, char to) {
    if (dtype == ASHLAR_RT_F32) {
      line("ld.global.v4.f32 {{%{0}0, %{0}1, %{0}2, %{0}3}}, [{1}]", to, from);
      line("ld.global.v4.f32 {{%{0}4, %{0}5, %{0}6, %{0}7}}, [{1}+16]", to, from);
      return;
    }
    line("ld.global.v4.u32 {{%r0, %r1, %r2, %r3}}, [{}]", from);
    for (int i = 0; i < kChunk; ++i) {
      if (dtype == ASHLAR_RT_BF16) { // the upper half of an f32
        line(i % 2 == 0 ? "shl.b32 %r4, %r{}, 16" : "and.b32 %r4, %r{}, 0xffff0000", i / 2);
        line("mov.b32 %{}{}, %r4", to, i);
      } else {
        line("mov.b32 {{%h0, %h1}}, %r{}", i / 2);
        line("cvt.f32.f16 %{}{}, %h{}", to, i, i % 2);
      }
    }
  }

  // Writes the chunk in %v to the address.
  void store(const char *to) {
    if (dtype == ASHLAR_RT_F32) {
      line("st.global.v4.f32 [{}], {{%v0, %v1, %v2, %v3}}", to);
      line("st.global.v4.f32 [{}+16], {{%v4, %v5, %v6, %v7}}", to);
      return;
    }
    for (int i = 0; i < kChunk; ++i) {
      line("cvt.rn.{}.f32 %h{}, %v{}", dtype == ASHLAR_RT_BF16 ? "bf16" : "f16", i % 2, i);
      if (i % 2 != 0) {
        line("mov.b32 %r{}, {{%h0, %h1}}", i / 2);
      }
    }
    line("st.global.v4.u32 [{}], {{%r0, %r1, %r2, %r3}}", to);
  }

  // Puts x / (1 + exp(-2 u)) into `to`, u = c (x + a x^3): gelu(x) for x = `factor`, and the logistic function of 2 u for 1.
  void logistic(const std::string &x, const std::string &factor, const char *to) {
    constexpr float kCubic = 0.044715f, kTwiceRoot = 1.5957691216057308f, kLog2E = 1.4426950408889634f; // root: sqrt(2 / pi)
    line("mul.f32 %t0, {0}, {0}", x);
    line("fma.rn.f32 %t0, %t0, {}, {}", literal(kCubic), literal(1));
    line("mul.f32 %t1, {}, {}", x, literal(-kTwiceRoot * kLog2E));
    line("mul.f32 %t1, %t1, %t0");
    line("ex2.approx.f32 %t1, %t1");
    line("add.f32 %t1, %t1, {}", literal(1));
    line("div.rn.f32 {}, {}, %t1", to, factor);
  }

  // Multiplies the value by the slope of gelu at x: s + x s (1 - s) (2 u)', s the logistic function of 2 u. Beyond 40 it is 0 or 1, where
  // powers of x could be infinite.
  void slope(int i) {
    constexpr float kThreeCubic = 3 * 0.044715f, kTwiceRoot = 1.5957691216057308f, kFlat = 40;
    const std::string x = fmt::format("%o{}", i);
    logistic(x, literal(1), "%t2");
    line("mul.f32 %t0, {0}, {0}", x);
    line("fma.rn.f32 %t0, %t0, {}, {}", literal(kThreeCubic), literal(1));
    line("mul.f32 %t0, %t0, {}", literal(kTwiceRoot));
    line("mul.f32 %t0, %t0, {}", x);
    line("sub.f32 %t1, {}, %t2", literal(1));
    line("mul.f32 %t1, %t1, %t2");
    line("fma.rn.f32 %t2, %t0, %t1, %t2");
    line("abs.f32 %t0, {}", x);
    line("setp.gt.f32 %p1, %t0, {}", literal(kFlat));
    line("setp.gt.f32 %p2, {}, {}", x, literal(0));
    line("selp.f32 %t1, {}, {}, %p2", literal(1), literal(0));
    line("selp.f32 %t2, %t1, %t2, %p1");
    line("mul.f32 %v{0}, %v{0}, %t2", i);
  }

  std::string text;

private:
  uint32_t dtype;
};

// Computes a chunk. %values and %other: the addresses of its values, and of its others or its byte of the mask.
void writeWork(Body &body, ActivationWork work) {
  switch (work) {
  case ActivationWork::ReluMask:
    body.load("%values", 'v');
    body.line("mov.u32 %r5, 0");
    for (int i = 0; i < kChunk; ++i) {
      body.line("setp.gt.f32 %p1, %v{}, {}", i, literal(0));
      body.line("selp.u32 %r4, {}, 0, %p1", 1 << i);
      body.line("or.b32 %r5, %r5, %r4");
    }
    body.line("st.global.u8 [%other], %r5");
    return;
  case ActivationWork::ReluSlope:
    body.load("%values", 'v');
    body.line("ld.global.u8 %r5, [%other]");
    for (int i = 0; i < kChunk; ++i) {
      body.line("and.b32 %r4, %r5, {}", 1 << i);
      body.line("setp.ne.u32 %p1, %r4, 0");
      body.line("selp.f32 %v{0}, %v{0}, {1}, %p1", i, literal(0));
    }
    body.store("%values");
    return;
  case ActivationWork::Gelu:
    body.load("%other", 'o');
    for (int i = 0; i < kChunk; ++i) {
      const std::string x = fmt::format("%o{}", i);
      body.logistic(x, x, fmt::format("%v{}", i).c_str());
    }
    body.store("%values");
    return;
  case ActivationWork::GeluSlope:
    body.load("%values", 'v');
    body.load("%other", 'o');
    for (int i = 0; i < kChunk; ++i) {
      body.slope(i);
    }
    body.store("%values");
    return;
  }
}

bool readsMask(ActivationWork work) {
  return work == ActivationWork::ReluMask || work == ActivationWork::ReluSlope;
}

std::string kernelPtx(const Kernel &kernel, uint32_t dtype) {
  Body body(dtype);
  const size_t bytes = kChunk * dtypeBytes(dtype);
  body.line("mov.u32 %r6, %ctaid.x");
  body.line("mov.u32 %r7, %tid.x");
  body.line("mad.lo.u32 %r6, %r6, {}, %r7", kThreads);
  body.line("ld.param.u32 %r7, [chunks]");
  body.line("setp.ge.u32 %p0, %r6, %r7");
  body.line("@%p0 bra $done");
  body.line("ld.param.u64 %values, [values]");
  body.line("ld.param.u64 %other, [other]");
  body.line("cvta.to.global.u64 %values, %values");
  body.line("cvta.to.global.u64 %other, %other");
  body.line("mul.wide.u32 %offset, %r6, {}", bytes);
  body.line("add.u64 %values, %values, %offset");
  if (readsMask(kernel.work)) { // byte `chunk in its row` of a row of the mask
    body.line("ld.param.u32 %r7, [rowChunks]");
    body.line("div.u32 %r8, %r6, %r7");
    body.line("rem.u32 %r9, %r6, %r7");
    body.line("ld.param.u32 %r7, [maskRow]");
    body.line("mul.wide.u32 %offset, %r8, %r7");
    body.line("add.u64 %other, %other, %offset");
    body.line("cvt.u64.u32 %offset, %r9");
  }
  body.line("add.u64 %other, %other, %offset");
  writeWork(body, kernel.work);
  return fmt::format(".visible .entry ashlar_{}(\n  .param .u64 values, .param .u64 other, .param .u32 chunks, .param .u32 rowChunks,\n"
                     "  .param .u32 maskRow)\n.reqntid {}, 1, 1\n{{\n"
                     "  .reg .pred %p<3>;\n  .reg .b16 %h<2>;\n  .reg .b32 %r<10>;\n  .reg .b64 %values, %other, %offset;\n"
                     "  .reg .f32 %v<8>;\n  .reg .f32 %o<8>;\n  .reg .f32 %t<3>;\n{}$done:\n  ret;\n}}\n",
                     kernel.name, kThreads, body.text);
}

} // namespace

std::string activationPtx(uint32_t dtype) {
  // Chips before 8.0 do not round to bf16; nor has the library products of it there.
  std::string text = fmt::format(".version 7.0\n.target {}\n.address_size 64\n", dtype == ASHLAR_RT_BF16 ? "sm_80" : "sm_75");
  for (const Kernel &kernel : kKernels) {
    text += kernelPtx(kernel, dtype);
  }
  return text;
}

Status ActivationKernels::prepare(CudaDevice &device, const ActivationCall &call) {
  gpu = &device;
  const int64_t chunks = call.m * call.n / kChunk;
  if (call.n % kChunk != 0 || chunks > INT_MAX) {
    return internal("no kernel replaces the epilogue of a product of {} x {}", call.m, call.n);
  }
  if (kernels.count({call.dtype, call.work}) != 0) {
    return Status();
  }
  CUmodule module = nullptr;
  ASHLAR_RETURN_IF_ERROR(device.loadText(activationPtx(call.dtype), "activations", module));
  for (const Kernel &kernel : kKernels) {
    CUfunction function = nullptr;
    const std::string name = fmt::format("ashlar_{}", kernel.name);
    ASHLAR_RETURN_IF_ERROR(device.driver().check(device.driver().cuModuleGetFunction(&function, module, name.c_str()),
                                                 "no kernel for an activation in the code of the runtime"));
    kernels[{call.dtype, kernel.work}] = function;
  }
  return Status();
}

Status ActivationKernels::enqueue(const ActivationCall &call, CUstream stream) const {
  CUdeviceptr values = call.values, other = call.other;
  auto chunks = static_cast<uint32_t>(call.m * call.n / kChunk), rowChunks = static_cast<uint32_t>(call.n / kChunk);
  auto maskRow = static_cast<uint32_t>(call.maskRow);
  void *parameters[] = {&values, &other, &chunks, &rowChunks, &maskRow};
  const DriverLibrary &cuda = gpu->driver();
  const CUfunction kernel = kernels.at({call.dtype, call.work});
  return cuda.check(cuda.cuLaunchKernel(kernel, (chunks + kThreads - 1) / kThreads, 1, 1, kThreads, 1, 1, /*sharedMemBytes=*/0, stream,
                                        parameters, /*extra=*/nullptr),
                    "cannot launch a kernel");
}

} // namespace ashlar::rt
