// SPDX-License-Identifier: Apache-2.0
//
// The entries of NCCL. Calls between ncclGroupStart and ncclGroupEnd are collected; those of one communicator and stream become one
// exchange.

#include "test/emulator/driver/settings.h"
#include "test/emulator/nccl/communicator.h"

#include <chrono>
#include <random>
#include <thread>

using namespace ashlar::emulator;

struct ncclComm {
  std::shared_ptr<Communicator> communicator;
};

namespace {

struct Call {
  std::shared_ptr<Communicator> communicator;
  CUstream stream;
  Collective collective;
};

thread_local int groupDepth = 0;
thread_local std::vector<Call> groupCalls;
thread_local std::vector<std::shared_ptr<Communicator>> groupJoins; // blocking ones
thread_local std::string lastError;

ncclResult_t refuse(ncclResult_t result, const std::string &text) {
  lastError = text;
  say("NCCL: " + text);
  return result;
}

// Meets the other members; all of a group at once.
ncclResult_t joinAll(const std::vector<std::shared_ptr<Communicator>> &communicators) {
  for (bool pending = true; pending;) {
    pending = false;
    for (const auto &communicator : communicators) {
      communicator->join();
      pending |= communicator->state == Communicator::Joining;
    }
    if (pending) {
      Engine::get().lock.unlock();
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      Engine::get().lock.lock();
    }
  }
  for (const auto &communicator : communicators) {
    if (communicator->state == Communicator::Failed) {
      lastError = communicator->errorText;
      return communicator->error;
    }
  }
  return ncclSuccess;
}

// Queues calls of one communicator and stream.
ncclResult_t enqueueAll(const std::vector<Call> &calls) {
  const std::shared_ptr<Communicator> communicator = calls[0].communicator;
  std::vector<Collective> collectives;
  for (const Call &call : calls) {
    collectives.push_back(call.collective);
  }
  Work work;
  work.serial = communicator.get();
  // A graph keeps what its nodes hold.
  std::shared_ptr<bool> graph = calls[0].stream->capture ? communicator->captured : nullptr;
  work.start = [communicator, collectives, graph]() -> Step {
    auto exchange = std::make_shared<Exchange>(communicator);
    for (const Collective &collective : collectives) {
      add(*exchange, *communicator, collective);
    }
    return [exchange] { return exchange->progress(); };
  };
  return enqueue(calls[0].stream, std::move(work)) == CUDA_SUCCESS ? ncclSuccess
                                                                   : refuse(ncclUnhandledCudaError, "the stream takes no work");
}

ncclResult_t runGroup() {
  std::vector<Call> calls;
  std::vector<std::shared_ptr<Communicator>> joins;
  std::swap(calls, groupCalls);
  std::swap(joins, groupJoins);
  if (const ncclResult_t failed = joinAll(joins)) {
    return failed;
  }
  while (!calls.empty()) {
    std::vector<Call> same, others;
    for (const Call &call : calls) {
      (call.communicator == calls[0].communicator && call.stream == calls[0].stream ? same : others).push_back(call);
    }
    if (const ncclResult_t failed = enqueueAll(same)) {
      return failed;
    }
    calls = std::move(others);
  }
  return ncclSuccess;
}

bool isDevice(CUdeviceptr address, size_t bytes) {
  return bytes == 0 || Driver::get().resolve(address, bytes) != nullptr;
}

// Checks a call as NCCL does, and runs it or adds it to the group.
ncclResult_t call(ncclComm_t handle, cudaStream_t stream, const Collective &collective) {
  const std::lock_guard<std::recursive_mutex> guard(Engine::get().lock);
  static uint64_t calls = 0;
  if (++calls == setting("NCCL_FAIL", 0)) {
    return refuse(ncclSystemError, "call " + std::to_string(calls) + " was told to fail");
  }
  if (!handle) {
    return refuse(ncclInvalidArgument, "no communicator");
  }
  Communicator &communicator = *handle->communicator;
  if (communicator.state != Communicator::Ready) {
    return refuse(communicator.error != ncclSuccess ? communicator.error : ncclInvalidArgument, "the communicator is not ready");
  }
  CUstream resolved = Driver::get().streamOf(reinterpret_cast<CUstream>(stream));
  if (!resolved || resolved->device != communicator.device) {
    return refuse(ncclInvalidArgument, "the stream is not of the communicator's device");
  }
  const size_t bytes = collective.count * bytesOf(collective.type), all = bytes * size_t(communicator.ranks);
  const bool sends =
      collective.kind != Collective::Receive && (collective.kind != Collective::Broadcast || collective.peer == communicator.rank);
  if (bytesOf(collective.type) == 0 || collective.operation > ncclAvg || collective.peer < 0 || collective.peer >= communicator.ranks ||
      (sends && !isDevice(collective.in, collective.kind == Collective::ReduceScatter ? all : bytes)) ||
      (collective.kind != Collective::Send && !isDevice(collective.out, collective.kind == Collective::AllGather ? all : bytes))) {
    return refuse(ncclInvalidArgument, "a wrong type, operation, peer or buffer");
  }
  const Call made{handle->communicator, resolved, collective};
  if (groupDepth > 0) {
    groupCalls.push_back(made);
    return ncclSuccess;
  }
  return enqueueAll({made});
}

CUdeviceptr address(const void *pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

} // namespace

extern "C" {

ncclResult_t ncclGetVersion(int *version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result) {
  static constexpr const char *kTexts[] = {"no error",
                                           "unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
                                           "unhandled system error",
                                           "internal error",
                                           "invalid argument",
                                           "invalid usage",
                                           "remote process exited or there was a network error",
                                           "NCCL operation in progress"};
  return result >= 0 && result < ncclNumResults ? kTexts[result] : "unknown result code";
}

const char *ncclGetLastError(ncclComm_t handle) {
  if (handle && !handle->communicator->errorText.empty()) {
    return handle->communicator->errorText.c_str();
  }
  return lastError.c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  std::random_device random;
  *id = {};
  std::snprintf(id->internal, sizeof id->internal, "/ashlar-emulator-%08x%08x%08x%08x", random(), random(), random(), random());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *handle, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config) {
  while (setting("NCCL_STUCK", 0) != 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  const std::lock_guard<std::recursive_mutex> guard(Engine::get().lock);
  *handle = nullptr;
  if (!Driver::current()) {
    return refuse(ncclUnhandledCudaError, "no device is current");
  }
  if (ranks < 1 || ranks > kMaxMembers || rank < 0 || rank >= ranks || id.internal[0] != '/') {
    return refuse(ncclInvalidArgument, "a wrong rank, number of ranks or id");
  }
  auto communicator = std::make_shared<Communicator>();
  communicator->rank = rank;
  communicator->ranks = ranks;
  communicator->device = Driver::current();
  communicator->name = id.internal;
  *handle = new ncclComm{communicator};
  communicator->join();
  if (config && config->blocking == 0) {
    return communicator->state == Communicator::Joining ? ncclInProgress : communicator->error;
  }
  if (groupDepth > 0) {
    groupJoins.push_back(communicator);
    return ncclSuccess;
  }
  return joinAll({communicator});
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t *result) {
  const std::lock_guard<std::recursive_mutex> guard(Engine::get().lock);
  if (!handle) {
    return ncclInvalidArgument;
  }
  handle->communicator->join();
  *result = handle->communicator->state == Communicator::Joining ? ncclInProgress : handle->communicator->lookForDead();
  return ncclSuccess;
}

// Waits for ever while a graph uses the communicator, as the real one does.
ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  const std::lock_guard<std::recursive_mutex> guard(Engine::get().lock);
  bool told = false;
  while (handle && handle->communicator->captured.use_count() > 1) {
    Engine::get().progress();
    if (!told) {
      say("NCCL: ncclCommDestroy waits for the end of graphs that use the communicator");
      told = true;
    }
    Engine::get().lock.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    Engine::get().lock.lock();
  }
  delete handle; // work in progress keeps the communicator
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  const std::lock_guard<std::recursive_mutex> guard(Engine::get().lock);
  if (handle) {
    handle->communicator->state = Communicator::Aborted;
  }
  delete handle;
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t operation, ncclComm_t comm,
                           cudaStream_t stream) {
  return call(comm, stream, {Collective::AllReduce, address(in), address(out), count, type, operation, 0});
}

ncclResult_t ncclAllGather(const void *in, void *out, size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream) {
  return call(comm, stream, {Collective::AllGather, address(in), address(out), count, type, ncclSum, 0});
}

ncclResult_t ncclReduceScatter(const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t operation, ncclComm_t comm,
                               cudaStream_t stream) {
  return call(comm, stream, {Collective::ReduceScatter, address(in), address(out), count, type, operation, 0});
}

ncclResult_t ncclBroadcast(const void *in, void *out, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream) {
  return call(comm, stream, {Collective::Broadcast, address(in), address(out), count, type, ncclSum, root});
}

ncclResult_t ncclSend(const void *in, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return call(comm, stream, {Collective::Send, address(in), 0, count, type, ncclSum, peer});
}

ncclResult_t ncclRecv(void *out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return call(comm, stream, {Collective::Receive, 0, address(out), count, type, ncclSum, peer});
}

ncclResult_t ncclGroupStart() {
  ++groupDepth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  const std::lock_guard<std::recursive_mutex> guard(Engine::get().lock);
  if (groupDepth == 0) {
    return refuse(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  }
  return --groupDepth == 0 ? runGroup() : ncclSuccess;
}

} // extern "C"
