// SPDX-License-Identifier: Apache-2.0
//
// The cuda target: one rank, one GPU.

#include "runtime/launch/cuda_executor.h"

#include "runtime/base/clock.h"
#include "runtime/launch/cuda_feed.h"
#include "runtime/launch/cuda_program.h"
#include "runtime/launch/numerics.h"

#include <algorithm>
#include <cstring>

namespace ashlar::rt {
namespace {

constexpr size_t kPinnedBytes = 4096; // for scalars on their way to the host

// Most bytes of a tensor that pass through the host memory of a device at once.
constexpr uint64_t kHostBytes = uint64_t{1} << 20;

// Copies of a measurement of the bandwidth, and bytes of one.
constexpr int kBandwidthCopies = 10;
constexpr size_t kBandwidthBytes = size_t{1} << 30;

class CudaExecutor final : public Executor {
public:
  ~CudaExecutor() override;

  // The parts of createCudaExecutor(), in order.
  Status open(const ashlar_rt_image &image, const ashlar_rt_variant &variant, Communicator &communicator, const ExecutorOptions &options);
  Status checkSharing() { return context.checkSharing(); }
  Status allocate();
  Status connect(std::function<void(const Status &)> fail);
  Status layOutPrograms();

  Status run(Program &program, uint64_t microBatch) override;
  Status wait() override { return context.wait(); }
  Status write(const ashlar_rt_tensor &tensor, int device, const std::function<void(char *data)> &fill, uint64_t microBatch) override;
  Status read(const ashlar_rt_tensor &tensor, int device, void *data, uint64_t microBatch) override;
  Status fetch(uint32_t stage, const ashlar_rt_tensor &tensor, const std::function<void(int device, const char *data)> &sink) override;
  Status createFeed(Pipeline &pipeline, std::unique_ptr<Feed> &feed) override;
  Status benchmark(Program &program, uint64_t count, Benchmark &result) override;
  Status close() override;
  std::vector<HeldPart> held(uint64_t) const override { return {{"memory of the GPU", context.blockBytes}}; }
  bool mayHang() const override { return context.device.isOpen(); }
  bool runsAhead() const override { return !options.profile && !options.checkNumerics; }
  std::string startTimes() const override { return times; }

private:
  Status runWatched(CudaProgram &program);
  Status measureCopy(Benchmark &result);
  void noteTime(const char *what);

