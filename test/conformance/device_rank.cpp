// SPDX-License-Identifier: Apache-2.0
//
// The suite on a GPU: the host fills and checks, everything between is on the communication stream.

#include "test/conformance/device_rank.h"

#include "runtime/base/host.h"
#include "runtime/comm/nccl/watchdog.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include <unistd.h>

namespace ashlar::test {
namespace {

using rt::Status;

class DeviceRank {
public:
  DeviceRank(rt::Communicator &host, const CollectiveProgram &program) : host(host), program(program), seat(device, host) {}

  Status create() {
    int count = 0;
    if (rt::environmentInteger("ASHLAR_SHARE_DEVICE") != 0) {
      setenv("NCCL_HOSTID", std::to_string(host.rank()).c_str(), /*overwrite=*/1);
    }
    ASHLAR_RETURN_IF_ERROR(device.load(count));
    ASHLAR_RETURN_IF_ERROR(device.open(host.seat().indexOnHost(host.rank()) % count));
    ASHLAR_RETURN_IF_ERROR(device.createStream(stream));
    ASHLAR_RETURN_IF_ERROR(device.createEvent(done));
    for (size_t i = 0; i < program.collectives().size(); ++i) {
      size_t number = 0;
      ASHLAR_RETURN_IF_ERROR(seat.layOut(program.instr(i), number));
      if (i % 3 != 0) { // the cases share no bytes
        seat.join(number);
      }
    }
    size_t arena = (program.variant().arena_bytes + 255) / 256 * 256;
    rt::DeviceMemory memory;
    const size_t exchange = (seat.workspaceBytes() + 255) / 256 * 256;
    ASHLAR_RETURN_IF_ERROR(device.allocate(arena + exchange + 256, "conformance", memory.arena));
    memory.workspace = memory.arena + arena;
    const CUdeviceptr noteWord = memory.workspace + exchange;
    base = memory.arena;
    seat.place(memory);
    if (!seat.needsConnection()) {
      return Status();
    }
    ASHLAR_RETURN_IF_ERROR(seat.load());
    watchdog = std::make_unique<rt::Watchdog>(device, host, seat, /*links=*/nullptr, noteWord, [&](const Status &status) {
      std::fprintf(stderr, "rank %d: %s\n", host.rank(), status.message().c_str());
    });
    watchdog->enter(rt::Watchdog::kConnecting);
    ASHLAR_RETURN_IF_ERROR(watchdog->start());
    Status connected = seat.connect();
    watchdog->leave();
    return connected;
  }

  Status runRound(int round, int &failures) {
    const rt::DriverLibrary &cuda = device.driver();
    std::vector<char> image(program.variant().arena_bytes, 0x5a);
    for (const CollectiveCase &one : program.cases()) {
      one.fillInput(host.firstDevice(), round, image.data() + one.buffers[0].offset);
    }
    ASHLAR_RETURN_IF_ERROR(cuda.check(cuda.cuMemcpyHtoDAsync_v2(base, image.data(), image.size(), stream), "inputs"));
    for (size_t i = 0; i < program.collectives().size(); ++i) {
      if (watchdog) {
        ASHLAR_RETURN_IF_ERROR(watchdog->note(i, stream));
      }
      ASHLAR_RETURN_IF_ERROR(seat.enqueue(i, stream));
      // What follows on the stream owns the input again: whoever still reads it gets rubbish.
      const CollectiveInstr &instr = program.collectives()[i];
      for (size_t tensor = instr.first; tensor < instr.first + instr.count; ++tensor) {
        const ashlar_rt_buffer *buffers = program.cases()[tensor].buffers;
        if (buffers[0].offset != buffers[1].offset && buffers[0].bytes != 0) {
          CUresult result = cuda.cuMemsetD8Async(base + buffers[0].offset, 0x5a, buffers[0].bytes, stream);
          ASHLAR_RETURN_IF_ERROR(cuda.check(result, "rubbish"));
        }
      }
    }
    ASHLAR_RETURN_IF_ERROR(wait());
    ASHLAR_RETURN_IF_ERROR(cuda.check(cuda.cuMemcpyDtoHAsync_v2(image.data(), base, image.size(), stream), "results"));
    ASHLAR_RETURN_IF_ERROR(wait());
    for (const CollectiveCase &one : program.cases()) {
      std::vector<char> expected = one.expected(program.mesh(), host.firstDevice(), round);
      if (!one.agrees(image.data() + one.buffers[1].offset, expected, program.mesh())) {
        std::fprintf(stderr, "device %d round %d: wrong result of %s\n", host.firstDevice(), round, one.name.c_str());
        ++failures;
      }
    }
    return Status();
  }

  Status close() {
    ASHLAR_RETURN_IF_ERROR(host.barrier());
    if (watchdog) {
      watchdog->stop();
      seat.disconnect();
    }
    return host.barrier();
  }

private:
  Status wait() {
    const rt::DriverLibrary &cuda = device.driver();
    ASHLAR_RETURN_IF_ERROR(cuda.check(cuda.cuEventRecord(done, stream), "an event"));
    if (watchdog) {
      watchdog->started(done);
    }
    return device.wait(done);
  }

  rt::Communicator &host;
  const CollectiveProgram &program;
  rt::CudaDevice device;
  rt::DeviceSeat seat;
  std::unique_ptr<rt::Watchdog> watchdog;
  CUstream stream = nullptr;
  CUevent done = nullptr;
  CUdeviceptr base = 0;
};

} // namespace

std::string deviceSkipReason() {
  rt::CudaDevice device;
  int count = 0;
  Status loaded = device.load(count);
  const char *onHost = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  int ranks = onHost != nullptr ? std::atoi(onHost) : 1;
  bool shared = rt::environmentInteger("ASHLAR_SHARE_DEVICE") != 0;
  if (loaded.ok() && ranks > count && !shared) {
    return fmt::format("{} ranks on this host but {} GPUs", ranks, count);
  }
  return loaded.message();
}

int runDeviceRank(rt::Communicator &communicator, const CollectiveProgram &program, int rounds) {
  DeviceRank rank(communicator, program);
  int failures = 0;
  Status status = rank.create();
  for (int round = 0; round < rounds && status.ok(); ++round) {
    status = rank.runRound(round, failures);
  }
  if (status.ok()) {
    status = rank.close();
  }
  if (!status.ok()) {
    std::fprintf(stderr, "rank %d: %s\n", communicator.rank(), status.message().c_str());
    communicator.abort();
    _exit(1); // the device may never finish
  }
  return failures;
}

} // namespace ashlar::test
