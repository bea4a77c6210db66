// SPDX-License-Identifier: Apache-2.0
//
// Collectives between several devices of one process, and between processes.

#include <cuda.h>
#include <nccl.h>

#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace ashlar::test::nccl_test {
namespace {

// A member: a device of this process with a stream.
struct Member {
  explicit Member(int device) {
    CUdevice handle;
    REQUIRE(cuInit(0) == CUDA_SUCCESS);
    REQUIRE(cuDeviceGet(&handle, device) == CUDA_SUCCESS);
    REQUIRE(cuDevicePrimaryCtxRetain(&context, handle) == CUDA_SUCCESS);
    enter();
    REQUIRE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  }

  void enter() const { REQUIRE(cuCtxSetCurrent(context) == CUDA_SUCCESS); }

  void *upload(const std::vector<int> &values) const {
    enter();
    CUdeviceptr address;
    REQUIRE(cuMemAlloc(&address, 4 * values.size()) == CUDA_SUCCESS);
    REQUIRE(cuMemcpyHtoDAsync(address, values.data(), 4 * values.size(), stream) == CUDA_SUCCESS);
    return reinterpret_cast<void *>(address);
  }

  std::vector<int> download(const void *address, size_t count) const {
    enter();
    std::vector<int> values(count);
    REQUIRE(cuMemcpyDtoHAsync(values.data(), reinterpret_cast<CUdeviceptr>(address), 4 * count, stream) == CUDA_SUCCESS);
    return values;
  }

