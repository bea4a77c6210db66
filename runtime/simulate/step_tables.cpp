// SPDX-License-Identifier: Apache-2.0
//
// Instructions -> items. A repeat that only computes is one item, however often it runs.

#include "runtime/simulate/step_tables.h"

#include "runtime/execute/order.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace ashlar::rt {
namespace {

// Whether all devices only compute in it: a slice sends nothing.
bool computes(const ashlar_rt_instr &instr) {
  return instr.kind != ASHLAR_RT_WAIT && (instr.kind != ASHLAR_RT_COLLECTIVE || collectiveOf(instr).kind == ASHLAR_RT_SLICE);
}

class ProgramReader {
public:
  ProgramReader(const ashlar_rt_program &program, std::vector<std::vector<uint32_t>> &axisSets) : program(program), axisSets(axisSets) {}

  Status read(std::vector<TimedItem> &result) {
    for (uint32_t i = 0; i < program.num_instrs; ++i) {
      closeRepeats(i);
      const ashlar_rt_instr &instr = program.instrs[i];
      if (instr.kind == ASHLAR_RT_REPEAT) {
        const auto &desc = *static_cast<const ashlar_rt_repeat_desc *>(instr.desc);
        const uint32_t left = (open.empty() ? program.num_instrs : open.back().end) - i - 1;
        if (desc.num_instrs > left) {
          return internal("{}: repeats {} instructions but {} are left", instr.name, desc.num_instrs, left);
        }
        open.push_back({items.size(), i + 1 + desc.num_instrs});
        items.push_back({TimedItem::kRepeat, i, i + 1 + desc.num_instrs});
        items.back().count = desc.count;
      } else if (computes(instr)) {
        addCompute(i, i + 1, instr.predicted_ps, instr.owner);
      } else {
        addSynchronization(i, instr);
      }
    }
    closeRepeats(program.num_instrs);
    result = std::move(items);
    return Status();
  }

private:
  struct OpenRepeat {
    size_t item;
    uint32_t end; // instruction
  };

  void addCompute(uint32_t begin, uint32_t end, uint64_t ps, uint32_t owner) {
    const size_t first = open.empty() ? 0 : open.back().item + 1;
    if (items.size() > first && items.back().kind == TimedItem::kCompute && items.back().owner == owner) {
      items.back().end = end;
      items.back().ps += ps;
      return;
    }
    items.push_back({TimedItem::kCompute, begin, end});
    items.back().ps = ps;
    items.back().owner = owner;
  }

  void addSynchronization(uint32_t at, const ashlar_rt_instr &instr) {
    if (instr.kind == ASHLAR_RT_WAIT) {
      items.push_back({TimedItem::kWait, at, at + 1});
      items.back().token = static_cast<const ashlar_rt_wait_desc *>(instr.desc)->token;
      return;
    }
    const ashlar_rt_collective_desc &desc = collectiveOf(instr);
    std::vector<uint32_t> axes(desc.axes, desc.axes + desc.num_axes);
    std::sort(axes.begin(), axes.end());
    auto found = std::find(axisSets.begin(), axisSets.end(), axes);
    if (found == axisSets.end()) {
      found = axisSets.insert(found, axes);
    }
    items.push_back({TimedItem::kCollective, at, at + 1});
    items.back().token = desc.token;
    items.back().axisSet = static_cast<uint32_t>(found - axisSets.begin());
  }

  // Ends the repeats that end before an instruction.
  void closeRepeats(uint32_t at) {
    while (!open.empty() && open.back().end == at) {
      const size_t item = open.back().item;
      open.pop_back();
      const TimedItem repeat = items[item];
      const size_t inside = items.size() - item - 1;
      if (repeat.count == 0 || inside == 0) {
        items.resize(item);
      } else if (inside == 1 && items.back().kind == TimedItem::kCompute) {
        const TimedItem body = items.back();
        items.resize(item);
        addCompute(repeat.begin, repeat.end, body.ps * repeat.count, body.owner);
      } else {
        items[item].items = static_cast<uint32_t>(inside);
      }
    }
  }

  const ashlar_rt_program &program;
  std::vector<std::vector<uint32_t>> &axisSets;
  std::vector<TimedItem> items;
  std::vector<OpenRepeat> open;
};

// Numbers channels by their two ends.
class ChannelReader {
public:
  explicit ChannelReader(StepTables &tables) : tables(tables) {}

  void addEnds(uint32_t stage, const ashlar_rt_program &program, TimedProgram &timed) {
    for (uint32_t i = 0; i < program.num_receives; ++i) {
      const ashlar_rt_transfer &transfer = program.receives[i];
      timed.receives.push_back({numberOf(transfer.stage, stage, transfer), i});
    }
    for (uint32_t i = 0; i < program.num_sends; ++i) {
      const ashlar_rt_transfer &transfer = program.sends[i];
      timed.sends.push_back({numberOf(stage, transfer.stage, transfer), i});
      tables.channels[timed.sends.back().channel].bytes = tables.stages[stage].tensors[transfer.tensor].buffer.bytes;
    }
  }

private:
  uint32_t numberOf(uint32_t from, uint32_t to, const ashlar_rt_transfer &transfer) {
    const auto [found, isNew] = numbers.try_emplace({from, to, transfer.channel}, static_cast<uint32_t>(tables.channels.size()));
    if (isNew) {
      tables.channels.push_back({from, to, /*bytes=*/0});
    }
    return found->second;
  }

  StepTables &tables;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, uint32_t> numbers; // by {from, to, channel}
};

} // namespace

Status makeStepTables(StepRuns runs, uint64_t microBatches, StepTables &tables) {
  tables.runs = std::move(runs);
  tables.microBatches = std::max<uint64_t>(microBatches, 1);
  ChannelReader channels(tables);
  for (const ashlar_rt_variant &stage : tables.stages) {
    std::vector<TimedProgram> &programs = tables.programs.emplace_back(stage.num_programs);
    tables.slots.push_back(slotsOf(stage));
    for (uint32_t i = 0; i < stage.num_programs; ++i) {
      ASHLAR_RETURN_IF_ERROR(ProgramReader(stage.programs[i], tables.axisSets).read(programs[i].items));
      programs[i].otherPs = stage.programs[i].other_ps;
      programs[i].instrs = stage.programs[i].instrs;
      channels.addEnds(stage.stage, stage.programs[i], programs[i]);
    }
  }
  return Status();
}

Status readStepRuns(const ashlar_rt_image &image, const Stages &stages, StepRuns &runs, uint64_t &microBatches) {
  microBatches = image.training == nullptr ? 1 : std::max<uint64_t>(image.training->accumulate, 1);
  for (const ashlar_rt_variant &stage : stages) {
    std::vector<ashlar_rt_run> &own = runs.emplace_back();
    if (stage.order.num_runs == 0) { // a forward executable: the model, or a token of the text that it generates
      for (uint32_t i = 0; i < stage.num_programs; ++i) {
        if (stage.programs[i].id.role == ASHLAR_RT_RUN || stage.programs[i].id.role == ASHLAR_RT_DECODE) {
          own.push_back({i, /*micro_batch=*/0, /*takes_batch=*/0});
        }
      }
      continue;
    }
    StepOrder order;
    ASHLAR_RETURN_IF_ERROR(order.set(stage, microBatches));
    for (ashlar_rt_run run; order.next(run);) {
      own.push_back(run);
    }
  }
  return Status();
}

} // namespace ashlar::rt
