#include "tests/bench/large_job.h"

#include <chrono>
#include <cstdio>

#include "proto/strata/v1/jobs.grpc.pb.h"
#include "tests/bench/bench_calls.h"
#include "tests/bench/controller_process.h"
#include "tests/bench/simulated_agents.h"

namespace strata::bench {
namespace {

bool AwaitStarts(const SimulatedAgents& agents, int64_t count) {
  constexpr double kPatience = 300;
  const Clock::time_point begin = Clock::now();
  while (agents.started() < count) {
    if (agents.ended() > 0 || Since(begin) > kPatience) return false;
    PassTime(0.005);
  }
  return true;
}

Mesh MeshOf(int ranks) {
  Mesh mesh;
  while (mesh.tensor < 8 && ranks % (2 * mesh.tensor) == 0) mesh.tensor *= 2;
  while (mesh.pipeline < 16 && ranks % (2 * mesh.tensor * mesh.pipeline) == 0) mesh.pipeline *= 2;
  mesh.data = ranks / mesh.tensor / mesh.pipeline;
  return mesh;
}

}  // namespace

Restart RestartLargeJob(const LargeJob& large) {
  Restart restart;
  ControllerProcess daemon(large.controller, large.directory, large.certificates);
  if (!daemon.runs()) return restart;
  const int nodes = large.nodes;
  SimulatedAgents agents(daemon, nodes, large.devices, MeshOf(nodes * large.devices));
  if (!agents.AwaitWelcome()) return restart;
  v1::CreateJobRequest request = Request("large");
  v1::JobSpec& spec = *request.mutable_job()->mutable_spec();
  const int64_t ranks = int64_t{nodes} * large.devices;
  spec.mutable_parallel()->set_data(ranks);
  spec.mutable_parallel()->set_virtual_shards(ranks);
  spec.mutable_train()->set_global_batch(ranks);
  spec.mutable_train()->set_micro_batch(1);
  const auto stub = v1::JobService::NewStub(daemon.Connect());
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  v1::Job job;
  Clock::time_point begin = Clock::now();
  double used = daemon.processor_seconds();
  if (const grpc::Status made = stub->CreateJob(&context, request, &job); !made.ok()) {
    std::fprintf(stderr, "control_bench: %s\n", made.error_message().c_str());
    return restart;
  }
  if (!AwaitStarts(agents, nodes)) return restart;
  restart.start_seconds = Since(begin);
  restart.start_processor_seconds = daemon.processor_seconds() - used;
  PassTime(2);  // until all have said that they run
  begin = Clock::now();
  used = daemon.processor_seconds();
  agents.FailRank(nodes / 2);
  if (!AwaitStarts(agents, 2 * nodes)) return restart;
  restart.seconds = Since(begin);
  restart.processor_seconds = daemon.processor_seconds() - used;
  restart.start_bytes = agents.longest_start_bytes();
  restart.done = true;
  return restart;
}

}  // namespace strata::bench
