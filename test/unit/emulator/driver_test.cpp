// SPDX-License-Identifier: Apache-2.0
//
// The driver API: order between streams, captures, and what a real driver would refuse.

#include "test/unit/emulator/ptx_run.h"

#include <cuda.h>

#include <catch2/catch.hpp>

#include <array>

namespace ashlar::test::driver_test {

using namespace ashlar::emulator;

namespace {

// A primary context with a module, made once; some of the tests spoil the device, each in a process of its own.
struct Context {
  Context() {
    REQUIRE(cuInit(0) == CUDA_SUCCESS);
    CUcontext context;
    REQUIRE(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
    REQUIRE(cuCtxSetCurrent(context) == CUDA_SUCCESS);
    const std::string text = readText(ASHLAR_SAMPLES);
    REQUIRE(cuModuleLoadDataEx(&module, text.c_str(), 0, nullptr, nullptr) == CUDA_SUCCESS);
  }

  CUfunction function(const char *name) {
    CUfunction result;
    REQUIRE(cuModuleGetFunction(&result, module, name) == CUDA_SUCCESS);
    return result;
  }

  CUmodule module;
};

Context &context() {
  static Context instance;
  return instance;
}

CUdeviceptr allocate(size_t bytes) {
  CUdeviceptr address;
  REQUIRE(cuMemAlloc(&address, bytes) == CUDA_SUCCESS);
  return address;
}

CUstream newStream() {
  CUstream stream;
  REQUIRE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  return stream;
}

CUevent newEvent() {
  CUevent event;
  REQUIRE(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS);
  return event;
}

int read(CUdeviceptr address) {
  int value;
  REQUIRE(cuMemcpyDtoHAsync(&value, address, sizeof value, nullptr) == CUDA_SUCCESS);
  return value;
}

// Sets a word on one stream and copies it on another, `ordered` by an event or not; returns how often the copy came first.
int copiesTooEarly(bool ordered, int times) {
  const CUdeviceptr word = allocate(8);
  CUstream first = newStream(), second = newStream();
  CUevent event = newEvent();
  int early = 0;
  for (int i = 1; i <= times; ++i) {
    cuMemsetD32Async(word, unsigned(i), 1, first);
    cuEventRecord(event, first);
    if (ordered) {
      cuStreamWaitEvent(second, event, 0);
    }
    cuMemcpyDtoDAsync(word + 4, word, 4, second);
    REQUIRE(cuStreamSynchronize(second) == CUDA_SUCCESS);
    REQUIRE(cuStreamSynchronize(first) == CUDA_SUCCESS);
    early += read(word + 4) != i;
  }
  return early;
}

} // namespace

TEST_CASE("driver: a missing dependency between streams shows", "[driver]") {
  context();
  CHECK(copiesTooEarly(true, 100) == 0);
  const int early = copiesTooEarly(false, 100);
  CHECK(early > 10);
  CHECK(early < 90);
}

TEST_CASE("driver: kernels run, and memory is that of the device", "[driver]") {
  std::vector<float> x(128);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = float(i);
  }
  CUfunction reverse = context().function("reverse");
  CUdeviceptr in = allocate(512), out = allocate(512);
  int barrier = 1;
  std::array<void *, 3> parameters{&in, &out, &barrier};
  CUstream stream = newStream();
  REQUIRE(cuMemcpyHtoDAsync(in, x.data(), 512, stream) == CUDA_SUCCESS);
  REQUIRE(cuLaunchKernel(reverse, 1, 1, 1, 128, 1, 1, 0, stream, parameters.data(), nullptr) == CUDA_SUCCESS);
  in = out = 0; // parameters are read by the call
  std::vector<float> got(128);
  REQUIRE(cuMemcpyDtoHAsync(got.data(), *static_cast<CUdeviceptr *>(parameters[1]), 512, stream) == CUDA_ERROR_INVALID_VALUE);
  REQUIRE(cuStreamSynchronize(stream) == CUDA_SUCCESS);
  CHECK(cuLaunchKernel(reverse, 1, 1, 1, 2048, 1, 1, 0, stream, parameters.data(), nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuLaunchKernel(reverse, 0, 1, 1, 128, 1, 1, 0, stream, parameters.data(), nullptr) == CUDA_ERROR_INVALID_VALUE);
  CUfunction none;
  CHECK(cuModuleGetFunction(&none, context().module, "nothing") == CUDA_ERROR_NOT_FOUND);
  CUdeviceptr huge;
  CHECK(cuMemAlloc(&huge, size_t(1) << 40) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(cuMemFree(12345) == CUDA_ERROR_INVALID_VALUE);
  size_t free, total;
  REQUIRE(cuMemGetInfo(&free, &total) == CUDA_SUCCESS);
  const CUdeviceptr some = allocate(1000);
  size_t less;
  REQUIRE(cuMemGetInfo(&less, &total) == CUDA_SUCCESS);
  CHECK(free - less == 1000);
  CHECK(cuMemFree(some) == CUDA_SUCCESS);
  const char *name;
  REQUIRE(cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &name) == CUDA_SUCCESS);
  CHECK(std::string(name) == "CUDA_ERROR_ILLEGAL_ADDRESS");
}

TEST_CASE("driver: page-locked memory is read late, other memory at once", "[driver]") {
  context();
  void *pinned;
  REQUIRE(cuMemHostAlloc(&pinned, 4, CU_MEMHOSTALLOC_DEVICEMAP) == CUDA_SUCCESS);
  int pageable = 1;
  const CUdeviceptr words = allocate(8);
  CUstream stream = newStream();
  *static_cast<int *>(pinned) = 1;
  int late = 0;
  for (int i = 0; i < 20; ++i) {
    *static_cast<int *>(pinned) = pageable = 1;
    REQUIRE(cuMemcpyHtoDAsync(words, pinned, 4, stream) == CUDA_SUCCESS);
    REQUIRE(cuMemcpyHtoDAsync(words + 4, &pageable, 4, stream) == CUDA_SUCCESS);
    *static_cast<int *>(pinned) = pageable = 2;
    REQUIRE(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    late += read(words) == 2;
    CHECK(read(words + 4) == 1);
  }
  CHECK(late > 10);
  CUdeviceptr mapped;
  REQUIRE(cuMemHostGetDevicePointer(&mapped, pinned, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemsetD32Async(mapped, 77, 1, stream) == CUDA_SUCCESS);
  REQUIRE(cuStreamSynchronize(stream) == CUDA_SUCCESS);
  CHECK(*static_cast<int *>(pinned) == 77);
  CHECK(cuMemFreeHost(pinned) == CUDA_SUCCESS);
}

TEST_CASE("driver: a strided copy", "[driver]") {
  context();
  std::vector<int> x(6 * 4);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = int(i);
  }
  const CUdeviceptr in = allocate(96), out = allocate(24);
  CUstream stream = newStream();
  REQUIRE(cuMemcpyHtoDAsync(in, x.data(), 96, stream) == CUDA_SUCCESS);
  // Columns 1 and 2 of 3 rows of 4.
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = in;
  copy.srcXInBytes = 4;
  copy.srcPitch = 16;
  copy.dstDevice = out;
  copy.dstPitch = 8;
  copy.WidthInBytes = 8;
  copy.Height = 3;
  REQUIRE(cuMemcpy2DAsync(&copy, stream) == CUDA_SUCCESS);
  std::vector<int> got(6);
  REQUIRE(cuMemcpyDtoHAsync(got.data(), out, 24, stream) == CUDA_SUCCESS);
  CHECK(got == std::vector<int>{1, 2, 5, 6, 9, 10});
  copy.Height = 4;
  CHECK(cuMemcpy2DAsync(&copy, stream) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("driver: a captured graph keeps the dependencies and runs when it is launched", "[driver]") {
  context();
  const CUdeviceptr words = allocate(12);
  CUstream main = newStream(), side = newStream();
  CUevent fork = newEvent(), join = newEvent();
  REQUIRE(cuMemsetD32Async(words, 0, 3, main) == CUDA_SUCCESS);
  REQUIRE(cuStreamSynchronize(main) == CUDA_SUCCESS);
  REQUIRE(cuStreamBeginCapture(main, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == CUDA_SUCCESS);
  REQUIRE(cuMemcpyDtoDAsync(words + 4, words, 4, main) == CUDA_SUCCESS);
  REQUIRE(cuEventRecord(fork, main) == CUDA_SUCCESS);
  REQUIRE(cuStreamWaitEvent(side, fork, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemcpyDtoDAsync(words + 8, words + 4, 4, side) == CUDA_SUCCESS);
  REQUIRE(cuEventRecord(join, side) == CUDA_SUCCESS);
  CUdeviceptr refused;
  REQUIRE(cuStreamWaitEvent(main, join, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemsetD32Async(words, 9, 1, main) == CUDA_SUCCESS);
  CUgraph graph;
  REQUIRE(cuStreamEndCapture(main, &graph) == CUDA_SUCCESS);
  CUgraphExec executable;
  REQUIRE(cuGraphInstantiate(&executable, graph, 0) == CUDA_SUCCESS);
  CHECK(read(words + 8) == 0);
  for (int i = 1; i <= 20; ++i) {
    REQUIRE(cuMemsetD32Async(words, unsigned(i), 1, main) == CUDA_SUCCESS);
    REQUIRE(cuGraphLaunch(executable, main) == CUDA_SUCCESS);
    REQUIRE(cuStreamSynchronize(main) == CUDA_SUCCESS);
    CHECK(read(words + 8) == i);
    CHECK(read(words) == 9);
  }
  // Without the join the capture cannot end; with a forbidden call in it neither.
  REQUIRE(cuStreamBeginCapture(main, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
  REQUIRE(cuEventRecord(fork, main) == CUDA_SUCCESS);
  REQUIRE(cuStreamWaitEvent(side, fork, 0) == CUDA_SUCCESS);
  REQUIRE(cuMemsetD32Async(words, 1, 1, side) == CUDA_SUCCESS);
  CHECK(cuStreamEndCapture(main, &graph) == CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  REQUIRE(cuStreamBeginCapture(main, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
  CHECK(cuMemAlloc(&refused, 4) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(cuStreamEndCapture(main, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CHECK(cuStreamQuery(main) == CUDA_SUCCESS);
}

TEST_CASE("driver: texts and machine code that do not fit are refused", "[driver]") {
  context();
  CUmodule module;
  std::array<char, 200> log{};
  std::array<CUjit_option, 2> options{CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  std::array<void *, 2> values{log.data(), reinterpret_cast<void *>(log.size())};
  CHECK(cuModuleLoadDataEx(&module, ".version 8.0\n.target sm_90\n.visible .entry k() { jump; }", 2, options.data(), values.data()) ==
        CUDA_ERROR_INVALID_PTX);
  CHECK(std::string(log.data()) == "line 3: instruction 'jump' is not known: .visible .entry k() { jump; }");
  CHECK(cuModuleLoadDataEx(&module, ".version 9.9\n.target sm_90\n", 0, nullptr, nullptr) == CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
  CHECK(cuModuleLoadDataEx(&module, ".version 8.0\n.target sm_121\n", 0, nullptr, nullptr) == CUDA_ERROR_INVALID_PTX);
  std::array<unsigned char, 64> cubin{0x7f, 'E', 'L', 'F', 2};
  cubin[18] = 190;
  cubin[49] = 90; // sm_90; the device is 12.0
  CHECK(cuModuleLoadDataEx(&module, cubin.data(), 0, nullptr, nullptr) == CUDA_ERROR_NO_BINARY_FOR_GPU);
}

// Last: the device is lost for the rest of the process.
TEST_CASE("driver: a fault stays", "[.fault]") {
  CUfunction beyond = context().function("beyond");
  CUdeviceptr out = allocate(16);
  int n = 0;
  std::array<void *, 2> parameters{&out, &n};
  REQUIRE(cuLaunchKernel(beyond, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters.data(), nullptr) == CUDA_SUCCESS);
  CHECK(cuStreamSynchronize(nullptr) == CUDA_ERROR_ILLEGAL_ADDRESS);
  CHECK(cuMemAlloc(&out, 16) == CUDA_ERROR_ILLEGAL_ADDRESS);
}

} // namespace ashlar::test::driver_test
