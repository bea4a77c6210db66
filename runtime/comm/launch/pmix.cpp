// SPDX-License-Identifier: Apache-2.0
//
// Put, fence and get of PMIx. Its own waits have no limit, so they are begun here, and waited for with patience.

#include "runtime/comm/launch/pmix.h"

#include "runtime/base/host.h"

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include <dlfcn.h>
#include <pmix.h>

namespace ashlar::rt {

// Functions of libpmix, one line each.
#define ASHLAR_RT_PMIX_FUNCTIONS(function)                                                                                                 \
  function(PMIx_Commit) function(PMIx_Error_string) function(PMIx_Fence_nb) function(PMIx_Finalize) function(PMIx_Get_nb)                  \
      function(PMIx_Init) function(PMIx_Put)

// The loaded library. Members are null until it is.
struct PmixLibrary {
#define ASHLAR_RT_PMIX_MEMBER(name) decltype(&::name) name = nullptr;
  ASHLAR_RT_PMIX_FUNCTIONS(ASHLAR_RT_PMIX_MEMBER)
#undef ASHLAR_RT_PMIX_MEMBER

  Status load();
};

namespace {

constexpr const char *kRemedy = "start the program with mpirun of Open MPI 4, or with srun --mpi=pmix";

// Seconds for a rank that is to be named as missing to reply.
constexpr double kAnswerSeconds = 1;

// A reply of the server. The server's thread and the one that asks own it together: the latter may have given up.
struct Reply {
  std::mutex mutex;
  std::condition_variable changed;
  bool isThere = false;
  pmix_status_t status = PMIX_ERROR;
  std::string value;

  void give(pmix_status_t result, const pmix_value_t *found) {
    std::lock_guard<std::mutex> lock(mutex);
    isThere = true;
    status = result;
    if (found != nullptr && found->type == PMIX_STRING && found->data.string != nullptr) {
      value = found->data.string;
    }
    changed.notify_all();
  }

  bool wait(double patience) {
    std::unique_lock<std::mutex> lock(mutex);
    return changed.wait_for(lock, std::chrono::duration<double>(patience), [&] { return isThere; });
  }
};

using Handle = std::shared_ptr<Reply>;

void onFence(pmix_status_t status, void *context) {
  const std::unique_ptr<Handle> reply(static_cast<Handle *>(context));
  (*reply)->give(status, /*found=*/nullptr);
}

void onValue(pmix_status_t status, pmix_value_t *value, void *context) {
  const std::unique_ptr<Handle> reply(static_cast<Handle *>(context));
  (*reply)->give(status, value);
}

} // namespace

Status PmixLibrary::load() {
  void *handle = dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return unavailable("several hosts need PMIx but libpmix.so.2 cannot be loaded ({}); install libpmix2", dlerror());
  }
  const char *missing = nullptr;
  auto find = [&](const char *name) {
    void *address = dlsym(handle, name);
    missing = address == nullptr ? name : missing;
    return address;
  };
#define ASHLAR_RT_PMIX_LOOKUP(name) name = reinterpret_cast<decltype(&::name)>(find(#name));
  ASHLAR_RT_PMIX_FUNCTIONS(ASHLAR_RT_PMIX_LOOKUP)
#undef ASHLAR_RT_PMIX_LOOKUP
  return missing == nullptr ? Status() : unavailable("libpmix.so.2 has no {}; it is not PMIx 3 or later", missing);
}

PmixBook::PmixBook() = default;
PmixBook::~PmixBook() = default;

Status PmixBook::open(int rank, int size) {
  if (std::getenv("PMIX_NAMESPACE") == nullptr || std::getenv("PMIX_RANK") == nullptr) {
    return unavailable("rank {} of {} on several hosts was started by hand: there is no PMIX_NAMESPACE of a launcher; {}", rank, size,
                       kRemedy);
  }
  library = std::make_unique<PmixLibrary>();
  ASHLAR_RETURN_IF_ERROR(library->load());
  pmix_proc_t self = {};
  if (pmix_status_t status = library->PMIx_Init(&self, /*info=*/nullptr, /*ninfo=*/0); status != PMIX_SUCCESS) {
    return unavailable("rank {} cannot reach its launcher: PMIx: {}; {}", rank, library->PMIx_Error_string(status), kRemedy);
  }
  if (self.rank != static_cast<pmix_rank_t>(rank)) {
    return invalid("rank {} of the environment is rank {} of the launcher; {}", rank, self.rank, kRemedy);
  }
  job = self.nspace;
  ranks = size;
  return Status();
}

