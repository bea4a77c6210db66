// SPDX-License-Identifier: Apache-2.0
//
// The cuda target: one rank, one GPU.

#include "runtime/execute/cuda/cuda_executor.h"

#include "runtime/base/clock.h"
#include "runtime/execute/cuda/cuda_feed.h"
#include "runtime/execute/cuda/cuda_messages.h"
#include "runtime/execute/cuda/cuda_program.h"
#include "runtime/execute/cuda/cuda_trace.h"
#include "runtime/execute/numerics.h"
#include "runtime/execute/repeats.h"

#include <algorithm>
#include <cstdio>
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
  Status rehearse();

  Status run(Program &program, uint64_t microBatch) override;
  Status reserveTrace(size_t runs) override { return trace.reserve(runs); }
  Status beginTrace() override { return trace.open(); }
  Status endTrace() override { return trace.close(*options.recorder); }
  Status wait() override { return context.wait(); }
  Status write(const ashlar_rt_tensor &tensor, int device, const std::function<void(char *data)> &fill, uint64_t microBatch) override;
  Status read(const ashlar_rt_tensor &tensor, int device, void *data, uint64_t microBatch) override;
  Status note(const ashlar_rt_tensor &tensor, uint64_t microBatch, size_t place) override;
  Status recall(size_t place, char (&data)[kNoteBytes]) override;
  Status fetch(uint32_t stage, const ashlar_rt_tensor &tensor, const std::function<void(int device, const char *data)> &sink) override;
  Status createFeed(Pipeline &pipeline, std::unique_ptr<Feed> &feed) override;
  Status benchmark(Program &program, uint64_t count, Benchmark &result) override;
  Status close() override;
  std::vector<HeldPart> held(uint64_t) const override {
    return {{"memory of the GPU", context.blockBytes},
            {"workspace of convolutions beyond it", context.convolutions.extraBytes()},
            {"workspace of attention beyond it", context.attentions.extraBytes()}};
  }
  bool mayHang() const override { return context.device.isOpen(); }
  bool messagesMeet() const override { return true; }
  bool runsAhead() const override { return !isWatched(); }
  std::string startTimes() const override { return times; }

private:
  Status launch(CudaProgram &program, uint64_t slot);
  Status runWatched(CudaProgram &program, uint64_t microBatch);
  Status measureCopy(Benchmark &result);
  void noteTime(const char *what);
  void tellReplacements() const;
  bool isWatched() const { return options.profile || options.checkNumerics; }
  uint64_t slotOf(uint64_t microBatch) const { return microBatch % slotsOf(*variant); }
  CUdeviceptr address(const ashlar_rt_buffer &buffer, uint64_t slot) const {
    return context.memory.address(bufferInArena(*variant, buffer, slot));
  }

  CudaContext context;
  CudaMessages messages{context};
  CudaTrace trace{context};
  int feeds = 0;
  CUevent begun = nullptr; // with `ended`: the time of a run
  CUevent ended = nullptr;
  void *pinned = nullptr;
  void *pinnedNotes = nullptr;
  CUevent noted[kNotes] = {};
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
  for (uint32_t i = 0; i < variant->num_programs; ++i) {
    ASHLAR_RETURN_IF_ERROR(checkInstrs(variant->programs[i]));
  }
  ASHLAR_RETURN_IF_ERROR(context.open(seat, *variant));
  noteTime("driver");
  ASHLAR_RETURN_IF_ERROR(context.device.loadModule(*image));
  noteTime("module");
  for (uint32_t i = 0; i < variant->num_programs; ++i) {
    auto program = std::make_unique<CudaProgram>(variant->programs[i], context);
    ASHLAR_RETURN_IF_ERROR(program->plan(*variant));
    programs.push_back(std::move(program));
  }
  ASHLAR_RETURN_IF_ERROR(messages.plan(*image, *variant, programs));
  if (context.needsConnection()) {
    ASHLAR_RETURN_IF_ERROR(context.seat->load());
  }
  return Status();
}

Status CudaExecutor::allocate() {
  ASHLAR_RETURN_IF_ERROR(context.allocate(*image, *variant));
  ASHLAR_RETURN_IF_ERROR(context.device.createEvent(begun, /*timing=*/true));
  ASHLAR_RETURN_IF_ERROR(context.device.createEvent(ended, /*timing=*/true));
  ASHLAR_RETURN_IF_ERROR(context.device.allocatePinned(kPinnedBytes, pinned));
  ASHLAR_RETURN_IF_ERROR(context.device.allocatePinned(kNotes * kNoteBytes, pinnedNotes));
  for (CUevent &event : noted) {
    ASHLAR_RETURN_IF_ERROR(context.device.createEvent(event));
  }
  noteTime("memory");
  ASHLAR_RETURN_IF_ERROR(context.loadLibraries());
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
  ASHLAR_RETURN_IF_ERROR(messages.create(options.profile));
  ASHLAR_RETURN_IF_ERROR(context.convolutions.finish());
  ASHLAR_RETURN_IF_ERROR(context.attentions.finish());
  // Trials of products wrote to the arena.
  ASHLAR_RETURN_IF_ERROR(context.multiplies ? context.clear(*variant) : Status());
  noteTime("plan");
  tellReplacements();
  return Status();
}

