// SPDX-License-Identifier: Apache-2.0
//
// Orders of a user's own: what is read, what is refused, and that what is written can be read.

#include "passes/stage/order_file.h"

#include <catch2/catch.hpp>

namespace ashlar::test::order_file_test {

using namespace ashlar::stage;

namespace {

// Reads the text of "order.txt". Returns the orders, or the error.
std::string read(const std::string &text, const Cut &cut, int64_t microBatches, bool *splits = nullptr) {
  llvm::Expected<OrderFile> file = OrderFile::parse(text, "order.txt", cut, microBatches);
  if (!file) {
    return llvm::toString(file.takeError());
  }
  if (splits) {
    *splits = file->splitsBackward();
  }
  return printOrders(file->getOrders(), cut);
}

std::string errorOf(const std::string &text, int64_t chunks = 1) {
  return read(text, Cut{2, chunks}, 2);
}

const std::string kGood = "stage 0: F0 F1 B0 B1\nstage 1: F0 B0 F1 B1\n";

} // namespace

TEST_CASE("order file: lines, comments, and lines that go on", "[stage][order]") {
  bool splits = true;
  CHECK(read(kGood, Cut{2, 1}, 2, &splits) == kGood);
  CHECK_FALSE(splits);
  CHECK(read("# mine\n\n  stage 1 :F0 B0\tF1 # the last\r\nB1\nstage 0: F0 F1\n\n  B0 B1", Cut{2, 1}, 2) == kGood);
  const std::string weights = "stage 0: F0 F1 B0 B1 W0 W1\nstage 1: F0 B0 W0 F1 B1 W1\n";
  CHECK(read(weights, Cut{2, 1}, 2, &splits) == weights);
  CHECK(splits);
  const std::string chunks = "stage 0: F0.0 F0.1 B0.1 B0.0\nstage 1: F0.0 F0.1 B0.1 B0.0\n";
  CHECK(read(chunks, Cut{2, 2}, 1) == chunks);
  CHECK(read("stage 0: F0 F0.1 B0.1 B0\nstage 1: F0 F0.1 B0.1 B0.0\n", Cut{2, 2}, 1) == chunks);
  for (const char *schedule : {"GPIPE", "ONE_F_ONE_B", "ZERO_BUBBLE", "INTERLEAVED"}) {
    const Cut cut{3, schedule == std::string("INTERLEAVED") ? 2 : 1};
    const std::string built = printOrders(buildOrders(SchedulePolicy::get(*symbolizeSchedule(schedule)), cut, 7), cut);
    CHECK(read(built, cut, 7) == built);
  }
}

TEST_CASE("order file: what is refused is told with its line", "[stage][order]") {
  CHECK(errorOf("stage 0: F0 G1\n") ==
        "order.txt:1: \"G1\" is no action; one is F, B or W (forward, backward, weights) and a micro-batch, F0, "
        "and where stages have several chunks a point and the chunk, F0.1");
  for (const char *word : {"F", "F-1", "F1.", "F1.x", "F1.-1", "0", "F1,", "f0", "stages"}) {
    CHECK(llvm::StringRef(errorOf(std::string("stage 0: ") + word)).starts_with("order.txt:1: \"" + std::string(word) + "\" is no action"));
  }
  CHECK(errorOf("# mine\nF0 F1") == "order.txt:2: \"F0\" stands before the first stage; begin with \"stage 0:\"");
  CHECK(errorOf("stage: F0") == "order.txt:1: \"stage: F0\" does not name its stage; write for instance \"stage 0: F0 B0\"");
  CHECK(errorOf("stage 0 F0") == "order.txt:1: \"stage 0 F0\" does not name its stage; write for instance \"stage 0: F0 B0\"");
  CHECK(errorOf("stage 2: F0") == "order.txt:1: stage 2, but pipeline.stages is 2; the last one is stage 1");
  CHECK(errorOf("stage -1: F0") == "order.txt:1: stage -1, but pipeline.stages is 2; the last one is stage 1");
  CHECK(errorOf(kGood + "stage 0: F0") == "order.txt:3: stage 0 begins again, after line 1; write its order once");
  CHECK(errorOf("stage 0: F0 F1 B0 B1\n") == "order.txt: has no line for stage 1 of 2; add \"stage 1:\" and its actions");
  CHECK(errorOf("") == "order.txt: has no line for stage 0 of 2; add \"stage 0:\" and its actions");
  CHECK(errorOf("stage 0: F0\nF2") ==
        "order.txt:2: F2 names micro-batch 2, but pipeline.micro_batches is 2; the last one is micro-batch 1");
  CHECK(errorOf("stage 0: F0.1") == "order.txt:1: F0.1 names chunk 1, but pipeline.chunks is 1; the last one is chunk 0");
  CHECK(errorOf("stage 1: F0 B0 F1 B1\nstage 0: F0 F1 B0\nB1 F1") == "order.txt:3: F1 of stage 0 a second time; a stage does it once");
  CHECK(errorOf("stage 1: F1 F0 B0 B1\nstage 0: F0 F1 B0 B1") ==
        "order.txt:1: F0 of stage 1 stands after F1; let its micro-batches come in turn");
  CHECK(errorOf("stage 0: F0 B1 B0 F1\nstage 1:") == "order.txt:1: B0 of stage 0 stands after B1; let its micro-batches come in turn");
  CHECK(errorOf("stage 0: F0 B0 B1 F1\nstage 1:") == "order.txt:1: B1 of stage 0 stands before F1, which makes its input; exchange them");
  CHECK(errorOf("stage 0: F0 W0 B0\nstage 1:") == "order.txt:1: W0 of stage 0 stands before B0, which makes its input; exchange them");
  CHECK(errorOf("stage 0: F0.1 F0.0\nstage 1:", 2) ==
        "order.txt:1: F0.1 of stage 0 stands before F0.0, which makes its input; exchange them");
  CHECK(errorOf("stage 0: F0.0 F0.1 B0.0 B0.1\nstage 1:", 2) ==
        "order.txt:1: B0.0 of stage 0 stands before B0.1, which makes its input; exchange them");
}

TEST_CASE("order file: each stage runs each of its programs for each micro-batch", "[stage][order]") {
  using P = StepPhase;
  llvm::Expected<OrderFile> file =
      OrderFile::parse("stage 0: F0 F1 W0 W1\nstage 1: F0 B0 W0 F1\nB1", "order.txt", Cut{2, 1}, /*microBatches=*/2);
  REQUIRE(bool(file));
  CHECK_FALSE(bool(file->checkComplete({{{P::Forward}, {P::Weights}}, {{P::Forward}, {P::Backward}}}))); // others have nothing to do
  CHECK(llvm::toString(file->checkComplete({{{P::Forward}}, {{P::Forward}, {P::Backward}, {P::Weights}}})) ==
        "order.txt:2: stage 1 has no W1; it runs weights of each of the 2 micro-batches");
  CHECK(llvm::toString(file->checkComplete({{{P::Backward}}, {}})) ==
        "order.txt:1: stage 0 has no B0; it runs backward of each of the 2 micro-batches");
}

} // namespace ashlar::test::order_file_test