Status PmixBook::exchange(const std::string &mine, std::vector<std::string> &all) {
  const std::string key = fmt::format("ashlar-{}", exchanges++);
  pmix_value_t value = {};
  value.type = PMIX_STRING;
  std::string text = mine;
  value.data.string = text.data();
  pmix_status_t status = library->PMIx_Put(PMIX_GLOBAL, key.c_str(), &value);
  status = status == PMIX_SUCCESS ? library->PMIx_Commit() : status;
  if (status != PMIX_SUCCESS) {
    return unavailable("the launcher does not take the address of a rank: PMIx: {}; {}", library->PMIx_Error_string(status), kRemedy);
  }
  Status fenced = fence();
  all.resize(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    const double patience = fenced.ok() ? patienceSeconds() : kAnswerSeconds;
    if (Status got = get(rank, key, patience, all[static_cast<size_t>(rank)]); !got.ok() && fenced.ok()) {
      return got;
    } else if (!got.ok()) { // all ranks that came up find the same
      return unavailable("rank {} did not come up within {:.0f} s (ASHLAR_PATIENCE)", rank, patienceSeconds()).share();
    }
  }
  return fenced;
}

// Waits until all ranks have published.
Status PmixBook::fence() {
  auto reply = std::make_shared<Reply>();
  pmix_info_t info = {};
  std::strncpy(info.key, PMIX_COLLECT_DATA, PMIX_MAX_KEYLEN);
  info.value.type = PMIX_BOOL;
  info.value.data.flag = true;
  pmix_proc_t everybody = {};
  std::strncpy(everybody.nspace, job.c_str(), PMIX_MAX_NSLEN);
  everybody.rank = PMIX_RANK_WILDCARD;
  auto *context = new Handle(reply);
  if (pmix_status_t status = library->PMIx_Fence_nb(&everybody, 1, &info, 1, onFence, context); status != PMIX_SUCCESS) {
    delete context;
    return unavailable("the launcher does not let the ranks meet: PMIx: {}; {}", library->PMIx_Error_string(status), kRemedy);
  }
  if (!reply->wait(patienceSeconds())) {
    return unavailable("not all ranks came up within {:.0f} s (ASHLAR_PATIENCE)", patienceSeconds());
  }
  return reply->status == PMIX_SUCCESS
             ? Status()
             : unavailable("the ranks did not meet: PMIx: {}; {}", library->PMIx_Error_string(reply->status), kRemedy);
}

Status PmixBook::get(int rank, const std::string &key, double patience, std::string &value) {
  auto reply = std::make_shared<Reply>();
  pmix_proc_t other = {};
  std::strncpy(other.nspace, job.c_str(), PMIX_MAX_NSLEN);
  other.rank = static_cast<pmix_rank_t>(rank);
  auto *context = new Handle(reply);
  pmix_status_t status = library->PMIx_Get_nb(&other, key.c_str(), /*info=*/nullptr, /*ninfo=*/0, onValue, context);
  if (status != PMIX_SUCCESS) {
    delete context;
  } else {
    status = reply->wait(patience) ? reply->status : PMIX_ERR_TIMEOUT;
  }
  if (status != PMIX_SUCCESS) {
    return unavailable("the launcher has no address of rank {}: PMIx: {}; {}", rank, library->PMIx_Error_string(status), kRemedy);
  }
  value = reply->value;
  return Status();
}

void PmixBook::close() {
  if (library) {
    library->PMIx_Finalize(/*info=*/nullptr, /*ninfo=*/0);
  }
}

} // namespace ashlar::rt
