// SPDX-License-Identifier: Apache-2.0
//
// Lists -> tables. Lists that tables point to are deques, or complete when the tables are made.

#include "test/unit/simulate/table_job.h"

#include <catch2/catch.hpp>

namespace ashlar::test {

TableInstr computeFor(uint64_t ps, uint32_t owner) {
  return {ASHLAR_RT_KERNEL, ps, owner};
}

TableInstr allReduce(std::vector<uint32_t> axes, uint64_t bytes, uint32_t token) {
  return {ASHLAR_RT_COLLECTIVE, 0, 0, std::move(axes), /*messages=*/1, bytes, token};
}

TableInstr waitFor(uint32_t token) {
  TableInstr instr{ASHLAR_RT_WAIT};
  instr.token = token;
  return instr;
}

TableInstr repeatOf(uint64_t count, uint32_t instrs) {
  TableInstr instr{ASHLAR_RT_REPEAT};
  instr.count = count;
  instr.instrs = instrs;
  return instr;
}

ashlar_rt_link linkOf(uint64_t psPerByte, bool movesBeside) {
  constexpr uint64_t kPsPerUs = 1000000;
  ashlar_rt_link link = {};
  for (ashlar_rt_message_cost &cost : link.costs) {
    cost = {/*latency_ns=*/0, kPsPerUs / psPerByte};
  }
  link.moves_beside = movesBeside;
  return link;
}

TableJob::TableJob(uint32_t count, const std::vector<uint32_t> &axisSizes) : stages(count) {
  static constexpr const char *kNames[] = {"a", "b", "c"};
  for (size_t i = 0; i < axisSizes.size(); ++i) {
    axes.push_back({kNames[i], axisSizes[i]});
  }
}

uint32_t TableJob::addProgram(uint32_t stage, const std::string &name, const std::vector<TableInstr> &instrs, uint64_t otherPs) {
  Program &program = stages[stage].programs.emplace_back();
  program.name = name;
  program.otherPs = otherPs;
  for (const TableInstr &each : instrs) {
    const void *desc = nullptr;
    if (each.kind == ASHLAR_RT_COLLECTIVE) {
      const std::vector<uint32_t> &list = axisLists.emplace_back(each.axes);
      ashlar_rt_collective_desc &collective = collectives.emplace_back();
      collective.kind = ASHLAR_RT_ALL_REDUCE;
      collective.num_axes = static_cast<uint32_t>(list.size());
      collective.axes = list.data();
      collective.cause = "test";
      collective.token = each.token;
      collective.messages = each.messages;
      collective.bytes_sent = each.bytes;
      desc = &collective;
    } else if (each.kind == ASHLAR_RT_WAIT) {
      desc = &waits.emplace_back(ashlar_rt_wait_desc{each.token});
    } else if (each.kind == ASHLAR_RT_REPEAT) {
      desc = &repeats.emplace_back(ashlar_rt_repeat_desc{each.count, each.instrs});
    }
    program.instrs.push_back({each.kind, "instr", 0, nullptr, nullptr, desc, each.owner, each.ps});
  }
  return static_cast<uint32_t>(stages[stage].programs.size()) - 1;
}

void TableJob::addMessage(uint32_t from, uint32_t fromProgram, uint32_t to, uint32_t toProgram, uint64_t bytes) {
  ashlar_rt_tensor tensor = {};
  tensor.name = "message";
  tensor.buffer.bytes = bytes;
  for (uint32_t stage : {from, to}) {
    stages[stage].tensors.push_back(tensor);
  }
  stages[from].programs[fromProgram].sends.push_back({static_cast<uint32_t>(stages[from].tensors.size()) - 1, to, channels});
  stages[to].programs[toProgram].receives.push_back({static_cast<uint32_t>(stages[to].tensors.size()) - 1, from, channels});
  ++channels;
}

void TableJob::addRun(uint32_t stage, uint32_t program, uint32_t microBatch, bool takesBatch) {
  stages[stage].runs.push_back({program, microBatch, takesBatch});
}

void TableJob::setLinks(const ashlar_rt_link &link, uint64_t ranksPerHost, uint64_t adapters) {
  machine.ranksPerHost = ranksPerHost;
  machine.adaptersPerHost = adapters;
  machine.axes.assign(axes.size(), link);
  machine.stages.assign(stages.size(), std::vector<ashlar_rt_link>(stages.size(), link));
}

uint32_t TableJob::ranks() const {
  uint32_t devices = 1;
  for (const ashlar_rt_axis &axis : axes) {
    devices *= axis.size;
  }
  return devices * static_cast<uint32_t>(stages.size());
}

rt::Simulation TableJob::simulate(const rt::SimulationOptions &options) {
  rt::Simulation result;
  const rt::Status status = trySimulate(options, result);
  INFO(status.message());
  REQUIRE(status.ok());
  return result;
}

rt::Status TableJob::trySimulate(const rt::SimulationOptions &options, rt::Simulation &result) {
  variants.assign(stages.size(), {});
  rt::StepRuns runs;
  for (uint32_t i = 0; i < stages.size(); ++i) {
    Stage &stage = stages[i];
    stage.tables.clear();
    for (const Program &program : stage.programs) {
      ashlar_rt_program table = {};
      table.name = program.name.c_str();
      table.num_instrs = static_cast<uint32_t>(program.instrs.size());
      table.instrs = program.instrs.data();
      table.num_receives = static_cast<uint32_t>(program.receives.size());
      table.receives = program.receives.data();
      table.num_sends = static_cast<uint32_t>(program.sends.size());
      table.sends = program.sends.data();
      table.other_ps = program.otherPs;
      stage.tables.push_back(table);
    }
    ashlar_rt_variant &variant = variants[i];
    variant.num_axes = static_cast<uint32_t>(axes.size());
    variant.axes = axes.data();
    variant.devices_per_process = 1;
    variant.tensors = stage.tensors.data();
    variant.num_programs = static_cast<uint32_t>(stage.tables.size());
    variant.programs = stage.tables.data();
    variant.stage = i;
    variant.num_stages = static_cast<uint32_t>(stages.size());
    variant.num_slots = stage.slots;
    runs.push_back(stage.runs);
  }
  rt::StepTables tables{rt::Stages(variants[0])};
  const rt::Status status = rt::makeStepTables(runs, microBatches, tables);
  return status.ok() ? rt::simulateSteps(tables, machine, options, result) : status;
}

} // namespace ashlar::test
