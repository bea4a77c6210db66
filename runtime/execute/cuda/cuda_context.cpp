// SPDX-License-Identifier: Apache-2.0
//
// What a rank has on its GPU. All device memory is one block: arena, constants, staging areas of the batches, messages, workspaces.

#include "runtime/execute/cuda/cuda_context.h"

#include "runtime/base/host.h"
#include "runtime/execute/repeats.h"

#include <algorithm>
#include <cstdlib>

namespace ashlar::rt {
namespace {

std::string sizeText(size_t bytes) {
  double size = static_cast<double>(bytes);
  return size < 0x1p20 ? fmt::format("{:.1f} KiB", size * 0x1p-10)
                       : (size < 0x1p30 ? fmt::format("{:.1f} MiB", size * 0x1p-20) : fmt::format("{:.2f} GiB", size * 0x1p-30));
}

bool hasKind(const ashlar_rt_variant &variant, uint32_t kind) {
  return std::any_of(variant.programs, variant.programs + variant.num_programs, [&](const ashlar_rt_program &program) {
    return std::any_of(program.instrs, program.instrs + program.num_instrs, [&](auto &instr) { return instr.kind == kind; });
  });
}

// Returns the workspace of the attention that takes most; 0 where there is none.
size_t attentionBytes(const ashlar_rt_variant &variant) {
  size_t most = 0;
  for (uint32_t p = 0; p < variant.num_programs; ++p) {
    const ashlar_rt_program &program = variant.programs[p];
    for (uint32_t i = 0; i < program.num_instrs; ++i) {
      const ashlar_rt_instr &instr = program.instrs[i];
      const bool isAttention = instr.kind == ASHLAR_RT_ATTENTION;
      most =
          std::max<size_t>(most, isAttention ? deviceAttentionMemory(*static_cast<const ashlar_rt_attention_desc *>(instr.desc)).bytes : 0);
    }
  }
  return most;
}

// Bytes of a message of each channel that a stage receives on.
size_t receivedBytes(const ashlar_rt_variant &variant) {
  size_t bytes = 0;
  for (uint32_t p = 0; p < variant.num_programs; ++p) {
    const ashlar_rt_program &program = variant.programs[p];
    for (uint32_t i = 0; i < program.num_receives; ++i) {
      bytes += roundUp(variant.tensors[program.receives[i].tensor].buffer.bytes, kDeviceAlignment);
    }
  }
  return bytes;
}

} // namespace

std::vector<ConstantPiece> constantsOf(const ashlar_rt_variant &variant) {
  std::vector<ConstantPiece> read;
  auto add = [&](const ashlar_rt_instr &instr, const std::vector<uint64_t> &counts) {
    for (uint32_t b = 0; b < instr.num_buffers; ++b) {
      const ashlar_rt_buffer &buffer = instr.buffers[b];
      const SweptBytes swept = sweep(buffer, counts);
      if (buffer.space == ASHLAR_RT_CONSTANT && buffer.bytes > 0) {
        read.push_back(
            {static_cast<uint64_t>(swept.low) / ASHLAR_RT_ALIGNMENT * ASHLAR_RT_ALIGNMENT, static_cast<uint64_t>(swept.high), 0});
      }
    }
    return Status();
  };
  for (uint32_t p = 0; p < variant.num_programs; ++p) {
    (void)visitInstrs(variant.programs[p], add); // was checked
  }
  std::sort(read.begin(), read.end(), [](const ConstantPiece &a, const ConstantPiece &b) { return a.begin < b.begin; });
  std::vector<ConstantPiece> pieces;
  for (const ConstantPiece &one : read) {
    const uint64_t end = pieces.empty() ? 0 : roundUp(pieces.back().end, ASHLAR_RT_ALIGNMENT);
    if (!pieces.empty() && one.begin <= end) {
      pieces.back().end = std::max(pieces.back().end, one.end);
    } else {
      pieces.push_back({one.begin, one.end, pieces.empty() ? 0 : pieces.back().offset + end - pieces.back().begin});
    }
  }
  return pieces;
}

// The device of a rank follows its place on its host. Where a launcher shows each rank a device of its own, that is the one.
Status CudaContext::open(Communicator &communicator, const ashlar_rt_variant &variant) {
  host = &communicator;
  seat = std::make_unique<DeviceSeat>(device, communicator);
  if (variant.num_stages > 1) {
    links = std::make_unique<StageLinks>(device, communicator, seat->library(), variant);
    // Streams that share a queue of the device wait for each other where nothing asks them to. Read when the driver is loaded.
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0);
  }
  int count = 0;
  ASHLAR_RETURN_IF_ERROR(device.load(count));
  const Place &place = host->seat();
  if (environmentInteger("ASHLAR_SHARE_DEVICE") != 0) {
    // NCCL then takes the ranks for different hosts. Read when it is loaded.
    setenv("NCCL_HOSTID", fmt::format("ashlar-{}-{}", hashText(hostIdentity()), place.rank).c_str(), /*overwrite=*/1);
  }
  return device.open(place.indexOnHost(place.rank) % count);
}