  CudaContext context;
  int feeds = 0;
  CUevent begun = nullptr; // with `ended`: the time of a run
  CUevent ended = nullptr;
  void *pinned = nullptr;
  std::vector<char> scratch;
  std::string times;
  double since = seconds();
};

CudaExecutor::~CudaExecutor() {
  context.watchdog.reset();
  programs.clear(); // graphs before the device
}

void CudaExecutor::noteTime(const char *what) {
  double now = seconds();
  times += fmt::format("{}{} {:.1f} ms", times.empty() ? "" : ", ", what, 1e3 * (now - since));
  since = now;
}

Status CudaExecutor::open(const ashlar_rt_image &source, const ashlar_rt_variant &chosen, Communicator &seat, const ExecutorOptions &how) {
  ASHLAR_RETURN_IF_ERROR(setUp(source, chosen, seat, how));
  if (devices != 1) {
    return internal("{} devices a process on cuda", devices);
  }
  if (variant->num_stages > 1 || variant->slot_bytes != 0) {
    return unavailable("the program has {} pipeline stages, which run on the cpu target only so far; compile it with --target cpu",
                       variant->num_stages);
  }
  for (uint32_t i = 0; i < variant->num_programs; ++i) {
    for (uint32_t k = 0; k < variant->programs[i].num_instrs; ++k) {
      ASHLAR_RETURN_IF_ERROR(checkBuffers(variant->programs[i].instrs[k]));
    }
  }
  ASHLAR_RETURN_IF_ERROR(context.open(seat));
  noteTime("driver");
  ASHLAR_RETURN_IF_ERROR(context.device.loadModule(*image));
  noteTime("module");
  for (uint32_t i = 0; i < variant->num_programs; ++i) {
    auto program = std::make_unique<CudaProgram>(variant->programs[i], context);
    ASHLAR_RETURN_IF_ERROR(program->plan());
    programs.push_back(std::move(program));
  }
  if (context.seat->needsConnection()) {
    ASHLAR_RETURN_IF_ERROR(context.seat->load());
  }
  return Status();
}

Status CudaExecutor::allocate() {
  ASHLAR_RETURN_IF_ERROR(context.allocate(*image, *variant));
  ASHLAR_RETURN_IF_ERROR(context.device.createEvent(begun, /*timing=*/true));
  ASHLAR_RETURN_IF_ERROR(context.device.createEvent(ended, /*timing=*/true));
  ASHLAR_RETURN_IF_ERROR(context.device.allocatePinned(kPinnedBytes, pinned));
  noteTime("memory");
  ASHLAR_RETURN_IF_ERROR(context.loadMatmuls());
  noteTime("library");
  return Status();
}

Status CudaExecutor::connect(std::function<void(const Status &)> fail) {
  ASHLAR_RETURN_IF_ERROR(context.connect(std::move(fail)));
  if (context.watchdog) {
    noteTime("communicators");
  }
  return Status();
}

Status CudaExecutor::layOutPrograms() {
  for (std::unique_ptr<Program> &program : programs) {
    ASHLAR_RETURN_IF_ERROR(static_cast<CudaProgram &>(*program).create(options.profile));
  }
  noteTime("plan");
  return Status();
}

Status CudaExecutor::run(Program &base, uint64_t /*microBatch*/) {
  auto &program = static_cast<CudaProgram &>(base);
  ++program.runs;
  if (options.profile || options.checkNumerics) {
    return runWatched(program);
  }
  // The first run is the warm-up that libraries want before a capture; what runs once is never captured.
  if (!options.graph || program.runs == 1) {
    ASHLAR_RETURN_IF_ERROR(program.enqueue());
  } else {
    if (!program.captured()) {
      ASHLAR_RETURN_IF_ERROR(program.capture());
    }
    ASHLAR_RETURN_IF_ERROR(program.replay());
  }
  return context.watchdog ? context.noteRun() : Status();
}

Status CudaExecutor::runWatched(CudaProgram &program) {
  if (!options.checkNumerics) {
    ASHLAR_RETURN_IF_ERROR(program.enqueue());
    ASHLAR_RETURN_IF_ERROR(wait());
    return program.collectTimes();
  }
  const DriverLibrary &cuda = context.device.driver();
  auto load = [&](const ashlar_rt_buffer &buffer, Status &status) -> const void * {
    scratch.resize(std::max(scratch.size(), static_cast<size_t>(buffer.bytes)));
    CUresult result = cuda.cuMemcpyDtoHAsync_v2(scratch.data(), context.memory.address(buffer), buffer.bytes, context.compute);
    status = cuda.check(result, "cannot copy from the GPU");
    if (status.ok()) {
      status = wait();
    }
    return scratch.data();
  };
  int device = communicator->firstDevice();
  ASHLAR_RETURN_IF_ERROR(wait());
  ASHLAR_RETURN_IF_ERROR(checkInputs(program, *variant, device, load));
  for (size_t i = 0; i < program.source.num_instrs; ++i) {
    ASHLAR_RETURN_IF_ERROR(program.enqueueAlone(i));
    ASHLAR_RETURN_IF_ERROR(wait());
    if (runsOn(program.source.instrs[i], device)) {
      ASHLAR_RETURN_IF_ERROR(checkNumerics(program, i, device, load));
    }
  }
  return options.profile ? program.collectTimes() : Status();
}

Status CudaExecutor::write(const ashlar_rt_tensor &tensor, int, const std::function<void(char *data)> &fill, uint64_t /*microBatch*/) {
  scratch.assign(tensor.buffer.bytes, 0);
  fill(scratch.data());
  const DriverLibrary &cuda = context.device.driver();
  CUdeviceptr target = context.memory.address(tensor.buffer);
  CUresult result = cuda.cuMemcpyHtoDAsync_v2(target, scratch.data(), tensor.buffer.bytes, context.compute);
  ASHLAR_RETURN_IF_ERROR(cuda.check(result, "cannot copy to the GPU"));
  return wait();
}

Status CudaExecutor::read(const ashlar_rt_tensor &tensor, int, void *data, uint64_t /*microBatch*/) {
  const DriverLibrary &cuda = context.device.driver();
  CUdeviceptr source = context.memory.address(tensor.buffer);
  bool small = tensor.buffer.bytes <= kPinnedBytes;
  if (!small) { // a copy to pageable memory may block: not before the device is there
    ASHLAR_RETURN_IF_ERROR(wait());
  }
  CUresult result = cuda.cuMemcpyDtoHAsync_v2(small ? pinned : data, source, tensor.buffer.bytes, context.compute);
  ASHLAR_RETURN_IF_ERROR(cuda.check(result, "cannot copy from the GPU"));
  ASHLAR_RETURN_IF_ERROR(wait());
  if (small) {
    std::memcpy(data, pinned, tensor.buffer.bytes);
  }
  return Status();
}

Status CudaExecutor::fetch(uint32_t stage, const ashlar_rt_tensor &tensor, const std::function<void(int device, const char *data)> &sink) {
  // Through the window, where every device has room for a part of the tensor. Rank 0 puts the parts together.
  const bool gathers = communicator->rank() == 0;
  const uint64_t bytes = tensor.buffer.bytes;
  std::vector<char> whole(gathers ? static_cast<size_t>(communicator->mesh().devices()) * bytes : 0);
  ashlar_rt_tensor part = tensor;
  for (uint64_t begin = 0; begin < bytes; begin += part.buffer.bytes) {
    part.buffer.offset = tensor.buffer.offset + begin;
    part.buffer.bytes = std::min(bytes - begin, cudaHostBytes(*variant));
    ASHLAR_RETURN_IF_ERROR(read(part, /*device=*/0, communicator->arena(0), /*microBatch=*/0));
    ASHLAR_RETURN_IF_ERROR(communicator->barrier());
    auto keep = [&](int device, const char *data) {
      std::memcpy(whole.data() + static_cast<size_t>(device) * bytes + begin, data, part.buffer.bytes);
    };
    ASHLAR_RETURN_IF_ERROR(communicator->fetch(stage, /*offset=*/0, part.buffer.bytes, keep));
    ASHLAR_RETURN_IF_ERROR(communicator->barrier());
  }
  for (int device = 0; gathers && device < communicator->mesh().devices(); ++device) {
    sink(device, whole.data() + static_cast<size_t>(device) * bytes);
  }
  return Status();
}

Status CudaExecutor::createFeed(Pipeline &pipeline, std::unique_ptr<Feed> &feed) {
  if (pipeline.batchBytes() > context.feedBytes || feeds == static_cast<int>(kFeeds)) {
    return internal("feed {} with batches of {} bytes, but there are {} staging areas of {}", feeds, pipeline.batchBytes(), kFeeds,
                    context.feedBytes);
  }
  CUdeviceptr area = context.staging + static_cast<size_t>(feeds++) * context.feedBytes;
  auto result = std::make_unique<CudaFeed>(context, pipeline, area);
  ASHLAR_RETURN_IF_ERROR(result->create(*variant));
  feed = std::move(result);
  return Status();
}

Status CudaExecutor::benchmark(Program &program, uint64_t count, Benchmark &result) {
  ASHLAR_RETURN_IF_ERROR(Executor::benchmark(program, /*count=*/0, result));
  const DriverLibrary &cuda = context.device.driver();
  for (uint64_t i = 0; i < count; ++i) {
    ASHLAR_RETURN_IF_ERROR(run(program, /*microBatch=*/0)); // the measured one then waits at the GPU already: its way there does not count
    ASHLAR_RETURN_IF_ERROR(cuda.check(cuda.cuEventRecord(begun, context.compute), "cannot record an event"));
    ASHLAR_RETURN_IF_ERROR(run(program, /*microBatch=*/0));
    ASHLAR_RETURN_IF_ERROR(cuda.check(cuda.cuEventRecord(ended, context.compute), "cannot record an event"));
    ASHLAR_RETURN_IF_ERROR(wait());
    float milliseconds = 0;
    ASHLAR_RETURN_IF_ERROR(cuda.check(cuda.cuEventElapsedTime_v2(&milliseconds, begun, ended), "cannot measure a run"));
    result.seconds.push_back(1e-3 * static_cast<double>(milliseconds));
  }
  return measureCopy(result);
}

Status CudaExecutor::measureCopy(Benchmark &result) {
  size_t free = 0;
  size_t total = 0;
  ASHLAR_RETURN_IF_ERROR(context.device.memory(free, total));
  size_t bytes = std::min<size_t>(kBandwidthBytes, roundUp(free / 4, kDeviceAlignment));
  CUdeviceptr memory = 0;
  ASHLAR_RETURN_IF_ERROR(context.device.allocate(2 * bytes, "to measure copies", memory));
  const DriverLibrary &cuda = context.device.driver();
  StridedCopy copy{memory, memory + bytes, bytes};
  for (int i = -1; i < kBandwidthCopies; ++i) {
    if (i == 0) { // after one to warm up
      ASHLAR_RETURN_IF_ERROR(cuda.check(cuda.cuEventRecord(begun, context.compute), "cannot record an event"));
    }
    ASHLAR_RETURN_IF_ERROR(copy.enqueue(cuda, context.compute));
  }
  ASHLAR_RETURN_IF_ERROR(cuda.check(cuda.cuEventRecord(ended, context.compute), "cannot record an event"));
  ASHLAR_RETURN_IF_ERROR(wait());
  float milliseconds = 0;
  ASHLAR_RETURN_IF_ERROR(cuda.check(cuda.cuEventElapsedTime_v2(&milliseconds, begun, ended), "cannot measure a copy"));
  result.copyBytes = bytes;
  result.copyBytesPerSecond = 2e3 * kBandwidthCopies * static_cast<double>(bytes) / static_cast<double>(milliseconds);
  return Status();
}

Status CudaExecutor::close() {
  ASHLAR_RETURN_IF_ERROR(wait());
  // From here on a rank may end before this one: nothing is missed, everything is done.
  ASHLAR_RETURN_IF_ERROR(communicator->barrier());
  if (context.watchdog) {
    context.watchdog->stop();
    for (const std::unique_ptr<Program> &program : programs) { // NCCL waits for ever for graphs that use a communicator
      static_cast<CudaProgram &>(*program).forgetCapture();
    }
    context.seat->disconnect();
  }
  return Status();
}

} // namespace

uint64_t cudaHostBytes(const ashlar_rt_variant &variant) {
  uint64_t largest = 0;
  for (uint32_t i = 0; i < variant.num_tensors; ++i) {
    largest = std::max(largest, variant.tensors[i].buffer.bytes);
  }
  return std::min(largest, kHostBytes);
}

Status createCudaExecutor(const ExecutorParts &parts, std::unique_ptr<Executor> &executor) {
  auto made = std::make_unique<CudaExecutor>();
  CudaExecutor &cuda = *made;
  executor = std::move(made);
  Communicator &communicator = parts.communicator;
  ASHLAR_RETURN_IF_ERROR(communicator.agree(cuda.open(parts.image, parts.variant, communicator, parts.options)));
  ASHLAR_RETURN_IF_ERROR(communicator.agree(cuda.checkSharing()));
  ASHLAR_RETURN_IF_ERROR(communicator.agree(cuda.allocate()));
  if (Status connected = cuda.connect(parts.fail); !connected.ok()) {
    return Status(connected.code(), connected.message()); // not shared: the others may be waiting inside a library
  }
  return communicator.agree(cuda.layOutPrograms());
}

} // namespace ashlar::rt