// The ranks of a stage run the same calls: the first one speaks.
void CudaExecutor::tellReplacements() const {
  for (const std::string &line : context.replacements()) {
    if (communicator->firstDevice() == 0) {
      std::fputs(fmt::format("warning: {}\n", line).c_str(), stderr);
    }
  }
}

// Runs everything once, on memory that is cleared again, and captures what a step repeats. A message that waits for the other stage
// occupies the device, and what libraries and the driver do when something runs for the first time, or is captured, may wait for all of the
// device: none of that may happen once messages are under way.
Status CudaExecutor::rehearse() {
  if (!context.links) {
    return Status();
  }
  for (std::unique_ptr<Program> &each : programs) {
    auto &program = static_cast<CudaProgram &>(*each);
    ASHLAR_RETURN_IF_ERROR(program.enqueue(/*slot=*/0));
    ASHLAR_RETURN_IF_ERROR(wait());
    const bool captures = options.graph && !isWatched() && program.source.id.role != ASHLAR_RT_INIT;
    for (uint64_t slot = 0; captures && slot < program.numInstances(); ++slot) {
      ASHLAR_RETURN_IF_ERROR(program.capture(slot));
      ASHLAR_RETURN_IF_ERROR(program.replay(slot));
      ASHLAR_RETURN_IF_ERROR(wait());
    }
  }
  ASHLAR_RETURN_IF_ERROR(messages.rehearse());
  ASHLAR_RETURN_IF_ERROR(context.clear(*variant));
  noteTime("rehearsal");
  return Status();
}

Status CudaExecutor::run(Program &base, uint64_t microBatch) {
  auto &program = static_cast<CudaProgram &>(base);
  ++program.runs;
  ASHLAR_RETURN_IF_ERROR(messages.begin(program, microBatch));
  const bool records = options.recorder != nullptr && options.recorder->records();
  if (records) {
    options.recorder->setMicroBatch(microBatch);
    ASHLAR_RETURN_IF_ERROR(trace.begin(*options.recorder, static_cast<uint16_t>(&program.source - variant->programs)));
  }
  ASHLAR_RETURN_IF_ERROR(isWatched() ? runWatched(program, microBatch) : launch(program, slotOf(microBatch)));
  ASHLAR_RETURN_IF_ERROR(records ? trace.end() : Status());
  ASHLAR_RETURN_IF_ERROR(messages.end(program, microBatch));
  return context.watchdog ? context.noteRun() : Status();
}

// The first run is the warm-up that libraries want before a capture, unless there was a rehearsal; what runs once is never captured.
Status CudaExecutor::launch(CudaProgram &program, uint64_t slot) {
  if (!options.graph || (program.runs == 1 && !program.captured(slot))) {
    return program.enqueue(slot);
  }
  if (!program.captured(slot)) {
    ASHLAR_RETURN_IF_ERROR(program.capture(slot));
  }
  return program.replay(slot);
}

Status CudaExecutor::runWatched(CudaProgram &program, uint64_t microBatch) {
  const uint64_t slot = slotOf(microBatch);
  if (!options.checkNumerics) {
    ASHLAR_RETURN_IF_ERROR(program.enqueue(slot));
    ASHLAR_RETURN_IF_ERROR(wait());
    ASHLAR_RETURN_IF_ERROR(messages.collectTimes(program));
    return program.collectTimes();
  }
  const DriverLibrary &cuda = context.device.driver();
  InstrCursor cursor(program.source);
  auto load = [&](const ashlar_rt_buffer &buffer, Status &status) -> const void * {
    scratch.resize(std::max(scratch.size(), static_cast<size_t>(buffer.bytes)));
    const CUdeviceptr from = address(buffer, slot) + static_cast<CUdeviceptr>(cursor.shiftOf(buffer));
    CUresult result = cuda.cuMemcpyDtoHAsync_v2(scratch.data(), from, buffer.bytes, context.compute);
    status = cuda.check(result, "cannot copy from the GPU");
    if (status.ok()) {
      status = wait();
    }
    return scratch.data();
  };
  int device = communicator->firstDevice();
  ASHLAR_RETURN_IF_ERROR(wait());
  ASHLAR_RETURN_IF_ERROR(checkInputs(program, *variant, device, load));
  for (size_t i = 0; cursor.next();) {
    const ashlar_rt_instr &instr = program.source.instrs[cursor.instr()];
    if (instr.kind == ASHLAR_RT_REPEAT) {
      continue;
    }
    ASHLAR_RETURN_IF_ERROR(program.enqueueAlone(i++, slot));
    ASHLAR_RETURN_IF_ERROR(wait());
    if (runsOn(instr, device)) {
      ASHLAR_RETURN_IF_ERROR(checkNumerics(program, cursor.instr(), device, load));
    }
  }
  ASHLAR_RETURN_IF_ERROR(options.profile ? messages.collectTimes(program) : Status());
  return options.profile ? program.collectTimes() : Status();
}

