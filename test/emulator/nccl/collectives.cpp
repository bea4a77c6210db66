// SPDX-License-Identifier: Apache-2.0
//
// Collectives as exchanges. Sums go over the members in the order of their ranks, so every member gets the same bits; f16 and bf16 are
// summed in float and rounded once.

#include "test/emulator/nccl/communicator.h"

#include <algorithm>
#include <cstring>

namespace ashlar::emulator {
namespace {

template <class T> T combine(ncclRedOp_t operation, T a, T b) {
  switch (operation) {
  case ncclProd:
    return T(a * b);
  case ncclMax:
    return std::max(a, b);
  case ncclMin:
    return std::min(a, b);
  default:
    return T(a + b);
  }
}

// out[i] = the members' elements i, combined. Wide is the type they are combined in.
template <class T, class Wide>
void reduceAs(ncclRedOp_t operation, const std::vector<const std::byte *> &parts, std::byte *out, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    Wide result{};
    for (size_t member = 0; member < parts.size(); ++member) {
      T value;
      std::memcpy(&value, parts[member] + i * sizeof(T), sizeof(T));
      const auto wide = Wide(value);
      result = member == 0 ? wide : combine(operation, result, wide);
    }
    if (operation == ncclAvg) {
      result = Wide(result / Wide(parts.size()));
    }
    const auto value = T(result);
    std::memcpy(out + i * sizeof(T), &value, sizeof(T));
  }
}

void reduce(ncclDataType_t type, ncclRedOp_t operation, const std::vector<const std::byte *> &parts, std::byte *out, size_t count) {
  switch (type) {
  case ncclInt8:
    return reduceAs<int8_t, int8_t>(operation, parts, out, count);
  case ncclUint8:
    return reduceAs<uint8_t, uint8_t>(operation, parts, out, count);
  case ncclInt32:
    return reduceAs<int32_t, int32_t>(operation, parts, out, count);
  case ncclUint32:
    return reduceAs<uint32_t, uint32_t>(operation, parts, out, count);
  case ncclInt64:
    return reduceAs<int64_t, int64_t>(operation, parts, out, count);
  case ncclUint64:
    return reduceAs<uint64_t, uint64_t>(operation, parts, out, count);
  case ncclFloat16:
    return reduceAs<Half, double>(operation, parts, out, count);
  case ncclBfloat16:
    return reduceAs<BFloat, double>(operation, parts, out, count);
  case ncclFloat32:
    return reduceAs<float, float>(operation, parts, out, count);
  default:
    return reduceAs<double, double>(operation, parts, out, count);
  }
}

std::byte *mustResolve(CUdeviceptr address, size_t bytes) {
  std::byte *data = bytes == 0 ? nullptr : Driver::get().resolve(address, bytes);
  if (!data && bytes != 0) {
    throw Fault(Fault::IllegalAddress, "a buffer of a collective is not in device memory");
  }
  return data;
}

// Sends piece r of `in` (or all of it) to member r, receives a piece from each, and reduces them.
void addReduction(Exchange &exchange, const Communicator &communicator, const Collective &collective, const Label &label, bool scatters) {
  const size_t bytes = label.bytes;
  const std::byte *in = mustResolve(collective.in, scatters ? bytes * size_t(communicator.ranks) : bytes);
  std::byte *out = mustResolve(collective.out, bytes);
  auto pieces = std::make_shared<std::vector<std::vector<std::byte>>>(size_t(communicator.ranks));
  const auto rank = size_t(communicator.rank);
  for (size_t peer = 0; peer < pieces->size(); ++peer) {
    (*pieces)[peer].resize(bytes);
    const std::byte *piece = in + (scatters ? peer * bytes : 0);
    if (peer == rank) {
      std::memcpy((*pieces)[peer].data(), piece, bytes);
    } else {
      exchange.send(int(peer), label, piece);
      exchange.receive(int(peer), label, (*pieces)[peer].data());
    }
  }
  exchange.then([=] {
    std::vector<const std::byte *> parts;
    for (const auto &piece : *pieces) {
      parts.push_back(piece.data());
    }
    reduce(collective.type, collective.operation, parts, out, collective.count);
  });
}

void addGather(Exchange &exchange, const Communicator &communicator, const Collective &collective, const Label &label) {
  const std::byte *in = mustResolve(collective.in, label.bytes);
  std::byte *out = mustResolve(collective.out, label.bytes * size_t(communicator.ranks));
  for (int peer = 0; peer < communicator.ranks; ++peer) {
    std::byte *piece = out + size_t(peer) * label.bytes;
    if (peer == communicator.rank) {
      exchange.then([=] { std::memmove(piece, in, label.bytes); });
    } else {
      exchange.send(peer, label, in);
      exchange.receive(peer, label, piece);
    }
  }
}

void addBroadcast(Exchange &exchange, const Communicator &communicator, const Collective &collective, const Label &label) {
  std::byte *out = mustResolve(collective.out, label.bytes);
  if (communicator.rank != collective.peer) {
    exchange.receive(collective.peer, label, out);
    return;
  }
  const std::byte *in = mustResolve(collective.in, label.bytes);
  for (int peer = 0; peer < communicator.ranks; ++peer) {
    if (peer != communicator.rank) {
      exchange.send(peer, label, in);
    }
  }
  exchange.then([=] { std::memmove(out, in, label.bytes); });
}

} // namespace

size_t bytesOf(ncclDataType_t type) {
  switch (type) {
  case ncclInt8:
  case ncclUint8:
    return 1;
  case ncclFloat16:
  case ncclBfloat16:
    return 2;
  case ncclInt32:
  case ncclUint32:
  case ncclFloat32:
    return 4;
  case ncclInt64:
  case ncclUint64:
  case ncclFloat64:
    return 8;
  default:
    return 0;
  }
}

void add(Exchange &exchange, const Communicator &communicator, const Collective &collective) {
  const bool pointToPoint = collective.kind == Collective::Send || collective.kind == Collective::Receive;
  // Both ends of a message say the same.
  const Label label{pointToPoint ? uint32_t(Collective::Send) : uint32_t(collective.kind), uint32_t(collective.type),
                    uint32_t(collective.operation), pointToPoint ? 0 : uint32_t(collective.peer),
                    collective.count * bytesOf(collective.type)};
  switch (collective.kind) {
  case Collective::AllReduce:
    return addReduction(exchange, communicator, collective, label, /*scatters=*/false);
  case Collective::ReduceScatter:
    return addReduction(exchange, communicator, collective, label, /*scatters=*/true);
  case Collective::AllGather:
    return addGather(exchange, communicator, collective, label);
  case Collective::Broadcast:
    return addBroadcast(exchange, communicator, collective, label);
  case Collective::Send:
    return exchange.sendWhenPosted(collective.peer, label, mustResolve(collective.in, label.bytes));
  case Collective::Receive:
    return exchange.post(collective.peer, label, mustResolve(collective.out, label.bytes));
  }
}

} // namespace ashlar::emulator
