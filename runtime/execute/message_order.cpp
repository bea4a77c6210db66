// SPDX-License-Identifier: Apache-2.0
//
// A graph of the runs and messages of a step, unrolled by time: where each run takes one unit, what can begin first comes first. Times only
// choose among orders that are all right.

#include "runtime/execute/message_order.h"

#include "runtime/execute/order.h"
#include "runtime/execute/repeats.h"

#include <algorithm>
#include <map>
#include <queue>
#include <set>
#include <tuple>

namespace ashlar::rt {

bool touches(const ashlar_rt_program &program, const ashlar_rt_tensor &tensor) {
  const SweptBytes wanted = sweep(tensor.buffer, {});
  bool found = false;
  (void)visitInstrs(program, [&](const ashlar_rt_instr &instr, const std::vector<uint64_t> &counts) { // its executor checks it
    for (uint32_t i = 0; i < instr.num_buffers; ++i) {
      const SweptBytes used = sweep(instr.buffers[i], counts);
      found |= instr.buffers[i].space == tensor.buffer.space && used.low < wanted.high && wanted.low < used.high;
    }
    return Status();
  });
  return found;
}

std::vector<uint32_t> usersOfReceived(const ashlar_rt_variant &variant, uint32_t receiver, const ashlar_rt_transfer &receive) {
  std::vector<uint32_t> users;
  for (uint32_t program = 0; program < variant.num_programs; ++program) {
    if (program == receiver || touches(variant.programs[program], variant.tensors[receive.tensor])) {
      users.push_back(program);
    }
  }
  return users;
}

namespace {

// A run of a stage, or a message.
struct Node {
  uint32_t stage = 0, run = 0; // of a run: index into the stage's runs
  bool isMessage = false;
  uint32_t from = 0, to = 0, channel = 0; // of a message
  MessageEnd send = {}, receive = {};
  bool hasSend = false, hasReceive = false;
  std::vector<size_t> next;
  size_t waitsFor = 0; // nodes that were not done
  uint64_t ready = 0;  // units
};

class Graph {
public:
  Graph(const Stages &stages, const std::vector<std::vector<ashlar_rt_run>> &runs) : stages(stages), runs(runs) {}

  Status build() {
    for (uint32_t stage = 0; stage < stages.size(); ++stage) {
      firstNode.push_back(nodes.size());
      for (uint32_t i = 0; i < runs[stage].size(); ++i) {
        nodes.emplace_back();
        nodes.back().stage = stage;
        nodes.back().run = i;
      }
    }
    for (uint32_t stage = 0; stage < stages.size(); ++stage) {
      findAside(stage);
      addMessages(stage);
    }
    for (const Node &node : nodes) {
      if (node.isMessage && !(node.hasSend && node.hasReceive)) {
        return internal("channel {} from stage {} to {} is {} more often in a step", node.channel, node.from, node.to,
                        node.hasSend ? "sent on" : "received on");
      }
    }
    for (uint32_t stage = 0; stage < stages.size(); ++stage) {
      addEdges(stage);
    }
    return Status();
  }

  // Calls put(node, number) for each node in a linear order.
  template <typename Put> Status unroll(Put &&put) {
    using Entry = std::tuple<uint64_t, bool, size_t>; // when it can begin; messages first; which
    std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> open;
    auto admit = [&](size_t id) { open.emplace(nodes[id].ready, !nodes[id].isMessage, id); };
    for (size_t id = 0; id < nodes.size(); ++id) {
      if (nodes[id].waitsFor == 0) {
        admit(id);
      }
    }
    uint64_t number = 0;
    for (; !open.empty(); ++number) {
      const size_t id = std::get<2>(open.top());
      open.pop();
      const uint64_t end = nodes[id].ready + (nodes[id].isMessage ? 0 : 1);
      put(nodes[id], number);
      for (size_t next : nodes[id].next) {
        nodes[next].ready = std::max(nodes[next].ready, end);
        if (--nodes[next].waitsFor == 0) {
          admit(next);
        }
      }
    }
    if (number == nodes.size()) {
      return Status();
    }
    const Node &stuck = *std::find_if(nodes.begin(), nodes.end(), [](const Node &node) { return !node.isMessage && node.waitsFor > 0; });
    const ashlar_rt_run &run = runs[stuck.stage][stuck.run];
    return internal("the stages wait for each other: {} of micro-batch {} on stage {} is never due",
                    stages[stuck.stage].programs[run.program].name, run.micro_batch, stuck.stage);
  }

private:
  // Finds the message that the n-th run on a channel sends or receives.
  size_t findMessage(uint32_t from, uint32_t to, uint32_t channel, uint64_t n) {
    auto [found, isNew] = messages.try_emplace({from, to, channel, n}, nodes.size());
    if (isNew) {
      nodes.emplace_back();
      nodes.back().isMessage = true;
      nodes.back().from = from;
      nodes.back().to = to;
      nodes.back().channel = channel;
    }
    return found->second;
  }