Status CudaExecutor::write(const ashlar_rt_tensor &tensor, int, const std::function<void(char *data)> &fill, uint64_t microBatch) {
  scratch.assign(tensor.buffer.bytes, 0);
  fill(scratch.data());
  const DriverLibrary &cuda = context.device.driver();
  CUdeviceptr target = address(tensor.buffer, slotOf(microBatch));
  CUresult result = cuda.cuMemcpyHtoDAsync_v2(target, scratch.data(), tensor.buffer.bytes, context.compute);
  ASHLAR_RETURN_IF_ERROR(cuda.check(result, "cannot copy to the GPU"));
  return wait();
}

Status CudaExecutor::read(const ashlar_rt_tensor &tensor, int, void *data, uint64_t microBatch) {
  const DriverLibrary &cuda = context.device.driver();
  CUdeviceptr source = address(tensor.buffer, slotOf(microBatch));
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

Status CudaExecutor::note(const ashlar_rt_tensor &tensor, uint64_t microBatch, size_t place) {
  const DriverLibrary &cuda = context.device.driver();
  char *const target = static_cast<char *>(pinnedNotes) + place * kNoteBytes;
  CUresult result = cuda.cuMemcpyDtoHAsync_v2(target, address(tensor.buffer, slotOf(microBatch)), tensor.buffer.bytes, context.compute);
  ASHLAR_RETURN_IF_ERROR(cuda.check(result, "cannot copy from the GPU"));
  return cuda.check(cuda.cuEventRecord(noted[place], context.compute), "cannot record an event");
}

Status CudaExecutor::recall(size_t place, char (&data)[kNoteBytes]) {
  ASHLAR_RETURN_IF_ERROR(context.device.wait(noted[place]));
  std::memcpy(data, static_cast<char *>(pinnedNotes) + place * kNoteBytes, kNoteBytes);
  return Status();
}

Status CudaExecutor::fetch(uint32_t stage, const ashlar_rt_tensor &tensor, const std::function<void(int device, const char *data)> &sink) {
  if (tensor.buffer.space != ASHLAR_RT_ARENA) {
    return internal("tensor {} lies in a slot, so its micro-batch is unknown", tensor.name);
  }
  // Through the window, where every device has room for a part of the tensors of its stage. Rank 0 puts the parts together.
  const bool gathers = communicator->rank() == 0, isHere = stage == variant->stage;
  const uint64_t room = cudaHostBytes(Stages(*variant)[stage]);
  const uint64_t bytes = tensor.buffer.bytes;
  std::vector<char> whole(gathers ? static_cast<size_t>(communicator->mesh().devices()) * bytes : 0);
  ashlar_rt_tensor part = tensor;
  for (uint64_t begin = 0; begin < bytes; begin += part.buffer.bytes) {
    part.buffer.offset = tensor.buffer.offset + begin;
    part.buffer.bytes = std::min(bytes - begin, room);
    ASHLAR_RETURN_IF_ERROR(isHere ? read(part, /*device=*/0, communicator->arena(0), /*microBatch=*/0) : Status());
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
  ASHLAR_RETURN_IF_ERROR(messages.join());
  ASHLAR_RETURN_IF_ERROR(wait());
  // From here on a rank may end before this one: nothing is missed, everything is done.
  ASHLAR_RETURN_IF_ERROR(communicator->barrier());
  if (context.watchdog) {
    context.watchdog->stop();
    for (const std::unique_ptr<Program> &program : programs) { // NCCL waits for ever for graphs that use a communicator
      static_cast<CudaProgram &>(*program).forgetCapture();
    }
    context.seat->disconnect();
    if (context.links) {
      context.links->disconnect();
    }
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
  ASHLAR_RETURN_IF_ERROR(communicator.agree(cuda.layOutPrograms()));
  if (Status rehearsed = cuda.rehearse(); !rehearsed.ok()) {
    return Status(rehearsed.code(), rehearsed.message()); // the same
  }
  return Status();
}

} // namespace ashlar::rt
