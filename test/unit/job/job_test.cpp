// SPDX-License-Identifier: Apache-2.0
//
// The job file: what it accepts, what it refuses and in which words.

#include "compiler/job/job.h"
#include "test/unit/job/good_job.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

namespace ashlar::test::job_test {

using namespace ashlar::job;

namespace {

std::string parseError(const std::string &text) {
  auto job = parseJobText(text, "train.txtpb");
  return job ? "no error" : llvm::toString(job.takeError());
}

// The error of a job that parses.
std::string checkError(const std::string &text) {
  auto job = parseJobText(text, "train.txtpb");
  if (!job) {
    return "does not parse: " + llvm::toString(job.takeError());
  }
  llvm::Error error = checkJob(*job, "train.txtpb");
  return error ? llvm::toString(std::move(error)) : "no error";
}

std::string replaced(std::string text, const std::string &from, const std::string &to) {
  size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

} // namespace

TEST_CASE("a complete job is accepted", "[job]") {
  CHECK(checkError(kGood) == "no error");
  CHECK(checkError("") == "no error"); // a forward executable
  CHECK(checkError("mesh { axes { name: \"dp\" size: 2 } } global_batch: 8") == "no error");
  CHECK(checkError(kGood + "seed: 7 deterministic { chunks: 8 } epochs: 3 log_every: 10 "
                           "precision: F32 init { match: \"*\" normal { std: 0.1 } }") == "no error");
  CHECK(checkError("mesh { axes { name: \"dp\" size: 2 } device_ids: [1, 0] } global_batch: 8 machine { ranks_per_host: 8 intra_host { "
                   "latency_us: 1.5 bandwidth_gb_per_s: 300 } inter_host { latency_us: 5 bandwidth_gb_per_s: 25 } }") == "no error");
  CHECK(checkError(replaced(kGood, "sgd {}", "momentum { momentum: 0.9 nesterov: true weight_decay: 0.1 }")) == "no error");
}

// The jobs in docs/jobs are good ones.
TEST_CASE("the example jobs are accepted", "[job][docs]") {
  for (const char *name : {"linear", "mlp", "mlp_adamw", "mlp_mindspore"}) {
    std::string path = std::string(ASHLAR_SOURCE_DIR) + "/docs/jobs/" + name + ".txtpb";
    auto job = parseJob(path);
    REQUIRE(bool(job));
    CHECK(!checkJob(*job, path));
  }
}

TEST_CASE("syntax errors carry line and column", "[job]") {
  CHECK(parseError("mode: DATA_PARALLEL\n\n  epoks: 3\n") == "train.txtpb:3:3: unknown field \"epoks\" of Job; did you mean \"epochs\"?");
  CHECK(parseError("optimizer {\n  sgd { momentun: 1 }\n}") == "train.txtpb:2:9: unknown field \"momentun\" of Sgd");
  CHECK(parseError("mode: DATA_PARALEL") ==
        "train.txtpb:1:7: unknown value \"DATA_PARALEL\" of field mode; one of STAND_ALONE, DATA_PARALLEL, SEMI_AUTO, AUTO, HYBRID");
  CHECK_THAT(parseError("epochs: many"), Catch::StartsWith("train.txtpb:1:9: expected integer, got: many"));
  CHECK_THAT(parseError("mesh {\n"), Catch::StartsWith("train.txtpb:2:1: expected"));
  CHECK_THAT(parseError("seed: 1\nseed: 2"), Catch::StartsWith("train.txtpb:2:5: non-repeated field \"seed\""));
  auto missing = parseJob("no_such_job.txtpb");
  REQUIRE(!missing);
  CHECK(llvm::toString(missing.takeError()) == "no_such_job.txtpb: cannot be read: no such file or directory");
}

TEST_CASE("settings of a precision are checked against it", "[job]") {
  CHECK(checkError(kGood + "precision: BF16_MIXED") == "no error");
  CHECK(checkError("precision: F16_MIXED") == "no error"); // a forward executable
  CHECK(checkError(kGood + "allow_tf32: true") == "no error");
  CHECK(checkError(kGood + "precision: F16_MIXED loss_scale { initial: 1024 growth_steps: 10 factor: 4 }") == "no error");
  CHECK(checkError(kGood + "precision: F16_MIXED loss_scale {}") == "no error");
  CHECK(
      checkError(kGood + "precision: BF16_MIXED allow_tf32: true") ==
      "train.txtpb: allow_tf32 rounds the operands of f32 products but with precision BF16_MIXED there are none; leave out one of the two");
  CHECK(checkError(kGood + "precision: BF16_MIXED loss_scale {}") ==
        "train.txtpb: loss_scale is for precision F16_MIXED, this job has BF16_MIXED; leave it out");
  CHECK(checkError(kGood + "straight_through: true") == "no error");
  CHECK(checkError("straight_through: true") == "train.txtpb: straight_through is about gradients but the job has no loss; leave it out");
  CHECK(checkError("precision: F16_MIXED loss_scale {}") ==
        "train.txtpb: loss_scale is for training but the job has no loss; leave it out");
  const std::string f16 = kGood + "precision: F16_MIXED ";
  CHECK(checkError(f16 + "loss_scale { initial: 0 }") ==
        "train.txtpb: loss_scale.initial 0 is not in [5.96046447753906e-08, 7.92281625142643e+28]");
  CHECK(checkError(f16 + "loss_scale { initial: inf }") ==
        "train.txtpb: loss_scale.initial inf is not in [5.96046447753906e-08, 7.92281625142643e+28]");
  CHECK(checkError(f16 + "loss_scale { growth_steps: 0 }") == "train.txtpb: loss_scale.growth_steps 0 is not in [1, 1099511627776]");
  CHECK(checkError(f16 + "loss_scale { factor: 1 }") == "train.txtpb: loss_scale.factor 1 is not in (1, 3.40282346638529e+38]");
}

TEST_CASE("comm_fusion has the numbers of its mode, and they make sense", "[job]") {
  const std::string mesh = "mesh { axes { name: \"dp\" size: 2 } } ";
  auto error = [&](const std::string &setting) { return checkError(mesh + "comm_fusion { " + setting + " }"); };
  CHECK(error("all_reduce {}") == "no error");
  CHECK(error("all_reduce { mode: SIZE } all_gather { mode: SIZE size_mb: 1 } reduce_scatter { mode: INDEX index: [1, 2, 40] }") ==
        "no error");
  CHECK(checkError("comm_fusion { all_reduce {} }") ==
        "train.txtpb: comm_fusion puts collectives together, and without a mesh there are none; add a mesh or leave it out");
  CHECK(error("") == "train.txtpb: comm_fusion names no kind of collective; one of all_reduce, all_gather, reduce_scatter");
  CHECK(error("all_reduce { size_mb: 16 }") == "train.txtpb: comm_fusion.all_reduce.size_mb 16 is for mode SIZE, and the mode is "
                                               "AUTO_BUCKETS; set mode: SIZE or leave it out");
  CHECK(error("all_gather { mode: SIZE index: 3 }") ==
        "train.txtpb: comm_fusion.all_gather.index 3 is for mode INDEX, and the mode is SIZE; set mode: INDEX or leave it out");
  CHECK(error("reduce_scatter { mode: INDEX }") ==
        "train.txtpb: comm_fusion.reduce_scatter has mode INDEX but no index; add index: [20, 35] "
        "for the first 20, the next 15 and the rest");
  CHECK(error("all_reduce { mode: INDEX index: [20, 20] }") ==
        "train.txtpb: comm_fusion.all_reduce.index has 20 after 20; the numbers count from the first collective on and have to grow");
  CHECK(error("all_reduce { mode: INDEX index: [0, 20] }") == "train.txtpb: comm_fusion.all_reduce.index 0 is not in [1, 1048576]");
  CHECK(checkError(mesh + "rules { match: \"a\" comm_fusion: 0 }") == "no error");
  CHECK(checkError(mesh + "rules { match: \"a\" comm_fusion: -1 }") == "train.txtpb: rules.comm_fusion -1 of \"a\" is not in [0, 1048576]");
  CHECK(checkError("rules { match: \"a\" comm_fusion: 1 }") ==
        "train.txtpb: the rule at train.txtpb:1 (\"a\") sets comm_fusion, which puts collectives "
        "together, and without a mesh there are none; add a mesh or leave "
        "it out");
  CHECK(error("all_reduce { mode: SIZE size_mb: 0 }") == "train.txtpb: comm_fusion.all_reduce.size_mb 0 is not in [1, 2147483647]");
}

TEST_CASE("a mesh that is searched says nothing that the search decides", "[job]") {
  const std::string what = "train.txtpb: mesh.devices 8 has the compiler search the axes, ", remedy = "; leave out one of the two";
  CHECK(checkError("mode: AUTO mesh { devices: 8 }") == "no error");
  CHECK(checkError("mode: AUTO mesh { devices: 8 axes { name: \"a\" } axes { name: \"b\" } }") == "no error");
  CHECK(checkError("mesh { devices: 8 }") ==
        what.substr(0, what.size() - 2) +
            ", which is for mode AUTO, and the mode is not given; set mode: AUTO, or name axes and their sizes");
  CHECK(checkError("mode: DATA_PARALLEL mesh { devices: 8 }") ==
        what.substr(0, what.size() - 2) +
            ", which is for mode AUTO, and the mode is DATA_PARALLEL; set mode: AUTO, or name axes and their sizes");
  CHECK(checkError("mode: AUTO mesh { devices: 8 axes { name: \"a\" size: 4 } }") == what + "and axis \"a\" has size 4" + remedy);
  CHECK(checkError("mode: AUTO mesh { devices: 8 axes { name: \"a\" } axes { name: \"b\" } axes { name: \"c\" } axes { name: \"d\" } }") ==
        what + "at most 3, and 4 are named; leave some out");
  CHECK(checkError("mode: AUTO mesh { devices: 2 device_ids: [1, 0] }") ==
        "train.txtpb: mesh.devices 2 has the compiler search the axes, and mesh.device_ids gives the rank of each of their points" +
            remedy);
  CHECK(checkError("mode: AUTO mesh { devices: 8 } pipeline { stages: 3 micro_batches: 4 }") ==
        "train.txtpb: mesh.devices 8 is not divisible by pipeline.stages 3; each stage has as many devices");
  CHECK_THAT(checkError("mode: AUTO mesh { devices: 8 } strategy {}"), contains("load the strategy by --load-strategy"));
  for (const char *devices : {"0", "-1", "65537"}) {
    CHECK_THAT(checkError(std::string("mode: AUTO mesh { devices: ") + devices + " }"), contains("mesh.devices"));
  }
}

TEST_CASE("what mode AUTO does not search is refused", "[job]") {
  const std::string mesh = "mode: AUTO mesh { axes { name: \"dp\" size: 2 } } ";
  CHECK(checkError(mesh) == "no error");
  CHECK(checkError("mode: AUTO") == "train.txtpb: mode AUTO needs a mesh; add mesh { axes { name: \"tp\" size: 4 } }");
  CHECK(checkError(mesh + "deterministic { chunks: 4 }") ==
        "train.txtpb: deterministic computes on a mesh of its own, whose layouts mode AUTO does not search; leave it out");
  CHECK(checkError("search: ILP") ==
        "train.txtpb: search ILP is of mode AUTO, and the mode is STAND_ALONE; set mode: AUTO, or leave it out");
}

TEST_CASE("fields that are not implemented are refused by name", "[job]") {
  CHECK(parseError("seed: 1\nstrategy {\n  mesh { device_ids: 3 }\n}") ==
        "train.txtpb:3:10: field strategy.mesh.device_ids is not implemented yet");
  CHECK(parseError("seed: 1\nrules { match: \"a\" priority: 1 }\nparameter_broadcast: true") ==
        "train.txtpb:3:1: field parameter_broadcast is not implemented yet");
  Job job;
  job.set_gradients_mean(true);
  CHECK(llvm::toString(checkJob(job, "train.txtpb")) == "train.txtpb: field gradients_mean is not implemented yet");
}

TEST_CASE("a uniform range of an init is one in f32", "[job]") {
  CHECK(checkError("init { match: \"a\" uniform { low: 1 high: 1.00000000001 } }") ==
        "train.txtpb: init.uniform of \"a\" needs low < high in f32, has 1 and 1.00000000001");
  CHECK(checkError("init { match: \"a\" fill: nan }") ==
        "train.txtpb: init.fill nan of \"a\" is not in [-3.40282346638529e+38, 3.40282346638529e+38]");
}

// Two messages have a field `mode`, and `schedule` is an enum in one and a message in another.
TEST_CASE("wrong enum values list those of their own enum", "[job]") {
  CHECK(parseError("comm_fusion { all_reduce { mode: BUCKETS } }") ==
        "train.txtpb:1:34: unknown value \"BUCKETS\" of field mode; one of AUTO_BUCKETS, SIZE, INDEX");
  CHECK(parseError("pipeline { stages: 2 schedule: FIFO }") ==
        "train.txtpb:1:32: unknown value \"FIFO\" of field schedule; one of GPIPE, ONE_F_ONE_B, INTERLEAVED, ZERO_BUBBLE");
  CHECK_THAT(parseError("comm_fusion { all_gather {} } # { all_reduce {\nmode: SIZE"),
             contains("unknown value \"SIZE\" of field mode; one of STAND_ALONE, DATA_PARALLEL"));
  CHECK_THAT(parseError("dataset < features: [ { column: \"mode: {\" }, { tensor: 'a' } ] > mode: NONE"), contains("one of STAND_ALONE"));
  CHECK_THAT(parseError("comm_fusion: < reduce_scatter: < mode: NONE"), contains("one of AUTO_BUCKETS"));
  CHECK_THAT(parseError("search: FAST"), contains("one of PROPAGATION, DYNAMIC_PROGRAMMING, ILP"));
}

TEST_CASE("rules carry the line they stand in", "[job]") {
  auto job = parseJobText("mode: SEMI_AUTO\nmesh { axes { name: \"tp\" size: 2 } }\nrules { match: \"a\" layout: \"[{tp}]\" }\n\n"
                          "rules {\n match: \"b\"\n in { slices: [2, 1] } in { slices: [1, 2] } }",
                          "jobs/train.txtpb");
  REQUIRE(static_cast<bool>(job));
  CHECK(job->rules(0).origin() == "train.txtpb:3");
  CHECK(job->rules(1).origin() == "train.txtpb:5");
  CHECK(!checkJob(*job));
  CHECK(parseError("rules { match: \"a\" origin: \"here\" }") ==
        "train.txtpb:1:20: rules.origin is filled in by the compiler; leave it out");
}

TEST_CASE("fixed chunks of a job with rules are checked", "[job]") {
  const std::string rules = "mode: SEMI_AUTO deterministic { chunks: 8 } global_batch: 64 rules { match: \"a\" layout: \"[{dp}]\" } ";
  const std::string mesh = "mesh { axes { name: \"dp\" size: 4 } } ";
  CHECK(checkError(rules + mesh) == "no error");
  for (const auto &[text, message] : std::vector<std::pair<std::string, std::string>>{
           {"mesh { axes { name: \"dp\" size: 3 } }",
            "deterministic.chunks 8 is not divisible by mesh axis \"dp\" of size 3; use a multiple of 3"},
           {"mesh { axes { name: \"dp\" size: 2 } axes { name: \"tp\" size: 2 } }",
            "deterministic gives the one axis of the mesh the size of its chunks, and the mesh has 2 axes; leave it out"},
           {mesh + "rules { match: \"b\" in { slices: 4 } }", "deterministic gives the mesh axis another size, and the rule at "
                                                              "train.txtpb:1 (\"b\") counts slices; leave out one of the two"},
           {mesh + "rules { match: \"b\" layout: \"[{dp:(1)2}]\" }", "(\"b\") counts slices; leave out one of the two"},
           {mesh + "device_configuration: \"two\"",
            "deterministic gives the mesh axis another size than device_configuration; leave out one of the two"},
       }) {
    CHECK_THAT(checkError(rules + text), contains(message));
  }
}

TEST_CASE("optimizer parallelism is checked", "[job]") {
  const std::string good = replaced(kGood, "DATA_PARALLEL", "SEMI_AUTO") + "rules { match: \"input\" layout: \"[{dp}, {}]\" } ";
  CHECK(checkError(good + "optimizer_parallel {}") == "no error");
  CHECK(checkError(good + "optimizer_parallel { level: 3 threshold_kb: 0 shard_size: 2 }") == "no error");
  auto parallel = [&](const std::string &text) { return checkError(good + "optimizer_parallel { " + text + " }"); };
  CHECK_THAT(parallel("level: 0"), contains("optimizer_parallel.level 0 is not in [1, 3]"));
  CHECK_THAT(parallel("level: 4"), contains("optimizer_parallel.level 4 is not in [1, 3]"));
  CHECK_THAT(parallel("threshold_kb: -1"), contains("optimizer_parallel.threshold_kb -1 is not in [0, 2147483647]"));
  CHECK_THAT(parallel("shard_size: -2"), contains("optimizer_parallel.shard_size -2 is not in [-1, 65536]"));
  CHECK(parallel("} rules { match: \"w\" optimizer_parallel: false") == "no error");
  CHECK_THAT(checkError(good + "rules { match: \"w\" optimizer_parallel: false }"),
             contains("(\"w\") chooses parameters for optimizer_parallel, and the job has none; add optimizer_parallel { level: 1 }"));
  for (const char *size : {"0", "1"}) {
    CHECK_THAT(parallel(std::string("shard_size: ") + size),
               contains(std::string("optimizer_parallel.shard_size ") + size +
                        " splits nothing; give -1 for all devices that replicate a parameter"));
  }
  for (const auto &[text, message] : std::vector<std::pair<std::string, std::string>>{
           {"mode: HYBRID mesh { axes { name: \"tp\" size: 2 } } global_batch: 8 loss { softmax_cross_entropy { logits: \"y\" labels: "
            "\"l\" } } "
            "optimizer { "
            "sgd {} learning_rate: 0.1 } dataset { digits {} features { column: \"image\" tensor: \"x\" } features { column: \"label\" "
            "tensor: "
            "\"l\" } } ",
            "optimizer_parallel chooses layouts, which mode HYBRID leaves to the model; leave it out"},
           {replaced(replaced(kGood, "mode: DATA_PARALLEL", ""), "mesh { axes { name: \"dp\" size: 4 } }", ""),
            "optimizer_parallel splits over the devices of a mesh, and the job has none"},
           {"mode: SEMI_AUTO mesh { axes { name: \"dp\" size: 2 } } rules { match: \"x\" layout: \"[{dp}]\" } ",
            "optimizer_parallel shards the state of training, and the job has no loss; leave it out"}}) {
    CHECK_THAT(checkError(text + "optimizer_parallel {}"), contains(message));
  }
}

TEST_CASE("parameter ownership is checked", "[job]") {
  auto with = [](const std::string &optimizer) { return replaced(kGood, "sgd {}", optimizer); };
  for (const char *optimizer : {"adamw {}", "lamb {}"}) {
    CHECK(checkError(with(optimizer) + "optimizer_parallel {}") == "no error");
    CHECK(checkError(replaced(with(optimizer), "mode: DATA_PARALLEL", "") + "optimizer_parallel {}") == "no error");
  }
  for (const auto &[optimizer, name] : std::vector<std::pair<std::string, std::string>>{
           {"sgd {}", "sgd"}, {"momentum { momentum: 0.9 }", "momentum"}, {"adam {}", "adam"}}) {
    CHECK_THAT(
        checkError(with(optimizer) + "optimizer_parallel {}"),
        contains(
            "optimizer_parallel in mode DATA_PARALLEL gives each parameter an owner (parameter ownership), which is for adamw and lamb, "
            "but the optimizer is " +
            name + "; take one of the two, or set mode: SEMI_AUTO, where it is for all"));
  }
  // Nothing is split, so nothing may say how; not even with its default.
  for (const auto &[setting, name] : std::vector<std::pair<std::string, std::string>>{{"level: 1", "level 1"},
                                                                                      {"level: 3", "level 3"},
                                                                                      {"threshold_kb: 64", "threshold_kb 64"},
                                                                                      {"shard_size: -1", "shard_size -1"}}) {
    CHECK_THAT(checkError(with("adamw {}") + "optimizer_parallel { " + setting + " }"),
               contains("optimizer_parallel." + name +
                        " shards parameters, but in mode DATA_PARALLEL each is replicated and has one "
                        "owner (parameter ownership); leave it out, or set mode: SEMI_AUTO"));
  }
  for (const char *value : {"true", "false"}) {
    CHECK_THAT(checkError(with("lamb {}") + "optimizer_parallel {} rules { match: \"w\" optimizer_parallel: " + value + " }"),
               contains(std::string("(\"w\") sets optimizer_parallel: ") + value +
                        ", which shards parameters, but in mode DATA_PARALLEL each parameter is replicated and has one owner"));
  }
}

TEST_CASE("rules are checked", "[job]") {
  const std::string job = replaced(kGood, "DATA_PARALLEL", "SEMI_AUTO");
  CHECK(checkError(job + "rules { match: \"a\" layout: \"[{dp}]\" priority: 2 }") == "no error");
  for (const auto &[text, message] : std::vector<std::pair<std::string, std::string>>{
           {"", "mode SEMI_AUTO needs rules to infer layouts from; add rules { match: \"fc1.weight\" layout: \"[{tp}, {}]\" }"},
           {"rules { layout: \"[{dp}]\" }", "the rule at train.txtpb:8 has no match"},
           {"rules { match: \"a\" }", "the rule at train.txtpb:8 (\"a\") has no content; give it layout: \"[{dp}, {}]\", in and out, a "
                                      "setting of parameters such as weight_decay: 0, pipeline_stage: 1, or recompute: true"},
           {"rules { match: \"a\" layout: \"[]\" out { slices: 2 } }", "(\"a\") has both a layout and slice counts; write two rules"},
           {"rules { match: \"a\" layout: \"[]\" priority: -1 }", "rules.priority -1 of \"a\" is not in [0, 2147483647]"},
           {"rules { match: \"a\" in { slices: 0 } }", "rules.in.slices 0 of \"a\" is not in [1, 65536]"},
       }) {
    CHECK_THAT(checkError(job + text), contains(message));
  }
  CHECK_THAT(checkError("mode: SEMI_AUTO"), contains("mode SEMI_AUTO needs a mesh"));
  CHECK_THAT(checkError("mode: HYBRID"), contains("mode HYBRID needs a mesh"));
  const std::string hybrid = "mode: HYBRID\nmesh { axes { name: \"tp\" size: 2 } }\n";
  CHECK_THAT(checkError(hybrid + "rules { match: \"fc1\" in { slices: [2, 1] } }"),
             contains("counts slices, but in mode HYBRID nothing chooses their axes; give the tensors a layout"));
  CHECK(checkError("mode: SEMI_AUTO\nmesh { axes { name: \"tp\" size: 2 } }\ndevice_configuration: \"two\"") == "no error");
  CHECK_THAT(checkError(hybrid + "device_configuration: \"two\""),
             contains("device_configuration \"two\" gives layouts, which mode HYBRID does not take; set mode: SEMI_AUTO"));
  CHECK_THAT(checkError(hybrid + "strategy { mesh { axes { name: \"tp\" size: 2 } } }"),
             contains("the strategy gives layouts, but in mode HYBRID the model's collectives do; leave it out"));
  CHECK_THAT(checkError(hybrid + "deterministic {}"),
             contains("which the collectives of a model of mode HYBRID know nothing of; leave it out"));
  CHECK_THAT(checkError(kGood + "rules { match: \"a\" layout: \"[]\" }"),
             contains("gives layouts, which mode DATA_PARALLEL does not take from rules; set mode: SEMI_AUTO"));
}

TEST_CASE("settings of parameters by rule are for every mode, and are no layouts", "[job]") {
  const std::string decay = "rules { match: \"*.bias\" weight_decay: 0 }";
  CHECK(checkError(kGood + decay) == "no error");
  CHECK(checkError(replaced(replaced(kGood, "mode: DATA_PARALLEL", ""), "mesh { axes { name: \"dp\" size: 4 } }", "") + decay) ==
        "no error");
  const std::string semi = replaced(kGood, "DATA_PARALLEL", "SEMI_AUTO");
  CHECK_THAT(checkError(semi + decay), contains("mode SEMI_AUTO needs rules to infer layouts from"));
  CHECK(checkError(semi + "rules { match: \"a\" layout: \"[{dp}]\" weight_decay: 0.5 }") == "no error");
  CHECK(checkError(replaced(kGood, "DATA_PARALLEL", "HYBRID") + decay) == "no error");
  CHECK_THAT(checkError(kGood + "rules { match: \"a\" priority: 1 }"), contains("the rule at train.txtpb:8 (\"a\") has no content"));
  CHECK_THAT(checkError(kGood + "rules { match: \"a\" layout: \"[]\" weight_decay: 0 }"),
             contains("gives layouts, which mode DATA_PARALLEL does not take from rules; set mode: SEMI_AUTO"));
  CHECK(checkError(kGood + "rules { match: \"a\" weight_decay: -0.5 }") ==
        "train.txtpb: rules.weight_decay -0.5 of \"a\" is not in [0, 3.40282346638529e+38]");
  CHECK_THAT(
      checkError("global_batch: 8\n" + decay),
      contains("the rule at train.txtpb:2 (\"*.bias\") sets weight_decay, which is the optimizer's, but the job has none; leave it out"));
}

TEST_CASE("values are checked", "[job]") {
  struct Row {
    const char *from, *to, *message;
  };
  std::vector<Row> rows = {
      {"size: 4", "size: 0", "mesh.axes.size 0 of \"dp\" is not in [1, 2147483647]"},
      {" size: 4", "", "mesh axis \"dp\" has no size"},
      {"\"dp\"", "\"d p\"", "mesh axis name \"d p\" is not a letter followed by"},
      {"axes { name: \"dp\" size: 4 }", "axes { name: \"dp\" size: 2 } axes { name: \"dp\" size: 2 }", "mesh axis \"dp\" is there twice"},
      {"size: 4 }", "size: 65536 } axes { name: \"tp\" size: 2147483647 }",
       "the mesh has 140737488289792 devices up to axis \"tp\" of size 2147483647 but at most 65536 are supported"},
      {"mesh { axes { name: \"dp\" size: 4 } }", "mesh { axes { name: \"dp\" size: 4 } device_ids: [1, 0] }",
       "mesh.device_ids has 2 ranks but the mesh has 4 devices; give the rank of each, row major"},
      {"mesh { axes { name: \"dp\" size: 4 } }", "mesh { axes { name: \"dp\" size: 4 } device_ids: [1, 0, 4, 2] }",
       "mesh.device_ids has rank 4 at position 2 but the ranks of 4 devices are 0 to 3"},
      {"mesh { axes { name: \"dp\" size: 4 } }", "mesh { axes { name: \"dp\" size: 4 } device_ids: [1, 0, 3, 1] }",
       "mesh.device_ids has rank 1 at positions 0 and 3; a rank plays one device"},
      {"global_batch: 256", "global_batch: 256 machine { ranks_per_host: 0 }", "machine.ranks_per_host 0 is not in [1, 2147483647]"},
      {"global_batch: 256", "global_batch: 256 machine { inter_host { latency_us: -1 } }",
       "machine.inter_host.latency_us -1 is not in [0, 1000000]"},
      {"global_batch: 256", "global_batch: 256 machine { intra_host { bandwidth_gb_per_s: 0 } }",
       "machine.intra_host.bandwidth_gb_per_s 0 is not in [0.001, 1000000]"},
      {"global_batch: 256", "global_batch: 256 machine { device { gflop_per_s: 0 } }",
       "machine.device.gflop_per_s 0 is not in [0.001, 1000000000]"},
      {"global_batch: 256", "global_batch: 256 machine { device { launch_us: nan } }",
       "machine.device.launch_us nan is not in [0, 1000000]"},
      {"global_batch: 256", "global_batch: 256 machine { device { products { from: 0 gflop_per_s: 3 } } }",
       "machine.device.products.from 0 is not in [1, 2147483647]"},
      {"global_batch: 256", "global_batch: 256 machine { device { convolutions { from: 1 gflop_per_s: 3 narrow_gflop_per_s: -1 } } }",
       "machine.device.convolutions.narrow_gflop_per_s -1 is not in [0.001, 1000000000]"},
      {"global_batch: 256", "global_batch: 256 machine { device { products { gflop_per_s: 3 } } }",
       "entry 1 of machine.device.products has no from; write { from: 64 gflop_per_s: 80 }"},
      {"global_batch: 256", "global_batch: 256 machine { device { convolutions { from: 1 gflop_per_s: 3 } convolutions { from: 8 } } }",
       "entry 2 of machine.device.convolutions has no gflop_per_s; write { from: 64 gflop_per_s: 80 }"},
      {"global_batch: 256",
       "global_batch: 256 machine { device { attentions { from: 9 gflop_per_s: 3 } attentions { from: 8 gflop_per_s: 4 } } }",
       "machine.device.attentions has from 8 after 9; the sizes have to grow"},
      {"global_batch: 256",
       "global_batch: 256 machine { device { products { from: 8 gflop_per_s: 3 } products { from: 8 gflop_per_s: 4 } } }",
       "machine.device.products has from 8 after 8; the sizes have to grow"},
      {"global_batch: 256", "global_batch: 256 machine { inter_host { collectives { latency_us: 1 } } }",
       "machine.inter_host.collectives has an entry without a kind; write { kind: ALL_GATHER bandwidth_gb_per_s: 10 }"},
      {"global_batch: 256", "global_batch: 256 machine { intra_host { collectives { kind: HALO } } }",
       "machine.intra_host.collectives lacks HALO; give it latency_us or bandwidth_gb_per_s, or leave it out"},
      {"global_batch: 256",
       "global_batch: 256 machine { intra_host { collectives { kind: HALO latency_us: 1 } collectives { kind: HALO latency_us: 2 } } }",
       "machine.intra_host.collectives has HALO twice; leave out one"},
      {"global_batch: 256", "global_batch: 256 machine { hosts_per_pod: 0 }", "machine.hosts_per_pod 0 is not in [1, 2147483647]"},
      {"global_batch: 256", "global_batch: 256 machine { ranks_per_host: 8 hosts_per_pod: 4 inter_pod {} uplinks_per_pod: 0 }",
       "machine.uplinks_per_pod 0 is not in [1, 2147483647]"},
      {"global_batch: 256", "global_batch: 256 machine { ranks_per_host: 8 hosts_per_pod: 4 }",
       "machine.hosts_per_pod is 4, but there is no machine.inter_pod; add inter_pod { latency_us: 14 bandwidth_gb_per_s: 48 }"},
      {"global_batch: 256", "global_batch: 256 machine { hosts_per_pod: 4 inter_pod { latency_us: 14 } }",
       "machine.hosts_per_pod is 4, but all ranks are on one host; add ranks_per_host: 8"},
      {"global_batch: 256", "global_batch: 256 machine { ranks_per_host: 8 inter_pod { latency_us: 14 } }",
       "machine.inter_pod is of pods, but there is no machine.hosts_per_pod; add hosts_per_pod: 32, or leave it out"},
      {"global_batch: 256", "global_batch: 256 machine { ranks_per_host: 8 uplinks_per_pod: 14 }",
       "machine.uplinks_per_pod is of pods, but there is no machine.hosts_per_pod; add hosts_per_pod: 32, or leave it out"},
      {"global_batch: 256", "global_batch: 256 machine { ranks_per_host: 8 hosts_per_pod: 4 inter_pod { collectives { latency_us: 1 } } }",
       "machine.inter_pod.collectives has an entry without a kind; write { kind: ALL_GATHER bandwidth_gb_per_s: 10 }"},
      {"global_batch: 256", "global_batch: 256 machine { adapters_per_host: 8 rails: true }",
       "machine.rails is true, but there is no machine.ranks_per_host; add ranks_per_host: 8"},
      {"global_batch: 256", "global_batch: 256 machine { ranks_per_host: 8 rails: true }",
       "machine.rails is true, but there is no machine.adapters_per_host; add adapters_per_host: 8"},
      {"global_batch: 256", "global_batch: 256 machine { ranks_per_host: 8 adapters_per_host: 3 rails: true }",
       "machine.rails is true, but machine.ranks_per_host 8 is not divisible by machine.adapters_per_host 3; each adapter is of equally "
       "many "
       "ranks"},
      {"global_batch: 256", "global_batch: 256 machine { intra_host { collectives { kind: PERMUTE bandwidth_gb_per_s: 0 } } }",
       "machine.intra_host.collectives.bandwidth_gb_per_s 0 is not in [0.001, 1000000]"},
      {"global_batch: 256", "global_batch: 256 seed: -1", "train.txtpb: seed -1 is not in [0, 9.22337203685478e+18]"},
      {"mesh { axes { name: \"dp\" size: 4 } }", "", "mode DATA_PARALLEL needs a mesh"},
      {"DATA_PARALLEL", "STAND_ALONE", "mode STAND_ALONE runs on 1 device but the mesh has 4"},
      {"256", "-4", "global_batch -4 is not in [1, 2147483648]"},
      {"global_batch: 256", "", "a loss needs global_batch"},
      {"global_batch: 256", "global_batch: 256 deterministic { chunks: 6 }", "deterministic.chunks 6 is not divisible by mesh axis \"dp\""},
      {"global_batch: 256", "global_batch: 252 deterministic { chunks: 8 }", "global_batch 252 is not divisible by deterministic.chunks 8"},
      {"global_batch: 256", "global_batch: 256 deterministic { chunks: 0 }", "deterministic.chunks 0 is not in [1, 65536]"},
      {"softmax_cross_entropy { logits: \"logits\" labels: \"labels\" }", "", "loss names no kind; one of softmax_cross_entropy"},
      {"logits: \"logits\"", "", "field loss.softmax_cross_entropy.logits is not given"},
      {" labels: \"labels\"", "", "field loss.softmax_cross_entropy.labels is not given"},
      {"softmax_cross_entropy { logits: \"logits\" labels: \"labels\" }", "mean_squared_error { prediction: \"y\" }",
       "field loss.mean_squared_error.target is not given"},
      {"softmax_cross_entropy { logits: \"logits\" labels: \"labels\" }", "negative_log_likelihood { labels: \"labels\" }",
       "field loss.negative_log_likelihood.log_probabilities is not given"},
      {"softmax_cross_entropy { logits: \"logits\" labels: \"labels\" }", "model_output {}", "field loss.model_output.tensor is not given"},
      {"optimizer { sgd {} learning_rate: 0.01 }", "", "a job with a loss needs an optimizer"},
      {"sgd {}", "", "optimizer names no kind; one of sgd, momentum, adam, adamw, lamb"},
      {"learning_rate: 0.01", "", "field optimizer.learning_rate is not given"},
      {"learning_rate: 0.01", "learning_rate: 0", "optimizer.learning_rate 0 is not in (0, 3.40282346638529e+38]"},
      {"sgd {}", "sgd { weight_decay: -1 }", "optimizer.sgd.weight_decay -1 is not in [0, 3.40282346638529e+38]"},
      {"sgd {}", "momentum { momentum: 1 }", "optimizer.momentum.momentum 1 is not in [0, 1)"},
      {"digits {}", "", "dataset names no source; one of cifar10, csv, digits, idx, images, npy, npz, regression, text, tokens"},
      {"digits {}", "digits { train_samples: 100 }", "dataset.digits.train_samples 100 is less than global_batch 256"},
      {"digits {}", "digits { eval_samples: 0 }", "dataset.digits.eval_samples 0 is not in [1, 2147483648]"},
      {"digits {}", "text {}", "field dataset.text.sequence_length is not given"},
      {"digits {}", "text { sequence_length: 0 }", "dataset.text.sequence_length 0 is not in [1, 16777216]"},
      {"digits {}", "text { sequence_length: 8 train_samples: 100 }", "dataset.text.train_samples 100 is less than global_batch 256"},
      {"digits {}", "text { sequence_length: 8 eval_samples: 9 }", "dataset.text.eval_samples 9 is less than global_batch 256"},
      {"digits {}", "text { sequence_length: 8 }",
       "the dataset has no column \"image\"; its columns are \"tokens\", \"targets\", \"positions\", \"segments\", \"mask\""},
      {"digits {}", "images { height: 8 }", "field dataset.images.width is not given"},
      {"digits {}", "images { height: 8 width: 9 short_side: 8 }", "dataset.images.short_side 8 is less than 9"},
      {"digits {}", "images { height: 8 width: 8 least_area: 0 }", "dataset.images.least_area 0 is not in (0, 1]"},
      {"digits {}", "tokens {}", "field dataset.tokens.sequence_length is not given"},
      {"digits {}", "tokens { sequence_length: 8 eval: \"a\" eval_share: 0.5 }",
       "which both make the eval split; leave out one of the two"},
      {"digits {}", "tokens { sequence_length: 8 eval_share: 1 }", "dataset.tokens.eval_share 1 is not in [0, 1)"},
      {"digits {}", "tokens { sequence_length: 8 documents {} }", "field dataset.tokens.documents.boundary is not given"},
      {"digits {}", "tokens { sequence_length: 8 documents { boundary: -1 } }",
       "dataset.tokens.documents.boundary -1 is not in [0, 4294967295]"},
      {"digits {}", "tokens { sequence_length: 8 train: \"../x\" }", "dataset.tokens names the files \"../x\"; give a path below --data"},
      {"digits {}", "tokens { sequence_length: 8 eval: \"/x\" }", "dataset.tokens names the files \"/x\"; give a path below --data"},
      {"digits {}", "digits {} repeat: 0", "dataset.repeat 0 is not in [1, 1099511627776]"},
      {"column: \"image\"", "column: \"picture\"", "the dataset has no column \"picture\"; its columns are \"image\", \"label\""},
      {"column: \"image\" ", "", "field dataset.features.column is not given"},
      {" tensor: \"input\"", "", "feature \"image\" of the dataset has no tensor"},
      {"tensor: \"input\"", "tensor: \"labels\"", "two features of the dataset feed tensor \"labels\""},
      {"tensor: \"input\"", "tensor: \"input\" transforms {}", "a transform of feature \"image\" names no kind"},
      {"tensor: \"input\"", "tensor: \"input\" transforms { normalize { std: 0 } }",
       "dataset.features.transforms.normalize.std 0 of \"image\" is not in (0, 3.40282346638529e+38]"},
      {"digits {}", "cifar10 {} features { column: \"fine_label\" tensor: \"x\" }", "its columns are \"image\", \"label\""},
      {"tensor: \"input\"", "tensor: \"input\" transforms { normalize { mean: [1, 2, 3] std: [1, 2] } }",
       "a transform of feature \"image\" normalizes with 3 means and 2 stds; give one number, or one a channel, of each"},
      {"tensor: \"input\"", "tensor: \"input\" transforms { resize { height: 4 } }",
       "a transform of feature \"image\" resizes without height or width; give both"},
      {"tensor: \"input\"", "tensor: \"input\" transforms { type_cast {} }", "casts to no type; give type_cast a type"},
      {"tensor: \"input\"", "tensor: \"input\" transforms { one_hot {} }", "spreads labels over no classes; give one_hot its classes"},
      {"tensor: \"input\"", "tensor: \"input\" transforms { random_crop { height: 0 } }",
       "dataset.features.transforms.random_crop.height 0 of \"image\" is not in [1, 65536]"},
      {"tensor: \"input\"", "tensor: \"input\" transforms { random_horizontal_flip { probability: 1.5 } }",
       "dataset.features.transforms.random_horizontal_flip.probability 1.5 of \"image\" is not in [0, 1]"},
      {"features { column: \"label\" tensor: \"labels\" }", "", "the loss reads \"labels\" but no feature of the dataset feeds it"},
  };
  for (const Row &row : rows) {
    INFO(row.message);
    CHECK_THAT(checkError(replaced(kGood, row.from, row.to)), contains(row.message));
  }
}

TEST_CASE("optimizers, schedules and clipping are checked", "[job]") {
  auto withOptimizer = [](const std::string &text) { return replaced(kGood, "sgd {} learning_rate: 0.01", text); };
  auto withSchedule = [&](const std::string &text) { return withOptimizer("sgd {} learning_rate: 0.01 schedule { " + text + " }"); };
  for (const char *text : {"adam {} learning_rate: 1", "adam { beta1: 0 beta2: 0 epsilon: 1e-12 weight_decay: 0.5 } learning_rate: 1",
                           "adamw {} learning_rate: 1", "lamb { weight_decay: 0.01 } learning_rate: 1 clip_global_norm: 0.5"}) {
    CHECK(checkError(withOptimizer(text)) == "no error");
  }
  for (const char *text : {"constant {}", "constant {} warmup_steps: 3", "warmup_steps: 3", "step { size: 10 }",
                           "step { size: 1 gamma: 2 } warmup_steps: 5", "piecewise { boundaries: [5, 7] values: [0.5, 0] } warmup_steps: 4",
                           "cosine { decay_steps: 5 } warmup_steps: 4", "polynomial { decay_steps: 5 end_learning_rate: 1 power: 0.5 }"}) {
    CHECK(checkError(withSchedule(text)) == "no error");
  }
  for (const auto &[text, message] : std::vector<std::pair<std::string, std::string>>{
           {"adam { beta1: 1 }", "optimizer.adam.beta1 1 is not in [0, 1)"},
           {"adamw { beta2: 0.9999999999 }", "optimizer.adamw.beta2 0.9999999999, in f32 1, is not in [0, 1)"},
           {"lamb { epsilon: 0 }", "optimizer.lamb.epsilon 0 is not in (0, 3.40282346638529e+38]"},
           {"sgd {} clip_global_norm: 0", "optimizer.clip_global_norm 0 is not in (0, 3.40282346638529e+38]"},
       }) {
    CHECK(checkError(withOptimizer(text + " learning_rate: 1")) == "train.txtpb: " + message);
  }
  for (const auto &[text, message] : std::vector<std::pair<std::string, std::string>>{
           {"", "optimizer.schedule names no kind and no warmup_steps; one of constant, step, piecewise, cosine, polynomial"},
           {"warmup_steps: 0", "optimizer.schedule.warmup_steps 0 is not in [1, 1099511627776]"},
           {"constant {} warmup_steps: 0", "optimizer.schedule.warmup_steps 0 is not in [1, 1099511627776]"},
           {"step {}", "field optimizer.schedule.step.size is not given"},
           {"step { size: 3 gamma: 0 }", "optimizer.schedule.step.gamma 0 is not in (0, 3.40282346638529e+38]"},
           {"piecewise {}", "field optimizer.schedule.piecewise.boundaries is not given"},
           {"piecewise { boundaries: [1, 2] values: 0.5 }",
            "optimizer.schedule.piecewise has 2 boundaries and 1 values; give the learning rate from each boundary on"},
           {"piecewise { boundaries: [4, 4] values: [0.5, 0.25] }",
            "optimizer.schedule.piecewise.boundaries has 4 after 4; they have to rise"},
           {"piecewise { boundaries: 4 values: 0.5 } warmup_steps: 4",
            "optimizer.schedule.piecewise.boundaries begins at step 4, within the 4 warmup_steps; begin after them"},
           {"piecewise { boundaries: [1, 2] values: [0.5, -1] }",
            "optimizer.schedule.piecewise.values -1 is not in [0, 3.40282346638529e+38]"},
           {"cosine {}", "field optimizer.schedule.cosine.decay_steps is not given"},
           {"cosine { decay_steps: 100 } warmup_steps: 100",
            "optimizer.schedule.cosine.decay_steps 100 is not above warmup_steps 100; the decay goes from the end of the warm-up to step "
            "decay_steps"},
           {"polynomial { end_learning_rate: 0.1 }", "field optimizer.schedule.polynomial.decay_steps is not given"},
           {"polynomial { decay_steps: 7 } warmup_steps: 9",
            "optimizer.schedule.polynomial.decay_steps 7 is not above warmup_steps 9; the decay goes from the end of the warm-up to step "
            "decay_steps"},
       }) {
    CHECK(checkError(withSchedule(text)) == "train.txtpb: " + message);
  }
}

TEST_CASE("the file of an order lies below the folder of the job", "[job]") {
  llvm::SmallString<128> made, folder;
  REQUIRE(!llvm::sys::fs::createUniqueDirectory("orders", made));
  REQUIRE(!llvm::sys::fs::real_path(made, folder));
  REQUIRE(!llvm::sys::fs::create_directories(folder + "/jobs/deep"));
  auto write = [&](const std::string &name, const std::string &text) {
    std::error_code error;
    llvm::raw_fd_ostream((folder + "/" + name).str(), error) << text;
    REQUIRE(!error);
  };
  write("jobs/order.txt", "");
  write("jobs/deep/order.txt", "");
  write("outside.txt", "secret");
  REQUIRE(!llvm::sys::fs::create_link("../outside.txt", folder + "/jobs/out.txt"));
  REQUIRE(!llvm::sys::fs::create_link("deep/order.txt", folder + "/jobs/in.txt"));
  auto order = [&](const std::string &given) {
    write("jobs/train.txtpb", "pipeline { order: \"" + given + "\" }");
    auto job = parseJob((folder + "/jobs/train.txtpb").str());
    std::string text = job ? job->pipeline().order() : llvm::toString(job.takeError());
    for (size_t at; (at = text.find(folder.str().str())) != std::string::npos;) {
      text.replace(at, folder.size(), "/o");
    }
    return text;
  };
  CHECK(order("order.txt") == "/o/jobs/order.txt");
  CHECK(order("deep/order.txt") == "/o/jobs/deep/order.txt");
  CHECK(order("in.txt") == "/o/jobs/deep/order.txt");
  CHECK(order("none.txt") == "/o/jobs/none.txt: cannot be read: no such file or directory");
  const std::string end = " is not below the job's folder; copy the file there, and name it from there";
  CHECK(order("../outside.txt") == "/o/jobs/train.txtpb: pipeline.order \"../outside.txt\"" + end);
  CHECK(order("deep/../../outside.txt") == "/o/jobs/train.txtpb: pipeline.order \"deep/../../outside.txt\"" + end);
  CHECK(order("/dev/zero") == "/o/jobs/train.txtpb: pipeline.order \"/dev/zero\"" + end);
  CHECK(order("out.txt") == "/o/jobs/train.txtpb: pipeline.order \"out.txt\" is a link to /o/outside.txt, which is not below the job's "
                            "folder; copy the file there");
  REQUIRE(!llvm::sys::fs::remove_directories(folder));
}

TEST_CASE("pipelines are checked", "[job]") {
  auto error = [](const std::string &text) { return checkError(kGood + text); };
  CHECK(error("pipeline { stages: 2 micro_batches: 8 }") == "no error");
  CHECK(error("pipeline { stages: 2 micro_batches: 8 } rules { match: \"fc2\" pipeline_stage: 1 }") == "no error");
  CHECK(error("pipeline { stages: 1 micro_batches: 8 }") ==
        "train.txtpb: pipeline.stages 1 cuts nothing; give at least 2, or leave the pipeline out");
  CHECK(error("pipeline { stages: 4 micro_batches: 1 }") ==
        "train.txtpb: pipeline.micro_batches 1 is less than the 4 stages, so some would never work; give at least 4");
  CHECK(error("pipeline { stages: 4 }") ==
        "train.txtpb: pipeline needs stages and micro_batches, for instance pipeline { stages: 2 micro_batches: 8 }");
  CHECK(error("pipeline { stages: 4 micro_batches: 3 }") ==
        "train.txtpb: pipeline.micro_batches 3 is less than the 4 stages, so some would never work; give at least 4");
  CHECK(error("pipeline { stages: 2 micro_batches: 3 }") ==
        "train.txtpb: pipeline.micro_batches 3 does not divide global_batch 256; all micro-batches have one size, use a multiple of 3");
  CHECK(error("pipeline { stages: 2 micro_batches: 4 } accumulate: 2") ==
        "train.txtpb: accumulate 2 and pipeline.micro_batches 4 both set the number of parts of a step; leave out accumulate");
  CHECK(error("pipeline { stages: 2 micro_batches: 4 } deterministic { chunks: 8 }") ==
        "train.txtpb: deterministic makes each rank simulate several devices, and a rank of a pipeline simulates one device of one stage; "
        "leave out "
        "one of "
        "the two");
  CHECK(checkError("global_batch: 8 pipeline { stages: 2 micro_batches: 4 }") ==
        "train.txtpb: pipeline is for training, and the job has no loss; leave it out");
  CHECK(error("rules { match: \"fc2\" pipeline_stage: 1 }") ==
        "train.txtpb: the rule at train.txtpb:8 (\"fc2\") sets pipeline_stage 1, and the job has no pipeline; add pipeline { stages: 2 "
        "micro_batches: 2 }");
  CHECK(error("pipeline { stages: 2 micro_batches: 8 chunks: 2 schedule: INTERLEAVED }") == "no error");
  CHECK(error("pipeline { stages: 2 micro_batches: 8 chunks: 2 order: \"order.txt\" }") == "no error");
  CHECK(error("pipeline { stages: 2 micro_batches: 8 schedule: INTERLEAVED }") ==
        "train.txtpb: pipeline.schedule INTERLEAVED has each stage work at several chunks of the model in turn, and pipeline.chunks is 1; "
        "give "
        "at least 2");
  CHECK(
      error("pipeline { stages: 2 micro_batches: 8 chunks: 3 }") ==
      "train.txtpb: pipeline.chunks 3 is for schedule INTERLEAVED or an order of your own, and the schedule is ONE_F_ONE_B; set schedule: "
      "INTERLEAVED, or leave out chunks");
  CHECK(error("pipeline { stages: 2 micro_batches: 8 chunks: 0 }") == "train.txtpb: pipeline.chunks 0 is not in [1, 65536]");
  CHECK(error("pipeline { stages: 2 micro_batches: 8 order: \"order.txt\" schedule: GPIPE }") ==
        "train.txtpb: pipeline.order \"order.txt\" and pipeline.schedule GPIPE both set the order of the stages; leave out one of the "
        "two");
  CHECK(error("pipeline { stages: 2 micro_batches: 8 order: \"\" }") ==
        "train.txtpb: pipeline.order \"\" names no file; name one, or leave it out");
  CHECK(error("rules { match: \"fc2\" pipeline_stage: -1 }") == "train.txtpb: rules.pipeline_stage -1 of \"fc2\" is not in [0, 65536]");
}

TEST_CASE("micro-batches are checked", "[job]") {
  CHECK(checkError(kGood + "accumulate: 8") == "no error");
  CHECK(checkError(kGood + "accumulate: 8 deterministic { chunks: 32 }") == "no error");
  CHECK(checkError(kGood + "accumulate: 0") == "train.txtpb: accumulate 0 is not in [1, 2147483648]");
  CHECK(checkError(kGood + "accumulate: 3") ==
        "train.txtpb: accumulate 3 does not divide global_batch 256; all micro-batches have one size, use a multiple of 3");
  CHECK(checkError("global_batch: 8 accumulate: 2") ==
        "train.txtpb: accumulate 2 is for training steps but the job has no loss; leave it out");
  CHECK(checkError(kGood + "accumulate: 16 deterministic { chunks: 32 }") ==
        "train.txtpb: global_batch 256 / accumulate 16 = 16 is not divisible by deterministic.chunks 32; use a multiple of 32");
  Job job = llvm::cantFail(parseJobText(kGood + "accumulate: 16", "job"));
  CHECK(programBatch(job) == 16);
  job.clear_accumulate();
  CHECK(programBatch(job) == 256);
}

TEST_CASE("init and counters are checked", "[job]") {
  CHECK_THAT(checkError("init { fill: 1 }"), contains("an init has no match"));
  CHECK_THAT(checkError("init { match: \"a\" }"), contains("the init of \"a\" names no kind"));
  CHECK_THAT(checkError("init { match: \"a\" uniform { low: 2 high: 1 } }"), contains("needs low < high in f32, has 2 and 1"));
  CHECK_THAT(checkError("init { match: \"a\" normal {} }"), contains("init.normal of \"a\" has no std"));
  CHECK_THAT(checkError("init { match: \"a\" kaiming_uniform { fan_in_dim: -1 } }"),
             contains("init.kaiming_uniform.fan_in_dim -1 of \"a\" is not in [0, 2147483647]"));
  CHECK_THAT(checkError("epochs: 0"), contains("epochs 0 is not in [1, 1099511627776]"));
  CHECK_THAT(checkError("log_every: 0"), contains("log_every 0 is not in [1, 1099511627776]"));
  CHECK_THAT(checkError("optimizer { sgd {} learning_rate: 1 }"), contains("the job has an optimizer but no loss"));
  CHECK_THAT(checkError("mesh { axes { name: \"a\" size: 2 } axes { name: \"b\" size: 2 } }"), contains("a mesh of 2 axes needs a mode"));
}

TEST_CASE("the mode follows from the mesh", "[job]") {
  Job job;
  CHECK(effectiveMode(job) == STAND_ALONE);
  CHECK(numDevices(job) == 1);
  CHECK(batchAxes(job).empty());
  auto mesh = parseMesh("dp=4, tp = 2");
  REQUIRE(bool(mesh));
  *job.mutable_mesh() = *mesh;
  CHECK(numDevices(job) == 8);
  job.set_mode(DATA_PARALLEL);
  CHECK(batchAxes(job) == std::vector<std::string>{"dp", "tp"});
  for (const char *bad : {"", "dp", "dp=", "=4", "dp=four", "dp=4,,tp=2"}) {
    auto none = parseMesh(bad);
    REQUIRE(!none);
    CHECK_THAT(llvm::toString(none.takeError()),
               contains("is not an axis and its size; write it as dp=4 or dp=4,tp=2, or as a number of devices"));
  }
  for (const char *large : {"2147483648", "99999999999999999999999"}) {
    auto none = parseMesh("tp=2,dp=" + std::string(large));
    REQUIRE(!none);
    CHECK(llvm::toString(none.takeError()) == "mesh \"tp=2,dp=" + std::string(large) + "\": axis \"dp\" has size " + large +
                                                  ", which is more than a mesh may have; its sizes multiply to at most 65536 devices");
  }
  // Ten axes of the largest size multiply to more than 64 bits hold.
  std::string text;
  for (char axis = 'a'; axis < 'k'; ++axis) {
    text += std::string(text.empty() ? "" : ",") + axis + "=2147483647";
  }
  *job.mutable_mesh() = llvm::cantFail(parseMesh(text));
  CHECK_THAT(llvm::toString(checkJob(job)), contains("the mesh has 2147483647 devices up to axis \"a\""));
}

TEST_CASE("the labels follow from the loss", "[job]") {
  CHECK(labelsName(Job()) == "");
  Job job = llvm::cantFail(parseJobText(kGood, "job"));
  CHECK(labelsName(job) == "labels");
  job.mutable_loss()->mutable_mean_squared_error()->set_target("t");
  CHECK(labelsName(job) == "t");
  job.mutable_loss()->mutable_model_output()->set_tensor("loss");
  CHECK(labelsName(job) == "");
}

} // namespace ashlar::test::job_test