  void addMessages(uint32_t stage) {
    std::map<uint32_t, uint64_t> count; // runs so far, by program
    for (const ashlar_rt_run &run : runs[stage]) {
      const ashlar_rt_program &program = stages[stage].programs[run.program];
      const uint64_t n = count[run.program]++;
      for (uint32_t i = 0; i < program.num_sends; ++i) {
        Node &node = nodes[findMessage(stage, program.sends[i].stage, program.sends[i].channel, n)];
        node.send = {run.program, /*isSend=*/true, i, run.micro_batch};
        node.hasSend = true;
      }
      for (uint32_t i = 0; i < program.num_receives; ++i) {
        Node &node = nodes[findMessage(program.receives[i].stage, stage, program.receives[i].channel, n)];
        node.receive = {run.program, /*isSend=*/false, i, run.micro_batch, aside.count({stage, run.program, i}) != 0};
        node.hasReceive = true;
      }
    }
  }

  // Finds what a stage puts aside: what some run receives into bytes that the run right before it was on, in one of two steps in a row.
  void findAside(uint32_t stage) {
    const ashlar_rt_variant &variant = stages[stage];
    uint64_t microBatches = 0;
    for (const ashlar_rt_run &run : runs[stage]) {
      microBatches = std::max<uint64_t>(microBatches, run.micro_batch + 1);
    }
    std::map<std::pair<uint32_t, uint64_t>, size_t> touched; // by received tensor and slot: the last run on its bytes, counted from 1
    const size_t count = runs[stage].size();
    for (size_t i = 0; i < 2 * count; ++i) {
      const ashlar_rt_run &run = runs[stage][i % count];
      const ashlar_rt_program &program = variant.programs[run.program];
      const uint64_t slot = (i / count * microBatches + run.micro_batch) % slotsOf(variant);
      for (uint32_t r = 0; r < program.num_receives; ++r) {
        if (i > 0 && touched[{program.receives[r].tensor, slot}] == i) {
          aside.insert({stage, run.program, r});
        }
      }
      for (uint32_t tensor : touchedBy(stage, run.program)) {
        touched[{tensor, slot}] = i + 1;
      }
    }
  }

  void addEdge(size_t from, size_t to) {
    nodes[from].next.push_back(to);
    ++nodes[to].waitsFor;
  }