Status CudaContext::checkSharing() const {
  if (environmentInteger("ASHLAR_SHARE_DEVICE") != 0) {
    return Status();
  }
  const Place &place = host->seat();
  BusAddress mine = device.busAddress();
  std::vector<BusAddress> all(static_cast<size_t>(host->processes()));
  ASHLAR_RETURN_IF_ERROR(host->allGather(&mine, sizeof(mine), all.data()));
  for (size_t b = 0; b < all.size(); ++b) {
    for (size_t a = 0; a < b; ++a) {
      if (all[a] == all[b] && place.hostOfProcess[a] == place.hostOfProcess[b]) {
        return invalid(
            "ranks {} and {} would both run on the GPU at {:04x}:{:02x}:{:02x}, but NCCL cannot connect two ranks on one; start at "
            "most as many ranks on a host as it has GPUs (ASHLAR_SHARE_DEVICE=1 allows it for tests)",
            a, b, all[a].domain, all[a].bus, all[a].device);
      }
    }
  }
  return Status();
}

Status CudaContext::allocate(const ashlar_rt_image &image, const ashlar_rt_variant &variant) {
  for (uint32_t i = 0; i < variant.num_tensors; ++i) {
    feedBytes += variant.tensors[i].role == ASHLAR_RT_INPUT ? roundUp(variant.tensors[i].buffer.bytes, kDeviceAlignment) : 0;
  }
  feedBytes = image.training != nullptr ? feedBytes : 0;
  multiplies = hasKind(variant, ASHLAR_RT_GEMM);
  convolves = hasKind(variant, ASHLAR_RT_CONV);
  attends = hasKind(variant, ASHLAR_RT_ATTENTION);
  size_t arena = roundUp(variant.arena_bytes, kDeviceAlignment);
  memory.pieces = constantsOf(variant);
  size_t constants = memory.pieces.empty() ? 0 : memory.pieces.back().offset + memory.pieces.back().end - memory.pieces.back().begin;
  constants = roundUp(constants, kDeviceAlignment);
  const size_t packed = roundUp(seat->workspaceBytes(), kDeviceAlignment);
  const size_t exchange = packed + (needsConnection() ? kDeviceAlignment : 0); // and the watchdog's word
  size_t calls =
      std::max<size_t>({multiplies ? kMatmulWorkspaceBytes : 0, convolves ? kConvolutionWorkspaceBytes : 0, attentionBytes(variant)});
  size_t received = receivedBytes(variant);
  size_t total = arena + constants + kFeeds * feedBytes + received + exchange + calls;
  blockBytes = total;
  std::string purpose =
      fmt::format("tensors {}, constants {}, batches {}, messages {}, collectives {}, matrix products {}", sizeText(arena),
                  sizeText(constants), sizeText(kFeeds * feedBytes), sizeText(received), sizeText(exchange), sizeText(calls));
  CUdeviceptr base = 0;
  ASHLAR_RETURN_IF_ERROR(device.allocate(std::max<size_t>(total, kDeviceAlignment), purpose, base));
  memory.arena = base;
  memory.constants = base + arena;
  staging = memory.constants + constants;
  messages = staging + kFeeds * feedBytes;
  memory.workspace = messages + received;
  noteWord = memory.workspace + packed;
  callWorkspace = base + total - calls;
  seat->place(memory);
  const DriverLibrary &cuda = device.driver();
  ASHLAR_RETURN_IF_ERROR(device.createStream(compute));
  ASHLAR_RETURN_IF_ERROR(device.createStream(copies));
  // A collective that waits for a free multiprocessor makes all ranks wait.
  ASHLAR_RETURN_IF_ERROR(device.createStream(communication, /*urgent=*/true));
  ASHLAR_RETURN_IF_ERROR(device.createEvent(finished));
  ASHLAR_RETURN_IF_ERROR(cuda.check(cuda.cuMemsetD32Async(base, 0, total / sizeof(uint32_t), compute), "cannot fill memory of the GPU"));
  for (const ConstantPiece &piece : memory.pieces) {
    CUresult result =
        cuda.cuMemcpyHtoDAsync_v2(memory.constants + piece.offset, image.constants + piece.begin, piece.end - piece.begin, compute);
    ASHLAR_RETURN_IF_ERROR(cuda.check(result, "cannot copy the constants to the GPU"));
  }
  return writeCoordinates(variant);
}

