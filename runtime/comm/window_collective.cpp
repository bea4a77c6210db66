// SPDX-License-Identifier: Apache-2.0
//
// Collectives among processes that share a window. Two forms: small inputs are published in mailboxes and every process computes its own
// results from all mailboxes after one wait; large ones are read where they lie, between two barriers. In an all-reduce of the second form
// each process reduces one slice of the elements and stores it in the arenas of all members.

#include "runtime/comm/collective.h"

#include "runtime/abi/memory_sizes.h"

#include <algorithm>
#include <cstring>

namespace ashlar::rt {
namespace {

// Largest sum of the members' inputs that every process reduces by itself instead of sharing the work.
constexpr size_t kSmallTotal = 4 << 10;

// All-reduces are shared out by cache lines, so that no element is torn and no two processes write one line.
size_t linesOf(const PlacedTensor &tensor) {
  return (tensor.shape.inBytes() + kLineBytes - 1) / kLineBytes;
}

// Copies view `from` of `source` to view `to` of `target`; zeros when `source` is null.
struct CopyTask {
  const char *source;
  View from;
  char *target;
  View to;

  void run(size_t begin, size_t end) const {
    if (source == nullptr) {
      zeroView(target, to, begin, end);
    } else {
      copyView(source, from, target, to, begin, end);
    }
  }
};

// Reduces `count` blocks, `stride` apart in every input, into dense outputs.
struct ReduceTask {
  Reducer reducer;
  std::vector<const char *> inputs;
  std::vector<char *> outputs;
  View view;

  void run(size_t begin, size_t end) const {
    while (begin < end) {
      size_t inBlock = begin % view.block;
      size_t length = std::min(end - begin, view.block - inBlock);
      reducer.run(inputs.data(), inputs.size(), view.offset + begin / view.block * view.stride + inBlock, outputs.data(), outputs.size(),
                  begin, length);
      begin += length;
    }
  }
};

// Runs the bytes of a task on the pool, cut at multiples of 64 so that no element is torn.
template <typename Task> void runOn(ThreadPool *pool, const Task &task, size_t bytes) {
  if (pool == nullptr || pool->threads() == 1) {
    task.run(0, bytes);
    return;
  }
  struct Loop {
    const Task &task;
    size_t bytes;
  } loop{task, bytes};
  auto range = [](void *context, int64_t begin, int64_t end) {
    const Loop &loop = *static_cast<const Loop *>(context);
    loop.task.run(static_cast<size_t>(begin) * 64, std::min(static_cast<size_t>(end) * 64, loop.bytes));
  };
  pool->parallelFor(static_cast<int64_t>((bytes + 63) / 64), ThreadPool::kCopyBytes / 64, range, &loop);
}

class WindowCollective final : public Collective {
public:
  WindowCollective(const CollectiveContext &context, SyncSet &set) : context(context), set(set) {}

  Status run() override {
    if (set.peers.empty()) {
      runTasks(/*parity=*/0);
      return Status();
    }
    return small ? runSmall() : runLarge();
  }

  const void *channel() const override { return &set; }

  CollectiveContext context;
  SyncSet &set;
  bool small = false;
  size_t payload = 0;            // bytes this process publishes
  std::vector<CopyTask> publish; // own inputs -> mailbox; the target is an offset until the parity is known
  std::vector<CopyTask> copies[2];
  std::vector<ReduceTask> reductions[2];

private:
  Status runSmall() {
    uint64_t number = ++set.messages;
    int parity = static_cast<int>(number & 1);
    char *mailbox = context.window->mailboxPayload(set.index, parity, set.self, payload);
    for (const CopyTask &task : publish) {
      std::memcpy(mailbox + task.to.offset, task.source, task.from.block);
    }
    context.window->mailboxCount(set.index, parity, set.self).store(number, std::memory_order_release);
    // Two mailboxes are enough: whoever writes mailbox k + 2 has waited for message k + 1 of all, so all have read mailbox k.
    for (int peer : set.peers) {
      ASHLAR_RETURN_IF_ERROR(context.waiter.wait(context.window->mailboxCount(set.index, parity, peer), number, peer));
    }
    runTasks(parity);
    return Status();
  }

  Status runLarge() {
    ASHLAR_RETURN_IF_ERROR(barrier(*context.window, context.waiter, set));
    runTasks(/*parity=*/0);
    return barrier(*context.window, context.waiter, set);
  }

