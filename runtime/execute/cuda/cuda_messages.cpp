// SPDX-License-Identifier: Apache-2.0
//
// Messages as work on streams. An event belongs to a message, or a program, and a slot: its last record is what the next user of the slot
// waits for.

#include "runtime/execute/cuda/cuda_messages.h"

#include "runtime/execute/slots.h"

#include <algorithm>

namespace ashlar::rt {

Status CudaMessages::plan(const ashlar_rt_image &image, const ashlar_rt_variant &chosen,
                          const std::deque<std::unique_ptr<Program>> &programs) {
  variant = &chosen;
  parts.resize(variant->num_programs);
  if (!exist()) {
    return Status();
  }
  for (uint32_t p = 0; p < variant->num_programs; ++p) {
    const ashlar_rt_program &program = variant->programs[p];
    for (uint32_t i = 0; i < program.num_sends + program.num_receives; ++i) {
      const bool isSend = i < program.num_sends;
      const ashlar_rt_transfer &transfer = isSend ? program.sends[i] : program.receives[i - program.num_sends];
      End end;
      end.message = context.links->layOut(transfer, isSend);
      end.wait = isSend ? programs[p]->addSend(*variant, transfer) : programs[p]->addReceive(*variant, transfer);
      end.runsAfter = isSend ? std::vector<uint32_t>{p} : usersOfReceived(*variant, p, transfer);
      (isSend ? parts[p].sends : parts[p].receives).push_back(std::move(end));
    }
  }
  std::vector<std::vector<ashlar_rt_run>> runs;
  const uint64_t microBatches = image.training != nullptr ? std::max<uint64_t>(image.training->accumulate, 1) : 1;
  ASHLAR_RETURN_IF_ERROR(runsOfStep(Stages(*variant), microBatches, runs));
  ASHLAR_RETURN_IF_ERROR(planStep(runs, microBatches));
  return planEvaluation(runs);
}

Status CudaMessages::planStep(const std::vector<std::vector<ashlar_rt_run>> &runs, uint64_t microBatches) {
  std::vector<IssuedRun> order;
  ASHLAR_RETURN_IF_ERROR(orderMessages(Stages(*variant), runs, variant->stage, order));
  for (IssuedRun &run : order) {
    for (const MessageEnd &end : run.before) {
      if (end.isAside) {
        parts[end.program].receives[end.transfer].isAside = true;
      }
    }
    std::vector<IssuedRun> &issued = parts[run.program].issued;
    issued.resize(std::max<size_t>(issued.size(), microBatches));
    issued[run.microBatch] = std::move(run);
  }
  return Status();
}

// What no step runs is the evaluation, batch by batch: of several chunks a stage the programs of a batch one after the other.
Status CudaMessages::planEvaluation(const std::vector<std::vector<ashlar_rt_run>> &step) {
  const Stages stages(*variant);
  std::vector<std::vector<ashlar_rt_run>> runs(stages.size());
  for (const ashlar_rt_variant &stage : stages) {
    for (uint32_t p = 0; p < stage.num_programs; ++p) {
      const std::vector<ashlar_rt_run> &ofStep = step[stage.stage];
      const bool isOfStep = std::any_of(ofStep.begin(), ofStep.end(), [&](const ashlar_rt_run &run) { return run.program == p; });
      if (!isOfStep && stage.programs[p].num_sends + stage.programs[p].num_receives > 0) {
        runs[stage.stage].push_back({p, /*micro_batch=*/0, /*takes_batch=*/0});
      }
    }
  }
  return planStep(runs, /*microBatches=*/1);
}

Status CudaMessages::create(bool profile) {
  const uint64_t slots = slotsOf(*variant);
  CUdeviceptr aside = context.messages;
  for (uint32_t p = 0; exist() && p < parts.size(); ++p) {
    Part &part = parts[p];
    const ashlar_rt_program &program = variant->programs[p];
    auto lay = [&](End &end, const ashlar_rt_transfer &transfer) {
      for (uint64_t slot = 0; slot < slots; ++slot) {
        end.address.push_back(context.memory.address(bufferInArena(*variant, variant->tensors[transfer.tensor].buffer, slot)));
        end.done.push_back(nullptr);
        ASHLAR_RETURN_IF_ERROR(context.device.createEvent(end.done.back()));
      }
      return Status();
    };
    for (uint32_t i = 0; i < program.num_sends; ++i) {
      ASHLAR_RETURN_IF_ERROR(lay(part.sends[i], program.sends[i]));
    }
    for (uint32_t i = 0; i < program.num_receives; ++i) {
      End &end = part.receives[i];
      ASHLAR_RETURN_IF_ERROR(lay(end, program.receives[i]));
      ASHLAR_RETURN_IF_ERROR(context.device.createEvent(end.taken));
      end.aside = aside;
      aside += roundUp(variant->tensors[program.receives[i].tensor].buffer.bytes, kDeviceAlignment);
    }
    part.ran.resize(slots);
    for (CUevent &event : part.ran) {
      ASHLAR_RETURN_IF_ERROR(context.device.createEvent(event));
    }
    part.marks.resize(profile ? 1 + part.sends.size() + part.receives.size() : 0);
    for (CUevent &event : part.marks) {
      ASHLAR_RETURN_IF_ERROR(context.device.createEvent(event, /*timing=*/true));
    }
  }
  last.resize(exist() ? context.links->size() : 0);
  for (CUevent &event : last) {
    ASHLAR_RETURN_IF_ERROR(context.device.createEvent(event));
  }
  return Status();
}

uint32_t CudaMessages::indexOf(const Program &program) const {
  return static_cast<uint32_t>(&program.source - variant->programs);
}

const CudaMessages::End &CudaMessages::find(const MessageEnd &end) const {
  const Part &part = parts[end.program];
  return (end.isSend ? part.sends : part.receives)[end.transfer];
}

Status CudaMessages::record(CUevent event, CUstream stream) const {
  const DriverLibrary &cuda = context.device.driver();
  return cuda.check(cuda.cuEventRecord(event, stream), "cannot record an event");
}

Status CudaMessages::await(CUstream stream, CUevent event) const {
  const DriverLibrary &cuda = context.device.driver();
  return cuda.check(cuda.cuStreamWaitEvent(stream, event, /*flags=*/0), "cannot wait for an event");
}

Status CudaMessages::begin(const Program &program, uint64_t microBatch) {
  Part &part = parts[indexOf(program)];
  const uint64_t slot = slotOf(microBatch);
  if (!part.issued.empty()) {
    const IssuedRun &run = part.issued[microBatch % part.issued.size()];
    ASHLAR_RETURN_IF_ERROR(issue(run.before, microBatch - run.microBatch));
  }
  size_t mark = 0;
  auto markIfMeasured = [&] { return part.marks.empty() ? Status() : record(part.marks[mark++], context.compute); };
  ASHLAR_RETURN_IF_ERROR(markIfMeasured());
  for (const std::vector<End> *ends : {&part.sends, &part.receives}) {
    for (const End &end : *ends) {
      ASHLAR_RETURN_IF_ERROR(await(context.compute, end.done[slot]));
      ASHLAR_RETURN_IF_ERROR(markIfMeasured());
    }
  }
  return takeAside(part, slot);
}

// Copies what was put aside to its slot.
Status CudaMessages::takeAside(const Part &part, uint64_t slot) {
  const ashlar_rt_program &program = variant->programs[&part - parts.data()];
  for (uint32_t i = 0; i < program.num_receives; ++i) {
    const End &end = part.receives[i];
    if (end.isAside) {
      const StridedCopy copy{end.aside, end.address[slot], variant->tensors[program.receives[i].tensor].buffer.bytes};
      ASHLAR_RETURN_IF_ERROR(copy.enqueue(context.device.driver(), context.compute));
      ASHLAR_RETURN_IF_ERROR(record(end.taken, context.compute));
    }
  }
  return Status();
}

Status CudaMessages::end(const Program &program, uint64_t microBatch) {
  Part &part = parts[indexOf(program)];
  if (!exist()) {
    return Status();
  }
  ASHLAR_RETURN_IF_ERROR(record(part.ran[slotOf(microBatch)], context.compute));
  if (part.issued.empty()) {
    return Status();
  }
  const IssuedRun &run = part.issued[microBatch % part.issued.size()];
  return issue(run.after, microBatch - run.microBatch);
}

// Neighbours on one link are one group: a call of the library, and a kernel.
Status CudaMessages::issue(const std::vector<MessageEnd> &ends, uint64_t firstMicroBatch) {
  for (size_t begin = 0, count = 1; begin < ends.size(); begin += count) {
    const size_t link = context.links->linkOf(find(ends[begin]).message);
    for (count = 1; begin + count < ends.size() && context.links->linkOf(find(ends[begin + count]).message) == link;) {
      ++count;
    }
    ASHLAR_RETURN_IF_ERROR(issueGroup(&ends[begin], count, firstMicroBatch));
  }
  return Status();
}

Status CudaMessages::issueGroup(const MessageEnd *first, size_t count, uint64_t firstMicroBatch) {
  const StageLinks &links = *context.links;
  CUstream stream = links.stream(links.linkOf(find(*first).message));
  auto slotOfEnd = [&](const MessageEnd &end) { return slotOf(firstMicroBatch + end.microBatch); };
  for (const MessageEnd *each = first; each != first + count; ++each) {
    const End &end = find(*each);
    if (end.isAside) {
      ASHLAR_RETURN_IF_ERROR(await(stream, end.taken));
      continue;
    }
    for (uint32_t program : end.runsAfter) {
      ASHLAR_RETURN_IF_ERROR(await(stream, parts[program].ran[slotOfEnd(*each)]));
    }
  }
  const size_t number = context.watchdog->ofMessage(find(*first).message);
  ASHLAR_RETURN_IF_ERROR(context.watchdog->note(number, stream));
  context.watchdog->enter(number);
  Status status = count > 1 ? links.begin() : Status();
  for (const MessageEnd *each = first; each != first + count; ++each) {
    const End &end = find(*each);
    status.update(links.put(end.message, end.isAside ? end.aside : end.address[slotOfEnd(*each)]));
  }
  status.update(count > 1 ? links.end() : Status());
  context.watchdog->leave();
  ASHLAR_RETURN_IF_ERROR(status);
  for (const MessageEnd *each = first; each != first + count; ++each) {
    ASHLAR_RETURN_IF_ERROR(record(find(*each).done[slotOfEnd(*each)], stream));
  }
  return Status();
}

Status CudaMessages::rehearse() {
  // Both sides of a link go through its channels by their numbers.
  std::vector<std::pair<std::pair<size_t, uint32_t>, MessageEnd>> all; // by link and channel
  for (uint32_t p = 0; exist() && p < parts.size(); ++p) {
    const ashlar_rt_program &program = variant->programs[p];
    for (uint32_t i = 0; i < program.num_sends; ++i) {
      all.push_back({{context.links->linkOf(parts[p].sends[i].message), program.sends[i].channel}, {p, /*isSend=*/true, i, 0}});
    }
    for (uint32_t i = 0; i < program.num_receives; ++i) {
      all.push_back({{context.links->linkOf(parts[p].receives[i].message), program.receives[i].channel}, {p, /*isSend=*/false, i, 0}});
    }
  }
  std::sort(all.begin(), all.end(), [](const auto &a, const auto &b) { return a.first < b.first; });
  std::vector<MessageEnd> ends;
  for (const auto &each : all) {
    ends.push_back(each.second);
  }
  ASHLAR_RETURN_IF_ERROR(issue(ends, /*firstMicroBatch=*/0));
  return join();
}

Status CudaMessages::join() {
  for (size_t link = 0; link < last.size(); ++link) {
    ASHLAR_RETURN_IF_ERROR(record(last[link], context.links->stream(link)));
    ASHLAR_RETURN_IF_ERROR(await(context.compute, last[link]));
  }
  return Status();
}

Status CudaMessages::collectTimes(Program &program) const {
  const Part &part = parts[indexOf(program)];
  const DriverLibrary &cuda = context.device.driver();
  size_t mark = 0;
  for (const std::vector<End> *ends : {&part.sends, &part.receives}) {
    for (const End &end : *ends) {
      float milliseconds = 0;
      CUresult result = cuda.cuEventElapsedTime_v2(&milliseconds, part.marks[mark], part.marks[mark + 1]);
      ASHLAR_RETURN_IF_ERROR(cuda.check(result, "cannot measure a wait"));
      program.waits[end.wait].seconds += 1e-3 * static_cast<double>(milliseconds);
      ++mark;
    }
  }
  return Status();
}

} // namespace ashlar::rt
