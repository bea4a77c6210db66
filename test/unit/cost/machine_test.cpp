// SPDX-License-Identifier: Apache-2.0
//
// The machine model: which axes of a mesh leave a host, and what a job may say.

#include "compiler/cost/machine.h"

#include <catch2/catch.hpp>

#include <set>

namespace ashlar::test::machine_test {
namespace {

// Returns 'h' for each axis that stays within a host, 'n' for one that goes over the network.
std::string classes(int64_t ranksPerHost, llvm::ArrayRef<int64_t> sizes, llvm::ArrayRef<int64_t> ids = {}, int64_t perProcess = 1) {
  cost::Machine machine{ranksPerHost, 1, {1, 1000}, {2, 1000}};
  mlir::MLIRContext context;
  context.loadDialect<dist::DistDialect>();
  std::string text;
  for (const analysis::Link &link : analysis::hostLinks(cost::hostsOf(&context, machine, perProcess), sizes, ids)) {
    text += link.latencyNs == 1 ? 'h' : 'n';
  }
  return text;
}

cost::Machine preset(job::Machine::Preset name) {
  job::Job job;
  job.mutable_machine()->set_preset(name);
  return cost::machineOf(job, exec::Target::Cuda);
}

} // namespace

TEST_CASE("cost: an axis whose groups leave a host goes over the network", "[cost]") {
  CHECK(classes(4, {2, 4}) == "nh");
  CHECK(classes(8, {2, 4}) == "hh");
  CHECK(classes(2, {2, 4}) == "nn");
  CHECK(classes(8, {4, 8, 2}) == "nnh");
  CHECK(classes(4, {3, 2}) == "nh"); // groups of the minor axis: 0 1, 2 3, 4 5
  CHECK(classes(4, {2, 3}) == "nn"); // ranks 3 and 4 are on two hosts
  CHECK(classes(2, {2, 1, 2}) == "nhh");
  CHECK(classes(1, {}).empty());
}

TEST_CASE("cost: hosts are those of the ranks, not of the mesh points", "[cost]") {
  // The ranks of a column share a host: now the major axis is the fast one.
  CHECK(classes(2, {2, 2}, {0, 2, 1, 3}) == "hn");
  // Two devices a process: 8 devices on 2 hosts of 2 ranks.
  CHECK(classes(2, {8}, {}, /*perProcess=*/2) == "n");
  CHECK(classes(4, {8}, {}, /*perProcess=*/2) == "h");
}

TEST_CASE("cost: a host sends what is reduced once, whatever its ranks, through the adapters that they share", "[cost]") {
  cost::Machine machine{8, 8, {1, 1000}, {2, 100}};
  mlir::MLIRContext context;
  context.loadDialect<dist::DistDialect>();
  auto rates = [&](llvm::ArrayRef<int64_t> sizes, CollectiveKind kind, llvm::ArrayRef<int64_t> ids = {}, int64_t devicesPerRank = 1) {
    std::vector<int64_t> found;
    for (const analysis::Link &link : analysis::hostLinks(cost::hostsOf(&context, machine, devicesPerRank), sizes, ids)) {
      found.push_back(link.of(kind).bytesPerUs);
    }
    return found;
  };
  using Rates = std::vector<int64_t>;
  // Bytes of a device, 2 * 15/16 of a tensor, in the time of the host's, 2 * 1/2 of it through 8 adapters; no faster than within a host.
  CHECK(rates({16}, CollectiveKind::AllReduce) == Rates{1000});
  CHECK(rates({64}, CollectiveKind::AllReduce) == Rates{900}); // 2 * 63/64, 2 * 7/8
  CHECK(rates({64}, CollectiveKind::ReduceScatter) == Rates{900});
  CHECK(rates({64}, CollectiveKind::AllGather) == Rates{900});
  CHECK(rates({64}, CollectiveKind::AllToAll) == Rates{112}); // 56 of 63 go to other hosts
  CHECK(rates({64}, CollectiveKind::Permute) == Rates{100});
  CHECK(rates({64}, CollectiveKind::Halo) == Rates{100});
  CHECK(rates({16}, CollectiveKind::Broadcast) == Rates{800});
  CHECK(rates({64}, CollectiveKind::Broadcast) == Rates{457}); // 2 * 7/8 of the tensor
  CHECK(rates({8, 2}, CollectiveKind::AllReduce) == Rates{700, 1000});
  CHECK(rates({2, 8}, CollectiveKind::AllReduce) == Rates{100, 1000});
  CHECK(rates({2, 2}, CollectiveKind::AllReduce, {0, 8, 1, 9}) == Rates{1000, 100}); // ranks 0 and 1; 0 and 8
  CHECK(rates({128}, CollectiveKind::AllReduce, {}, /*devicesPerRank=*/2) == Rates{907});
  machine.adaptersPerHost = 2; // of which four ranks share one
  CHECK(rates({16}, CollectiveKind::AllReduce) == Rates{375});
  CHECK(rates({8, 2}, CollectiveKind::AllReduce) == Rates{175, 1000});
  CHECK(rates({2, 8}, CollectiveKind::AllReduce) == Rates{25, 1000});
  CHECK(rates({16}, CollectiveKind::Permute) == Rates{25});
  CHECK(rates({16}, CollectiveKind::AllToAll) == Rates{46}); // 8 of 15
  machine.adaptersPerHost = 16;                              // a message goes by one
  CHECK(rates({16}, CollectiveKind::Permute) == Rates{100});
}

// Hosts of 2 ranks and adapters, pods of 2 hosts; an adapter and an uplink send 1000 bytes a microsecond.
TEST_CASE("cost: a pod sends what is reduced once, through the uplinks that its ranks share", "[cost][pods]") {
  cost::Machine machine{2, 2, {1, 10000}, {2, 1000}};
  machine.hostsPerPod = 2;
  machine.uplinksPerPod = 1;
  machine.interPod = {5, 1000};
  mlir::MLIRContext context;
  context.loadDialect<dist::DistDialect>();
  auto links = [&](llvm::ArrayRef<int64_t> sizes) {
    return analysis::hostLinks(cost::hostsOf(&context, machine, /*devicesPerRank=*/1), sizes, {});
  };
  auto rates = [&](llvm::ArrayRef<int64_t> sizes, CollectiveKind kind) {
    std::vector<int64_t> found;
    for (const analysis::Link &link : links(sizes)) {
      found.push_back(link.of(kind).bytesPerUs);
    }
    return found;
  };
  using Rates = std::vector<int64_t>;
  // Eight ranks in two pods. Of a sum a device sends 2 * 7/8, a host of four 2 * 3/4 by two adapters, a pod of two 2 * 1/2 by its uplink.
  CHECK(rates({8}, CollectiveKind::AllReduce) == Rates{1750});
  CHECK(rates({8}, CollectiveKind::ReduceScatter) == Rates{1750});
  CHECK(rates({8}, CollectiveKind::AllGather) == Rates{1750}); // 7 pieces, against 4 pieces of a pod
  CHECK(rates({8}, CollectiveKind::AllToAll) == Rates{437});   // 7/8, against 4 ranks' 4/8
  CHECK(rates({8}, CollectiveKind::Permute) == Rates{250});    // a message of each of 4 ranks
  // Two groups of four, with a rank of each on each host.
  CHECK(rates({4, 2}, CollectiveKind::AllReduce) == Rates{750, 10000});
  // Between pods, between hosts of a pod, within a host.
  CHECK(rates({2, 2, 2}, CollectiveKind::AllReduce) == Rates{250, 1000, 10000});
  const llvm::SmallVector<analysis::Link> classes = links({2, 2, 2});
  CHECK((classes[0].latencyNs == 5 && classes[1].latencyNs == 2 && classes[2].latencyNs == 1));
  CHECK(links({8})[0] == analysis::hostLinks(cost::hostsOf(&context, machine, 1), {8}, {7, 6, 5, 4, 3, 2, 1, 0})[0]);
  CHECK(links({2})[0].of(CollectiveKind::Permute).bytesPerUs == 10000);
  machine.uplinksPerPod = 2; // then the adapters of a host allow 2333
  CHECK(rates({8}, CollectiveKind::AllReduce) == Rates{2333});
  CHECK(rates({8}, CollectiveKind::Permute) == Rates{500});
  machine.uplinksPerPod = 9; // a message goes by one uplink
  CHECK(rates({2, 2, 2}, CollectiveKind::Permute) == Rates{1000, 1000, 10000});
  machine.interPod = {5, 300};
  CHECK(rates({2, 2, 2}, CollectiveKind::Permute) == Rates{300, 1000, 10000});
  machine.sendsAtOnce = true; // four hosts, of which each waits for two messages between pods
  CHECK(links({8})[0].of(CollectiveKind::AllReduce).latencyNs * 6 == 12);
}

// By hand: 100 MB over dp of 8 ranks on 4 hosts in 2 pods, as docs/machine.md has it.
TEST_CASE("cost: the example of pods", "[cost][pods]") {
  job::Job job;
  job::Machine &given = *job.mutable_machine();
  given.set_ranks_per_host(2);
  given.set_adapters_per_host(2);
  given.mutable_inter_host()->set_latency_us(0);
  given.mutable_inter_host()->set_bandwidth_gb_per_s(1);
  given.set_hosts_per_pod(2);
  given.mutable_inter_pod();
  mlir::MLIRContext context;
  context.loadDialect<dist::DistDialect>();
  auto ms = [&](llvm::ArrayRef<int64_t> sizes) { // of an all-reduce along the first axis
    const dist::HostsAttr hosts = cost::hostsOf(&context, cost::machineOf(job), /*devicesPerRank=*/1);
    return static_cast<double>(
               analysis::collectiveTimePs(CollectiveKind::AllReduce, 100000000, sizes[0], analysis::hostLinks(hosts, sizes, {}).front())) /
           1e9;
  };
  CHECK(ms({8}) == Approx(75).epsilon(1e-3));     // four uplinks: the adapters of a host
  CHECK(ms({4, 2}) == Approx(150).epsilon(1e-3)); // two groups
  given.set_uplinks_per_pod(1);
  CHECK(ms({8}) == Approx(100).epsilon(1e-3));
  CHECK(ms({4, 2}) == Approx(200).epsilon(1e-3));
}

// Hosts of 4 ranks and 2 adapters: ranks 0 and 1 have the first, 2 and 3 the second.
TEST_CASE("cost: with rails a rank sends by its own adapter", "[cost][rails]") {
  cost::Machine machine{4, 2, {10, 10000}, {200, 1000}};
  mlir::MLIRContext context;
  context.loadDialect<dist::DistDialect>();
  auto link = [&](llvm::ArrayRef<int64_t> sizes, llvm::ArrayRef<int64_t> ids, CollectiveKind kind, bool hasRails) {
    machine.hasRails = hasRails;
    return analysis::hostLinks(cost::hostsOf(&context, machine, /*devicesPerRank=*/1), sizes, ids).front().of(kind);
  };
  const int64_t aligned[] = {0, 4}, pair[] = {0, 1, 4, 5}, crossed[] = {0, 7};
  // Ranks 0 and 4 are one rail: as without rails.
  CHECK(link({2}, aligned, CollectiveKind::Permute, true) == link({2}, aligned, CollectiveKind::Permute, false));
  CHECK(link({2}, aligned, CollectiveKind::AllReduce, true) == link({2}, aligned, CollectiveKind::AllReduce, false));
  // Two groups, 0 4 and 1 5, share a rail; without rails they have two adapters.
  CHECK(link({2, 2}, pair, CollectiveKind::AllReduce, false).bytesPerUs == 1000);
  CHECK(link({2, 2}, pair, CollectiveKind::AllReduce, true).bytesPerUs == 500);
  CHECK(link({2, 2}, pair, CollectiveKind::Permute, true).bytesPerUs == 500);
  // All ranks of both hosts use all adapters.
  CHECK(link({8}, {}, CollectiveKind::AllReduce, true) == link({8}, {}, CollectiveKind::AllReduce, false));
  // A message between two rails goes to a rank of the other rail first.
  CHECK((link({2}, crossed, CollectiveKind::Permute, false).latencyNs == 200 &&
         link({2}, crossed, CollectiveKind::Permute, true).latencyNs == 210));
  CHECK(link({2}, crossed, CollectiveKind::AllReduce, true).latencyNs == 200); // is reduced within hosts first
  machine.intraHost.bytesPerUs = 700;
  CHECK(link({2}, crossed, CollectiveKind::Permute, true).bytesPerUs == 700);
  // Stages of 2 ranks: 2 and 3 send to 4 and 5, of the first rail; stages of 4 to ranks of equal number.
  auto stage = [&](int64_t devices, int64_t from) {
    return analysis::stageLink(cost::hostsOf(&context, machine, /*devicesPerRank=*/1), devices, from, from + 1).of(CollectiveKind::Permute);
  };
  machine.intraHost.bytesPerUs = 10000;
  CHECK((stage(2, 1).latencyNs == 210 && stage(2, 1).bytesPerUs == 500));
  CHECK((stage(4, 0).latencyNs == 200 && stage(4, 0).bytesPerUs == 500));
  CHECK(stage(2, 0).latencyNs == 10);
}

TEST_CASE("cost: hosts that send at once wait for one message, or for two where a sum comes back", "[cost]") {
  cost::Machine machine{2, 1, {1, 1000}, {20000, 100}, /*sendsAtOnce=*/true};
  mlir::MLIRContext context;
  context.loadDialect<dist::DistDialect>();
  auto waits = [&](int64_t ranks, CollectiveKind kind) { // of all messages together
    const analysis::Link link = analysis::hostLinks(cost::hostsOf(&context, machine, /*devicesPerRank=*/1), {ranks}, {}).front();
    return link.of(kind).latencyNs * analysis::collectiveMessages(kind, ranks);
  };
  CHECK(waits(4, CollectiveKind::AllReduce) == 20000); // two hosts
  CHECK(waits(8, CollectiveKind::AllReduce) == 40002); // four; 6667 for each of 6
  CHECK(waits(8, CollectiveKind::ReduceScatter) == 20001);
  CHECK(waits(8, CollectiveKind::AllGather) == 20001);
  CHECK(waits(4, CollectiveKind::Broadcast) == 20001);
  CHECK(waits(8, CollectiveKind::Broadcast) == 40005);
  CHECK(waits(8, CollectiveKind::AllToAll) == 20006);
  CHECK(waits(8, CollectiveKind::Permute) == 20000);
  machine.sendsAtOnce = false; // as NCCL
  CHECK(waits(8, CollectiveKind::AllReduce) == 120000);
}

TEST_CASE("cost: a host sends for its groups that are on other hosts too", "[cost]") {
  auto on = [](int64_t ranksPerHost, llvm::ArrayRef<int64_t> sizes, llvm::ArrayRef<int64_t> axes, int64_t firstRank = 0) {
    const analysis::GroupsOnHosts found = analysis::groupsOnHosts(ranksPerHost, /*devicesPerRank=*/1, sizes, {}, axes, firstRank);
    return std::vector<int64_t>{found.members, found.hosts, found.groups, found.devices};
  };
  using Found = std::vector<int64_t>;
  CHECK(on(2, {3}, {0}) == Found{3, 2, 1, 2}); // hosts of 2 and 1
  CHECK(on(4, {5}, {0}) == Found{5, 2, 1, 4});
  CHECK(on(4, {2, 3}, {1}) == Found{3, 2, 1, 2}); // ranks 3 | 4 5; 0 1 2 never leave their host
  CHECK(on(4, {2, 3}, {0}) == Found{2, 2, 2, 2}); // 1 | 4 and 2 | 5
  CHECK(on(4, {4}, {0}) == Found{4, 1, 0, 0});
  CHECK(on(4, {3}, {0}, /*firstRank=*/3) == Found{3, 2, 1, 2}); // the second of two stages
  auto bytes = [](CollectiveKind kind, const analysis::GroupsOnHosts &groups) { return analysis::hostBytes(kind, 1200, groups); };
  const analysis::GroupsOnHosts uneven = analysis::groupsOnHosts(2, 1, {3}, {}, {0});
  CHECK(bytes(CollectiveKind::AllReduce, uneven) == 1200);
  CHECK(bytes(CollectiveKind::AllGather, uneven) == 2400);
  CHECK(bytes(CollectiveKind::AllToAll, uneven) == 800);
  CHECK(bytes(CollectiveKind::AllReduce, analysis::groupsOnHosts(4, 1, {4}, {}, {0})) == 0);
}

TEST_CASE("cost: messages between stages leave the host where any rank and its peer are on two", "[cost]") {
  cost::Machine machine;
  machine.intraHost.latencyNs = 1;
  machine.interHost.latencyNs = 2;
  mlir::MLIRContext context;
  context.loadDialect<dist::DistDialect>();
  auto latency = [&](int64_t ranksPerHost, int64_t devices, int64_t from, int64_t to) {
    machine.ranksPerHost = ranksPerHost;
    return analysis::stageLink(cost::hostsOf(&context, machine, /*devicesPerRank=*/1), devices, from, to).latencyNs;
  };
  CHECK(latency(4, 2, 0, 1) == 1); // ranks 0 1 and 2 3
  CHECK(latency(4, 2, 1, 0) == 1);
  CHECK(latency(4, 2, 1, 2) == 2); // 2 3 and 4 5
  CHECK(latency(3, 2, 0, 1) == 2); // 0 and 2 share a host, 1 and 3 do not
  CHECK(latency(2, 2, 0, 1) == 2);
  CHECK(latency(INT64_MAX, 128, 0, 7) == 1);
  machine.hostsPerPod = 2;
  machine.uplinksPerPod = 1;
  machine.interPod = {3, 600};
  CHECK(latency(4, 2, 1, 2) == 2); // hosts 0 and 1
  CHECK(latency(2, 2, 1, 2) == 3); // hosts 1 and 2, of two pods
  CHECK(latency(1, 2, 0, 1) == 3); // ranks 0 and 2, 1 and 3: in pods of two ranks
  CHECK(latency(3, 4, 0, 1) == 3); // 0 and 4, 1 and 5 in the first pod, 2 and 6, 3 and 7 not
  machine.hostsPerPod = machine.uplinksPerPod = 0;
  machine.interHost.bytesPerUs = 600;
  auto rate = [&](int64_t ranksPerHost, int64_t devices) {
    machine.ranksPerHost = ranksPerHost;
    return analysis::stageLink(cost::hostsOf(&context, machine, /*devicesPerRank=*/1), devices, 0, 1)
        .of(CollectiveKind::Permute)
        .bytesPerUs;
  };
  CHECK(rate(1, 2) == 600);
  CHECK(rate(2, 2) == 300); // both send through one adapter
  CHECK(rate(3, 2) == 600); // 1 alone
}

TEST_CASE("cost: a job's own figures take the place of the target's", "[cost]") {
  job::Job job;
  cost::Machine machine = cost::machineOf(job);
  CHECK(machine.ranksPerHost > 1 << 20);
  CHECK(machine.intraHost.latencyNs < machine.interHost.latencyNs);
  CHECK(machine.intraHost.bytesPerUs > machine.interHost.bytesPerUs);
  int64_t rate = machine.interHost.bytesPerUs;
  job.mutable_machine()->set_ranks_per_host(8);
  job.mutable_machine()->mutable_intra_host()->set_bandwidth_gb_per_s(300);
  job.mutable_machine()->mutable_inter_host()->set_latency_us(1.5);
  machine = cost::machineOf(job);
  CHECK(machine.ranksPerHost == 8);
  CHECK(machine.intraHost.bytesPerUs == 300'000);
  CHECK(machine.interHost.latencyNs == 1500);
  CHECK(machine.interHost.bytesPerUs == rate);
}

// What a machine measured says beside two numbers a link and three a device.
TEST_CASE("cost: launches, rates by shape and kinds of collectives of a job", "[cost]") {
  job::Job job;
  cost::Machine plain = cost::machineOf(job);
  CHECK((plain.device.launchNs == 0 && plain.device.products.empty() && plain.device.convolutions.empty()));
  job::Machine::Device &device = *job.mutable_machine()->mutable_device();
  device.set_launch_us(0.25);
  job::Machine::ShapeRate &small = *device.add_products(), &large = *device.add_products();
  small.set_from(1);
  small.set_gflop_per_s(2.5);
  large.set_from(32);
  large.set_gflop_per_s(90);
  large.set_narrow_gflop_per_s(70);
  *device.add_convolutions() = small;
  *device.add_attentions() = large;
  job::Machine::LinkClass &host = *job.mutable_machine()->mutable_intra_host();
  host.set_latency_us(3);
  host.set_bandwidth_gb_per_s(8);
  job::Machine::CollectiveRate &gather = *host.add_collectives(), &halo = *host.add_collectives();
  gather.set_kind(job::Machine::CollectiveRate::ALL_GATHER);
  gather.set_bandwidth_gb_per_s(2);
  halo.set_kind(job::Machine::CollectiveRate::HALO);
  halo.set_latency_us(1);
  cost::Machine machine = cost::machineOf(job);
  CHECK(machine.device.launchNs == 250);
  REQUIRE((machine.device.products.size() == 2 && machine.device.convolutions.size() == 1 && machine.device.attentions.size() == 1));
  CHECK((machine.device.attentions[0].from == 32 && machine.device.attentions[0].flopsPerUs == 90000));
  CHECK((machine.device.products[0].flopsPerUs == 2500 && machine.device.products[0].narrowFlopsPerUs == 2500));
  CHECK((machine.device.products[1].from == 32 && machine.device.products[1].flopsPerUs == 90000));
  CHECK(machine.device.products[1].narrowFlopsPerUs == 70000);
  CHECK((machine.intraHost.of(CollectiveKind::AllReduce) == analysis::MessageCost{3000, 8000}));
  CHECK((machine.intraHost.of(CollectiveKind::AllGather) == analysis::MessageCost{3000, 2000})); // what is left out is that of the class
  CHECK((machine.intraHost.of(CollectiveKind::Halo) == analysis::MessageCost{1000, 8000}));
  CHECK(machine.interHost == plain.interHost);
  // Every kind that a job can name is another one here.
  host.clear_collectives();
  std::set<CollectiveKind> kinds;
  for (int kind = job::Machine::CollectiveRate::Kind_MIN; kind <= job::Machine::CollectiveRate::Kind_MAX; ++kind) {
    job::Job one = job;
    job::Machine::CollectiveRate &rate = *one.mutable_machine()->mutable_intra_host()->add_collectives();
    rate.set_kind(static_cast<job::Machine::CollectiveRate::Kind>(kind));
    rate.set_latency_us(77);
    for (CollectiveKind each : analysis::kSendingKinds) {
      if (cost::machineOf(one).intraHost.of(each).latencyNs == 77000) {
        kinds.insert(each);
        CHECK(llvm::StringRef(job::Machine::CollectiveRate::Kind_Name(rate.kind())).lower() == stringifyCollectiveKind(each));
      }
    }
  }
  CHECK(kinds.size() == std::size(analysis::kSendingKinds));
}

// From the sources that machine.cpp names: TFLOP/s, GB/s.
TEST_CASE("cost: presets of GPU clusters", "[cost]") {
  cost::Machine a100 = preset(job::Machine::A100), h100 = preset(job::Machine::H100), h200 = preset(job::Machine::H200);
  CHECK(a100.ranksPerHost == 8);
  CHECK(a100.device.flopsPerUs == 19'500'000);
  CHECK(a100.device.narrowFlopsPerUs == 265'000'000);
  CHECK(a100.device.bytesPerUs == 1'700'000);
  CHECK(a100.interHost.bytesPerUs == 24'000);
  CHECK(h100.device.flopsPerUs == 67'000'000);
  CHECK(h100.device.launchNs == 2000);
  CHECK((h100.intraHost.of(CollectiveKind::AllReduce) == analysis::MessageCost{6000, 361'000}));
  CHECK((h100.interHost.of(CollectiveKind::AllGather) == analysis::MessageCost{11000, 48'000}));
  CHECK(h100.device.bytesPerUs == 3'000'000);
  CHECK(h200.device.bytesPerUs == 4'300'000);
  CHECK(h200.device.narrowFlopsPerUs == 798'000'000);
  CHECK((h200.intraHost.of(CollectiveKind::AllReduce) == analysis::MessageCost{6900, 444'000}));
  CHECK(h200.intraHost.of(CollectiveKind::AllGather) == h100.intraHost.of(CollectiveKind::AllGather));
}

TEST_CASE("cost: on a GPU larger calls are no slower, and none is faster than large products", "[cost]") {
  for (job::Machine::Preset each : {job::Machine::A100, job::Machine::H100, job::Machine::H200}) {
    const analysis::DeviceRates device = preset(each).device;
    REQUIRE(!device.products.empty());
    CHECK(device.products.back().narrowFlopsPerUs == device.narrowFlopsPerUs);
    for (RateClass::Kind kind : {RateClass::Product, RateClass::Attention}) {
      const llvm::ArrayRef<analysis::ShapeRate> table = device.tableOf(kind);
      CHECK(table.front().from == 1);
      for (auto [smaller, larger] : llvm::zip(table, llvm::drop_begin(table))) {
        CHECK(smaller.from < larger.from);
        CHECK(smaller.flopsPerUs <= larger.flopsPerUs);
        CHECK(smaller.narrowFlopsPerUs <= larger.narrowFlopsPerUs);
        CHECK((larger.flopsPerUs <= device.flopsPerUs && larger.narrowFlopsPerUs <= device.narrowFlopsPerUs));
      }
    }
  }
}

TEST_CASE("cost: what a job says takes the place of a preset's tables and kinds", "[cost]") {
  job::Job job;
  job::Machine &given = *job.mutable_machine();
  given.set_preset(job::Machine::H200);
  given.set_ranks_per_host(4);
  given.mutable_device()->set_memory_gb_per_s(1);
  given.mutable_device()->set_narrow_gflop_per_s(400'000);
  given.mutable_intra_host()->set_bandwidth_gb_per_s(100);
  job::Machine::CollectiveRate &gather = *given.mutable_intra_host()->add_collectives();
  gather.set_kind(job::Machine::CollectiveRate::ALL_GATHER);
  gather.set_latency_us(1);
  const cost::Machine own = cost::machineOf(job, exec::Target::Cuda), h200 = preset(job::Machine::H200);
  CHECK(own.ranksPerHost == 4);
  CHECK(own.device.bytesPerUs == 1000);
  CHECK(own.device.narrowFlopsPerUs == 400'000'000);
  CHECK(own.device.products.front().narrowFlopsPerUs == 400'000'000);
  CHECK(own.device.products.front().flopsPerUs == h200.device.products.front().flopsPerUs);
  CHECK((own.intraHost.of(CollectiveKind::AllReduce) == analysis::MessageCost{6900, 100'000}));
  CHECK((own.intraHost.of(CollectiveKind::AllGather) == analysis::MessageCost{1000, 100'000}));
  CHECK(own.interHost == h200.interHost);
  given.mutable_device()->add_products()->set_gflop_per_s(5);
  CHECK(cost::machineOf(job, exec::Target::Cuda).device.products.size() == 1);
}

TEST_CASE("cost: the links of GPUs are those of the target cuda", "[cost]") {
  job::Job job;
  cost::Machine cpu = cost::machineOf(job), cuda = cost::machineOf(job, exec::Target::Cuda);
  CHECK(cuda.intraHost.bytesPerUs > cpu.intraHost.bytesPerUs);
  CHECK(cuda.interHost.bytesPerUs > cpu.interHost.bytesPerUs);
  CHECK(cuda.intraHost.latencyNs > cpu.intraHost.latencyNs); // NCCL starts a kernel where processes share a window
  job.mutable_machine()->mutable_intra_host()->set_bandwidth_gb_per_s(300);
  CHECK(cost::machineOf(job, exec::Target::Cuda).intraHost.bytesPerUs == 300'000);
}

} // namespace ashlar::test::machine_test