  void runTasks(int parity) {
    ThreadPool *pool = small ? nullptr : context.pool;
    for (const CopyTask &task : copies[parity]) {
      runOn(pool, task, task.to.bytes());
    }
    for (const ReduceTask &task : reductions[parity]) {
      runOn(pool, task, task.view.bytes());
    }
  }
};

// Fills in the tasks of one process for one tensor.
class Builder {
public:
  // `mailboxOffset`: where the tensor begins in what a device publishes. `firstLine`: the cache line, counted over all tensors, with which
  // it begins, of `totalLines`.
  Builder(const CollectiveContext &context, WindowCollective &result, const PlacedTensor &tensor, size_t mailboxOffset, size_t firstLine,
          size_t totalLines)
      : context(context), result(result), tensor(tensor), shape(tensor.shape), mailboxOffset(mailboxOffset), firstLine(firstLine),
        totalLines(totalLines) {}

  // Adds what the process publishes: the inputs of its devices.
  void addPublished(size_t devices) {
    View all{0, shape.inBytes(), shape.inBytes(), 1};
    for (size_t device = 0; device < devices; ++device) {
      View place = all;
      place.offset = device * (result.payload / devices) + mailboxOffset;
      const char *source = context.window->arena(result.set.self, static_cast<int>(device)) + tensor.in.offset;
      result.publish.push_back(CopyTask{source, all, nullptr, place});
    }
  }

  // Adds the work of this process for one group. `parity`: which mailboxes small inputs are read from.
  void addMovements(const Group &group, int parity) {
    int members = static_cast<int>(group.size());
    for (int target = 0; target < members; ++target) {
      if (!isMine(group, target)) {
        continue;
      }
      char *out = arena(group, target) + tensor.out.offset;
      for (const View &view : shape.zeroed(target)) {
        result.copies[parity].push_back(CopyTask{nullptr, view, out, view});
      }
      for (int source = 0; source < members; ++source) {
        Movement movement;
        const char *in = input(group, source, parity);
        if (shape.movement(source, target, movement) && in != out) { // the root of a broadcast in place has its own
          result.copies[parity].push_back(CopyTask{in, movement.from, out, movement.to});
        }
      }
    }
  }

  // Adds the reductions of this process for one group.
  void addReductions(const Group &group, const Reducer &reducer, bool scatters, int parity) {
    int members = static_cast<int>(group.size());
    ReduceTask task;
    task.reducer = reducer;
    for (int source = 0; source < members; ++source) {
      task.inputs.push_back(input(group, source, parity));
    }
    if (scatters) {
      for (int target = 0; target < members; ++target) {
        if (isMine(group, target)) {
          task.outputs = {arena(group, target) + tensor.out.offset};
          task.view = shape.reducedView(target);
          result.reductions[parity].push_back(task);
        }
      }
      return;
    }
    size_t begin = 0;
    size_t end = shape.inBytes();
    if (!result.small) {
      sliceOfThisProcess(group, begin, end);
    }
    for (int target = 0; target < members; ++target) {
      // In the small form everyone computes for itself; in the large one, for all.
      if (!result.small || isMine(group, target)) {
        task.outputs.push_back(arena(group, target) + tensor.out.offset + begin);
      }
    }
    if (begin < end && !task.outputs.empty()) {
      task.view = View{begin, end - begin, end - begin, 1};
      result.reductions[parity].push_back(task);
    }
  }

private:
  bool isMine(const Group &group, int member) const {
    return context.mesh->processOf(group[static_cast<size_t>(member)]) == context.place->rank;
  }

  int hostIndex(const Group &group, int member) const {
    return context.place->indexOnHost(context.mesh->processOf(group[static_cast<size_t>(member)]));
  }

  int deviceIndex(const Group &group, int member) const { return group[static_cast<size_t>(member)] % context.mesh->devicesPerProcess(); }

  char *arena(const Group &group, int member) const { return context.window->arena(hostIndex(group, member), deviceIndex(group, member)); }

  const char *input(const Group &group, int member, int parity) const {
    if (!result.small) {
      return arena(group, member) + tensor.in.offset;
    }
    size_t ofDevice = result.payload / static_cast<size_t>(context.mesh->devicesPerProcess());
    return context.window->mailboxPayload(result.set.index, parity, hostIndex(group, member), result.payload) +
           static_cast<size_t>(deviceIndex(group, member)) * ofDevice + mailboxOffset;
  }