Status CudaContext::writeCoordinates(const ashlar_rt_variant &variant) {
  std::vector<int64_t> at = host->mesh().coordinates(host->firstDevice());
  if (!at.empty()) {
    const DriverLibrary &cuda = device.driver();
    CUdeviceptr target = memory.arena + variant.coordinates_offset;
    CUresult result = cuda.cuMemcpyHtoDAsync_v2(target, at.data(), at.size() * sizeof(int64_t), compute);
    ASHLAR_RETURN_IF_ERROR(cuda.check(result, "cannot copy the coordinates to the GPU"));
  }
  return wait();
}

Status CudaContext::clear(const ashlar_rt_variant &variant) {
  const DriverLibrary &cuda = device.driver();
  CUresult result = cuda.cuMemsetD8Async(memory.arena, 0, variant.arena_bytes, compute);
  ASHLAR_RETURN_IF_ERROR(cuda.check(result, "cannot fill memory of the GPU"));
  return writeCoordinates(variant);
}

Status CudaContext::loadLibraries() {
  ASHLAR_RETURN_IF_ERROR(multiplies ? matmuls.create(device, callWorkspace, compute) : Status());
  ASHLAR_RETURN_IF_ERROR(convolves ? convolutions.create(device, callWorkspace) : Status());
  return attends ? attentions.create(device, callWorkspace) : Status();
}

std::vector<std::string> CudaContext::replacements() const {
  std::vector<std::string> lines = matmuls.replacements();
  lines.insert(lines.end(), convolutions.relaxed().begin(), convolutions.relaxed().end());
  lines.insert(lines.end(), attentions.relaxed().begin(), attentions.relaxed().end());
  return lines;
}

Status CudaContext::connect(std::function<void(const Status &)> fail) {
  if (!needsConnection()) {
    return Status();
  }
  watchdog = std::make_unique<Watchdog>(device, *host, *seat, links.get(), noteWord, std::move(fail));
  watchdog->enter(Watchdog::kConnecting); // first: from here on the watchdog leaves the communicators alone
  ASHLAR_RETURN_IF_ERROR(watchdog->start());
  Status connected = seat->connect();
  if (connected.ok() && links) {
    connected = links->connect();
  }
  watchdog->leave();
  return connected;
}

Status CudaContext::noteRun() {
  const DriverLibrary &cuda = device.driver();
  ASHLAR_RETURN_IF_ERROR(cuda.check(cuda.cuEventRecord(finished, compute), "cannot record an event"));
  if (watchdog) {
    watchdog->started(finished);
  }
  return Status();
}

Status CudaContext::wait() {
  ASHLAR_RETURN_IF_ERROR(noteRun());
  return device.wait(finished);
}

} // namespace ashlar::rt