  CUcontext context;
  CUstream stream;
  ncclComm_t comm = nullptr;
};

std::vector<Member> members(int count) {
  std::vector<Member> result;
  ncclUniqueId id;
  REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
  for (int rank = 0; rank < count; ++rank) {
    result.emplace_back(rank);
  }
  REQUIRE(ncclGroupStart() == ncclSuccess);
  for (int rank = 0; rank < count; ++rank) {
    result[size_t(rank)].enter();
    REQUIRE(ncclCommInitRankConfig(&result[size_t(rank)].comm, count, id, rank, nullptr) == ncclSuccess);
  }
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  return result;
}

// Returns the exit status of f in a process of its own. This process must not have used the emulator: a fork does not copy its threads.
int inChild(const std::function<int()> &f) {
  const pid_t child = fork();
  if (child == 0) {
    _exit(f());
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

cudaStream_t of(const Member &member) {
  return reinterpret_cast<cudaStream_t>(member.stream);
}

} // namespace

TEST_CASE("nccl: collectives over three devices", "[nccl]") {
  std::vector<Member> all = members(3);
  // Larger than the rings between members.
  const size_t count = 30000;
  std::vector<const void *> in;
  std::vector<void *> sum, gathered, scattered, root;
  for (int rank = 0; rank < 3; ++rank) {
    std::vector<int> values(3 * count);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = int(i) * (rank + 1);
    }
    const Member &member = all[size_t(rank)];
    in.push_back(member.upload(values));
    for (auto *out : {&sum, &gathered, &scattered, &root}) {
      out->push_back(member.upload(std::vector<int>(3 * count)));
    }
    REQUIRE(ncclAllReduce(in.back(), sum.back(), 3 * count, ncclInt32, ncclSum, member.comm, of(member)) == ncclSuccess);
    REQUIRE(ncclAllGather(in.back(), gathered.back(), count, ncclInt32, member.comm, of(member)) == ncclSuccess);
    REQUIRE(ncclReduceScatter(in.back(), scattered.back(), count, ncclInt32, ncclMax, member.comm, of(member)) == ncclSuccess);
    REQUIRE(ncclBroadcast(in.back(), root.back(), count, ncclInt32, 1, member.comm, of(member)) == ncclSuccess);
  }
  for (size_t rank = 0; rank < 3; ++rank) {
    const std::vector<int> sums = all[rank].download(sum[rank], 3 * count), pieces = all[rank].download(gathered[rank], 3 * count);
    const std::vector<int> largest = all[rank].download(scattered[rank], count), received = all[rank].download(root[rank], count);
    for (size_t i = 0; i < count; i += 777) {
      CHECK(sums[i] == int(i) * 6);
      CHECK(pieces[2 * count + i] == int(i) * 3);
      CHECK(largest[i] == int(rank * count + i) * 3);
      CHECK(received[i] == int(i) * 2);
    }
  }
}

TEST_CASE("nccl: a group of sends and receives is one exchange", "[nccl]") {
  std::vector<Member> all = members(4);
  std::vector<void *> in, out;
  for (int rank = 0; rank < 4; ++rank) {
    in.push_back(all[size_t(rank)].upload({rank * 10, rank * 10 + 1, rank * 10 + 2, rank * 10 + 3}));
    out.push_back(all[size_t(rank)].upload({-1, -1, -1, -1}));
    REQUIRE(ncclGroupStart() == ncclSuccess);
    for (int peer = 0; peer < 4; ++peer) {
      const Member &member = all[size_t(rank)];
      REQUIRE(ncclRecv(static_cast<int *>(out.back()) + peer, 1, ncclInt32, peer, member.comm, of(member)) == ncclSuccess);
      REQUIRE(ncclSend(static_cast<int *>(in.back()) + peer, 1, ncclInt32, peer, member.comm, of(member)) == ncclSuccess);
    }
    REQUIRE(ncclGroupEnd() == ncclSuccess);
  }
  for (int rank = 0; rank < 4; ++rank) {
    CHECK(all[size_t(rank)].download(out[size_t(rank)], 4) == std::vector<int>{rank, 10 + rank, 20 + rank, 30 + rank});
  }
}

TEST_CASE("nccl: a send ends when its receive has begun", "[nccl]") {
  std::vector<Member> all = members(2);
  void *in = all[0].upload({1, 2, 3}), *out = all[1].upload({0, 0, 0});
  auto isDone = [&](size_t member) {
    all[member].enter();
    return cuStreamQuery(all[member].stream) == CUDA_SUCCESS;
  };
  auto settle = [] { std::this_thread::sleep_for(std::chrono::milliseconds(50)); };
  settle();
  REQUIRE(ncclSend(in, 1, ncclInt32, 1, all[0].comm, of(all[0])) == ncclSuccess);
  REQUIRE(ncclSend(static_cast<int *>(in) + 1, 2, ncclInt32, 1, all[0].comm, of(all[0])) == ncclSuccess);
  settle();
  CHECK_FALSE(isDone(0));
  REQUIRE(ncclRecv(out, 1, ncclInt32, 0, all[1].comm, of(all[1])) == ncclSuccess);
  settle();
  CHECK(isDone(1));
  CHECK_FALSE(isDone(0)); // the second waits for a receive of its own
  REQUIRE(ncclRecv(static_cast<int *>(out) + 1, 2, ncclInt32, 0, all[1].comm, of(all[1])) == ncclSuccess);
  CHECK(all[1].download(out, 3) == std::vector<int>{1, 2, 3});
  all[0].enter();
  CHECK(cuStreamSynchronize(all[0].stream) == CUDA_SUCCESS);
}

TEST_CASE("nccl: sends that cross hang, but not in groups", "[nccl]") {
  for (const bool grouped : {true, false}) {
    std::vector<Member> all = members(2);
    std::vector<void *> in, out;
    for (int rank = 0; rank < 2; ++rank) {
      const Member &member = all[size_t(rank)];
      in.push_back(member.upload({rank + 1}));
      out.push_back(member.upload({0}));
      REQUIRE((!grouped || ncclGroupStart() == ncclSuccess));
      REQUIRE(ncclSend(in.back(), 1, ncclInt32, 1 - rank, member.comm, of(member)) == ncclSuccess);
      REQUIRE(ncclRecv(out.back(), 1, ncclInt32, 1 - rank, member.comm, of(member)) == ncclSuccess);
      REQUIRE((!grouped || ncclGroupEnd() == ncclSuccess));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    for (int rank = 0; rank < 2; ++rank) {
      all[size_t(rank)].enter();
      CHECK((cuStreamQuery(all[size_t(rank)].stream) == CUDA_SUCCESS) == grouped);
    }
    if (grouped) {
      CHECK(all[0].download(out[0], 1) == std::vector<int>{2});
      CHECK(all[1].download(out[1], 1) == std::vector<int>{1});
    }
    for (const Member &member : all) {
      REQUIRE(ncclCommAbort(member.comm) == ncclSuccess);
    }
  }
}

TEST_CASE("nccl: a captured collective runs at every launch", "[nccl]") {
  std::vector<Member> all = members(2);
  std::vector<void *> words;
  std::vector<CUgraphExec> graphs(2);
  for (size_t rank = 0; rank < 2; ++rank) {
    const Member &member = all[rank];
    words.push_back(member.upload({int(rank) + 1}));
    REQUIRE(cuStreamBeginCapture(member.stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == CUDA_SUCCESS);
    REQUIRE(ncclAllReduce(words[rank], words[rank], 1, ncclInt32, ncclSum, member.comm, of(member)) == ncclSuccess);
    CUgraph graph;
    REQUIRE(cuStreamEndCapture(member.stream, &graph) == CUDA_SUCCESS);
    REQUIRE(cuGraphInstantiate(&graphs[rank], graph, 0) == CUDA_SUCCESS);
    REQUIRE(cuGraphDestroy(graph) == CUDA_SUCCESS);
  }
  for (int launch = 0; launch < 3; ++launch) {
    for (size_t rank = 0; rank < 2; ++rank) {
      all[rank].enter();
      REQUIRE(cuGraphLaunch(graphs[rank], all[rank].stream) == CUDA_SUCCESS);
    }
  }
  CHECK(all[0].download(words[0], 1) == std::vector<int>{12});
  CHECK(all[1].download(words[1], 1) == std::vector<int>{12});
  // A communicator ends after the graphs that use it.
  std::atomic<bool> ended{false};
  std::thread destroyer([&] { ended = ncclCommDestroy(all[0].comm) == ncclSuccess; });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  CHECK_FALSE(ended);
  CHECK(cuGraphExecDestroy(graphs[0]) == CUDA_SUCCESS);
  destroyer.join();
  CHECK(ended);
}

TEST_CASE("nccl: two members on one device are refused, unless they say they are two hosts", "[.process]") {
  for (const bool hosts : {false, true}) {
    CHECK(inChild([&] {
            ncclUniqueId id;
            ncclGetUniqueId(&id);
            const pid_t other = fork();
            const int rank = other == 0;
            setenv("NCCL_HOSTID", hosts ? std::to_string(rank).c_str() : "one", 1);
            CUcontext context;
            cuInit(0);
            cuDevicePrimaryCtxRetain(&context, 0);
            cuCtxSetCurrent(context);
            ncclComm_t comm;
            const ncclResult_t result = ncclCommInitRankConfig(&comm, 2, id, rank, nullptr);
            const bool named = std::string(ncclGetLastError(nullptr)).find("Duplicate GPU") != std::string::npos;
            const bool right = hosts ? result == ncclSuccess : result == ncclInvalidUsage && named;
            if (other == 0) {
              _exit(right ? 0 : 1);
            }
            int status = 1;
            waitpid(other, &status, 0);
            return right && status == 0 ? 0 : 1;
          }) == 0);
  }
}

TEST_CASE("nccl: a dead member is told or waited for, a told failure fails", "[.process]") {
  for (const bool told : {true, false}) {
    CHECK(inChild([&] {
            setenv("ASHLAR_EMULATOR_NCCL_DEATH", told ? "1" : "0", 1);
            setenv("ASHLAR_EMULATOR_NCCL_FAIL", "2", 1);
            ncclUniqueId id;
            ncclGetUniqueId(&id);
            const pid_t other = fork();
            setenv("NCCL_HOSTID", other == 0 ? "a" : "b", 1);
            CUcontext context;
            cuInit(0);
            cuDevicePrimaryCtxRetain(&context, 0);
            cuCtxSetCurrent(context);
            CUstream stream;
            CUdeviceptr word;
            cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
            cuMemAlloc(&word, 4);
            ncclComm_t comm;
            const bool joined = ncclCommInitRankConfig(&comm, 2, id, other == 0, nullptr) == ncclSuccess;
            if (other == 0) {
              _exit(0);
            }
            int status;
            waitpid(other, &status, 0);
            void *place = reinterpret_cast<void *>(word);
            const bool queued =
                ncclAllReduce(place, place, 1, ncclInt32, ncclSum, comm, reinterpret_cast<cudaStream_t>(stream)) == ncclSuccess;
            const bool failed =
                ncclAllReduce(place, place, 1, ncclInt32, ncclSum, comm, reinterpret_cast<cudaStream_t>(stream)) == ncclSystemError;
            usleep(100000);
            ncclResult_t error = ncclSuccess;
            ncclCommGetAsyncError(comm, &error);
            const bool waits = cuStreamQuery(stream) == CUDA_ERROR_NOT_READY;
            ncclCommAbort(comm);
            const bool ended = cuStreamSynchronize(stream) == CUDA_SUCCESS;
            return joined && queued && failed && waits && ended && error == (told ? ncclRemoteError : ncclSuccess) ? 0 : 1;
          }) == 0);
  }
}

TEST_CASE("nccl: with one queue for all streams, what comes after a send that waits does too", "[.process]") {
  for (const bool shares : {true, false}) {
    CHECK(inChild([&] {
            setenv("ASHLAR_EMULATOR_QUEUES", shares ? "1" : "0", 1);
            setenv("ASHLAR_EMULATOR_DEVICES", "2", 1);
            std::vector<Member> all = members(2);
            CUstream other;
            CUdeviceptr word;
            all[0].enter();
            cuStreamCreate(&other, CU_STREAM_NON_BLOCKING);
            cuMemAlloc(&word, 4);
            ncclSend(reinterpret_cast<void *>(word), 1, ncclInt32, 1, all[0].comm, of(all[0]));
            cuMemsetD32Async(word, 7, 1, other);
            usleep(100000);
            const bool waits = cuStreamQuery(other) == CUDA_ERROR_NOT_READY;
            return waits == shares ? 0 : 1;
          }) == 0);
  }
}

} // namespace ashlar::test::nccl_test