  // What comes before what on a stage.
  void addEdges(uint32_t stage) {
    const ashlar_rt_variant &variant = stages[stage];
    const uint64_t slots = slotsOf(variant);
    std::map<std::pair<uint32_t, uint64_t>, std::vector<size_t>> sent; // by program and slot: what its last run there sent
    std::map<std::pair<uint32_t, uint64_t>, size_t> touched;           // by received tensor and slot: the last run on its bytes
    std::map<uint32_t, size_t> lastRun;                                // by program
    std::map<uint32_t, uint64_t> count;
    for (size_t i = 0; i < runs[stage].size(); ++i) {
      const ashlar_rt_run &run = runs[stage][i];
      const ashlar_rt_program &program = variant.programs[run.program];
      const size_t self = firstNode[stage] + i;
      const uint64_t slot = run.micro_batch % slots, n = count[run.program]++;
      if (i > 0) {
        addEdge(self - 1, self);
      }
      for (size_t message : sent[{run.program, slot}]) {
        addEdge(message, self);
      }
      sent[{run.program, slot}].clear();
      for (uint32_t r = 0; r < program.num_receives; ++r) {
        const ashlar_rt_transfer &transfer = program.receives[r];
        const size_t message = findMessage(transfer.stage, stage, transfer.channel, n);
        const bool isAside = nodes[message].receive.isAside;
        if (auto before = touched.find({transfer.tensor, slot}); before != touched.end() && !isAside) {
          addEdge(before->second, message);
        }
        if (auto before = lastRun.find(run.program); before != lastRun.end() && isAside) {
          addEdge(before->second, message);
        }
        addEdge(message, self);
      }
      for (uint32_t s = 0; s < program.num_sends; ++s) {
        const size_t message = findMessage(stage, program.sends[s].stage, program.sends[s].channel, n);
        addEdge(self, message);
        sent[{run.program, slot}].push_back(message);
      }
      for (uint32_t tensor : touchedBy(stage, run.program)) {
        touched[{tensor, slot}] = self;
      }
      lastRun[run.program] = self;
    }
  }

  // The tensors that the stage receives, as far as a program touches their bytes.
  const std::vector<uint32_t> &touchedBy(uint32_t stage, uint32_t program) {
    auto [found, isNew] = touchedTensors.try_emplace(stage);
    const ashlar_rt_variant &variant = stages[stage];
    found->second.resize(variant.num_programs);
    for (uint32_t p = 0; isNew && p < variant.num_programs; ++p) {
      for (uint32_t r = 0; r < variant.programs[p].num_receives; ++r) {
        const ashlar_rt_transfer &receive = variant.programs[p].receives[r];
        for (uint32_t user : usersOfReceived(variant, p, receive)) {
          found->second[user].push_back(receive.tensor);
        }
      }
    }
    return found->second[program];
  }

  const Stages &stages;
  const std::vector<std::vector<ashlar_rt_run>> &runs;
  std::vector<Node> nodes;
  std::vector<size_t> firstNode; // by stage: that of its first run
  std::map<std::tuple<uint32_t, uint32_t, uint32_t, uint64_t>, size_t> messages;
  std::map<uint32_t, std::vector<std::vector<uint32_t>>> touchedTensors; // by stage, and program
  std::set<std::tuple<uint32_t, uint32_t, uint32_t>> aside;              // stage, program, receive
};

} // namespace

Status runsOfStep(const Stages &stages, uint64_t microBatches, std::vector<std::vector<ashlar_rt_run>> &runs) {
  runs.assign(stages.size(), {});
  for (uint32_t stage = 0; stage < stages.size(); ++stage) {
    if (stages[stage].order.num_repeats == 0) {
      continue;
    }
    StepOrder order;
    ASHLAR_RETURN_IF_ERROR(order.set(stages[stage], microBatches));
    for (ashlar_rt_run run; order.next(run);) {
      runs[stage].push_back(run);
    }
  }
  return Status();
}

Status orderMessages(const Stages &stages, const std::vector<std::vector<ashlar_rt_run>> &runs, uint32_t stage,
                     std::vector<IssuedRun> &order) {
  Graph graph(stages, runs);
  ASHLAR_RETURN_IF_ERROR(graph.build());
  order.clear();
  std::vector<MessageEnd> ends; // since the last run of this stage
  auto put = [&](const Node &node, uint64_t number) {
    if (!node.isMessage && node.stage == stage) {
      const ashlar_rt_run &run = runs[stage][node.run];
      order.push_back({run.program, run.micro_batch, std::move(ends), {}});
      ends.clear();
    } else if (node.isMessage && (node.from == stage || node.to == stage)) {
      ends.push_back(node.from == stage ? node.send : node.receive);
      ends.back().number = number;
    }
  };
  ASHLAR_RETURN_IF_ERROR(graph.unroll(put));
  if (!order.empty()) {
    order.back().after = std::move(ends);
  }
  return Status();
}

} // namespace ashlar::rt
