// SPDX-License-Identifier: Apache-2.0
//
// When gradients are reduced: the faster of two programs, where it fits.

#include "compiler/job/job.h"
#include "compiler/planning/sync_search.h"
#include "dialects/dist/dist.h"

#include "mlir/IR/BuiltinOps.h"

#include <catch2/catch.hpp>

namespace ashlar::test::sync_search_test {

using namespace ashlar::planning;

namespace {

// Chooses between programs of these costs; returns whether gradients are reduced once, which the module has to say, too, and so does the
// last program that was planned.
bool choose(SyncTrial once, SyncTrial inEach, uint64_t limit) {
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
  auto isOnce = [&] { return dist::gradientSync(*module) == dist::GradientSync::Step; };
  bool wasOnce = false;
  mlir::FailureOr<SyncChoice> choice = chooseGradientSync(*module, limit, [&]() -> mlir::FailureOr<SyncTrial> {
    wasOnce = isOnce();
    return wasOnce ? once : inEach;
  });
  REQUIRE(succeeded(choice));
  CHECK(choice->takesOnce == isOnce());
  CHECK(choice->takesOnce == wasOnce);
  const report::GradientSyncFact fact = describeSync(*choice);
  CHECK(fact.strategies.at(fact.taken).name == (isOnce() ? "reduced once a step" : "reduced in each micro-batch"));
  CHECK(fact.strategies.at(fact.taken).stepPs == (isOnce() ? once : inEach).stepPs);
  return choice->takesOnce;
}

} // namespace

TEST_CASE("gradient sync: the faster of two programs that fit", "[driver]") {
  CHECK(choose({10, 100}, {11, 50}, 100)); // to the byte
  CHECK_FALSE(choose({10, 101}, {11, 50}, 100));
  CHECK_FALSE(choose({10, 100}, {10, 50}, 100)); // as fast with less memory
  CHECK_FALSE(choose({12, 100}, {11, 50}, 100));
  CHECK_FALSE(choose({10, 101}, {11, 101}, 100)); // neither fits: the smaller, by its layouts
}

TEST_CASE("gradient sync: a plan that fails ends the choice", "[driver]") {
  mlir::MLIRContext context;
  for (int failing : {0, 1, 2}) {
    mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
    int calls = 0;
    CHECK(failed(chooseGradientSync(*module, 100, [&]() -> mlir::FailureOr<SyncTrial> {
      return calls++ == failing ? mlir::FailureOr<SyncTrial>() : SyncTrial{10, 100};
    })));
    CHECK(calls == std::max(failing + 1, 2)); // both are planned before either is looked at
  }
}

TEST_CASE("gradient sync: left open by jobs whose levels shard the sums of micro-batches, within a memory", "[driver]") {
  job::Job job;
  job.mutable_loss();
  job.set_accumulate(4);
  job.mutable_optimizer_parallel()->set_level(2);
  CHECK(choosesGradientSync(job, 1000));
  CHECK_FALSE(choosesGradientSync(job, 0));
  job.mutable_optimizer_parallel()->set_level(3);
  CHECK(choosesGradientSync(job, 1000));
  job.set_gradient_sync(job::GradientSync::MICRO_BATCH);
  CHECK_FALSE(choosesGradientSync(job, 1000));
  job.set_gradient_sync(job::GradientSync::AUTO);
  job.set_accumulate(1);
  CHECK_FALSE(choosesGradientSync(job, 1000));
  job.set_accumulate(4);
  job.mutable_optimizer_parallel()->set_level(1);
  CHECK_FALSE(choosesGradientSync(job, 1000));
}

} // namespace ashlar::test::sync_search_test