  // The bytes of an all-reduce that this process reduces: the group's processes share the cache lines of all tensors evenly.
  void sliceOfThisProcess(const Group &group, size_t &begin, size_t &end) const {
    std::vector<int> processes;
    for (int device : group) {
      processes.push_back(context.mesh->processOf(device));
    }
    std::sort(processes.begin(), processes.end());
    processes.erase(std::unique(processes.begin(), processes.end()), processes.end());
    auto self = std::find(processes.begin(), processes.end(), context.place->rank);
    if (self == processes.end()) {
      begin = end = 0;
      return;
    }
    size_t index = static_cast<size_t>(self - processes.begin());
    auto cut = [&](size_t place) {
      size_t line = totalLines * place / processes.size();
      return std::min(line > firstLine ? (line - firstLine) * kLineBytes : 0, shape.inBytes());
    };
    begin = cut(index);
    end = cut(index + 1);
  }

  const CollectiveContext &context;
  WindowCollective &result;
  const PlacedTensor &tensor;
  const CollectiveShape &shape;
  size_t mailboxOffset;
  size_t firstLine;
  size_t totalLines;
};

class SliceCollective final : public Collective {
public:
  Status run() override {
    for (const CopyTask &task : copies) {
      runOn(pool, task, task.to.bytes());
    }
    return Status();
  }

  const void *channel() const override { return nullptr; }

  ThreadPool *pool = nullptr;
  std::vector<CopyTask> copies;
};

} // namespace

Status createWindowCollective(const CollectiveContext &context, SyncSet &set, const ashlar_rt_collective_desc &desc,
                              const std::vector<PlacedTensor> &tensors, const std::vector<Group> &groups,
                              std::unique_ptr<Collective> &collective) {
  auto result = std::make_unique<WindowCollective>(context, set);
  size_t devices = static_cast<size_t>(context.mesh->devicesPerProcess());
  size_t bytes = inputBytes(tensors), totalLines = 0;
  result->payload = devices * bytes;
  result->small = !set.peers.empty() && result->payload <= kMailboxPayload && groups[0].size() * bytes <= kSmallTotal;
  Reducer reducer;
  if (tensors[0].shape.reduces()) {
    ASHLAR_RETURN_IF_ERROR(Reducer::create(desc.dtype, desc.reduction, reducer));
  }
  for (const PlacedTensor &tensor : tensors) {
    totalLines += linesOf(tensor);
  }
  size_t mailboxOffset = 0, firstLine = 0;
  for (const PlacedTensor &tensor : tensors) {
    Builder builder(context, *result, tensor, mailboxOffset, firstLine, totalLines);
    if (result->small) {
      builder.addPublished(devices);
    }
    for (int parity = 0; parity < (result->small ? 2 : 1); ++parity) {
      for (const Group &group : groups) {
        bool here = std::any_of(group.begin(), group.end(), [&](int d) { return context.mesh->processOf(d) == context.place->rank; });
        if (here && tensor.shape.reduces()) {
          builder.addReductions(group, reducer, desc.kind == ASHLAR_RT_REDUCE_SCATTER, parity);
        } else if (here) {
          builder.addMovements(group, parity);
        }
      }
    }
    mailboxOffset += tensor.shape.inBytes();
    firstLine += linesOf(tensor);
  }
  collective = std::move(result);
  return Status();
}

Status createSlice(const CollectiveContext &context, const std::vector<PlacedTensor> &tensors, const std::vector<Group> &groups,
                   const char *constants, std::unique_ptr<Collective> &collective) {
  auto result = std::make_unique<SliceCollective>();
  result->pool = context.pool;
  int self = context.place->indexOnHost(context.place->rank);
  for (const PlacedTensor &tensor : tensors) {
    for (const Group &group : groups) {
      for (int member = 0; member < static_cast<int>(group.size()); ++member) {
        int device = group[static_cast<size_t>(member)];
        Movement movement;
        if (context.mesh->processOf(device) == context.place->rank && tensor.shape.movement(member, member, movement)) {
          char *arena = context.window->arena(self, device % context.mesh->devicesPerProcess());
          const char *in = (tensor.in.space == ASHLAR_RT_CONSTANT ? constants : arena) + tensor.in.offset;
          result->copies.push_back(CopyTask{in, movement.from, arena + tensor.out.offset, movement.to});
        }
      }
    }
  }
  collective = std::move(result);
  return Status();
}

Status barrier(Window &window, const Waiter &waiter, SyncSet &set) {
  uint64_t number = ++set.barriers;
  window.line(set.index, set.self).count.store(number, std::memory_order_release);
  for (int peer : set.peers) {
    ASHLAR_RETURN_IF_ERROR(waiter.wait(window.line(set.index, peer).count, number, peer));
  }
  return Status();
}

} // namespace ashlar::rt
