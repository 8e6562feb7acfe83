#include "tests/bench/large_job.h"

#include <chrono>
#include <cstdio>
#include <string>

#include "absl/status/statusor.h"
#include "common/status_macros.h"
#include "proto/strata/v1/jobs.grpc.pb.h"
#include "tests/bench/bench_calls.h"
#include "tests/bench/controller_process.h"
#include "tests/bench/rank_layout.h"
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

// See LargeRequest; a tensor group is on one node.
void SetDegrees(int ranks, int devices, bool data_alone, v1::JobSpec& spec) {
  const int most_tensor = data_alone ? 1 : 8, most_pipeline = data_alone ? 1 : 16;
  int tensor = 1, pipeline = 1;
  const auto divides = [&](int of) { return ranks % (of * pipeline) == 0 && devices % of == 0; };
  while (tensor < most_tensor && divides(2 * tensor)) tensor *= 2;
  while (pipeline < most_pipeline && ranks % (2 * tensor * pipeline) == 0) pipeline *= 2;
  const int data = ranks / tensor / pipeline;
  spec.mutable_parallel()->set_tensor(tensor);
  spec.mutable_parallel()->set_pipeline(pipeline);
  spec.mutable_parallel()->set_data(data);
  spec.mutable_parallel()->set_virtual_shards(data);
  spec.mutable_train()->set_micro_batch(1);
  spec.mutable_train()->set_global_batch(int64_t{data} * pipeline);
}

absl::StatusOr<v1::Job> Create(v1::JobService::Stub& stub, const v1::CreateJobRequest& request) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  v1::Job job;
  const grpc::Status made = stub.CreateJob(&context, request, &job);
  if (made.ok()) return job;
  return absl::Status(static_cast<absl::StatusCode>(made.error_code()), made.error_message());
}

// Of the job as the controller would complete it.
absl::StatusOr<RankLayout> LayoutOf(v1::JobService::Stub& stub, v1::CreateJobRequest request) {
  request.set_validate_only(true);
  ASSIGN_OR_RETURN(const v1::Job job, Create(stub, request));
  return RankLayout::Of(job.spec());
}

void Complain(const absl::Status& status) {
  std::fprintf(stderr, "control_bench: %s\n", std::string(status.message()).c_str());
}

}  // namespace

v1::CreateJobRequest LargeRequest(int nodes, int devices, bool data_alone) {
  v1::CreateJobRequest request = Request("large");
  v1::JobSpec& spec = *request.mutable_job()->mutable_spec();
  spec.mutable_model()->set_layers(32);
  spec.mutable_model()->set_hidden(512);
  spec.mutable_model()->set_heads(8);
  spec.mutable_train()->set_sequence(128);
  SetDegrees(nodes * devices, devices, data_alone, spec);
  return request;
}

Waits WaitBesideExplains(const ControllerProcess& controller, SimulatedAgents& agents, int nodes,
                         int devices, double seconds) {
  const auto stub = v1::JobService::NewStub(controller.Connect());
  const auto made = Create(*stub, LargeRequest(nodes, devices));
  if (!made.ok()) {
    Complain(made.status());
    return {};
  }
  PassTime(2);  // until all of its nodes have been asked to prepare
  const Waits waits = WaitBeside(controller, agents, seconds, [&] {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    v1::ExplainJobRequest request;
    request.set_name(made->name());
    v1::ExplainJobResponse response;
    return stub->ExplainJob(&context, request, &response).ok();
  });
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  v1::CancelJobRequest cancel;
  cancel.set_name(made->name());
  v1::Job job;
  const grpc::Status ended = stub->CancelJob(&context, cancel, &job);
  if (!ended.ok()) Complain(absl::UnknownError(ended.error_message()));
  return waits;
}

Restart RestartLargeJob(const LargeJob& large) {
  Restart restart;
  ControllerProcess daemon(large.controller, large.directory, large.certificates);
  if (!daemon.runs()) return restart;
  const int nodes = large.nodes;
  const auto stub = v1::JobService::NewStub(daemon.Connect());
  const v1::CreateJobRequest request = LargeRequest(nodes, large.devices, large.data_alone);
  const absl::StatusOr<RankLayout> layout = LayoutOf(*stub, request);
  if (!layout.ok()) {
    Complain(layout.status());
    return restart;
  }
  restart.peers = layout->most_peers();
  SimulatedAgents agents(daemon, nodes, large.devices, &*layout);
  if (!agents.AwaitWelcome()) return restart;
  Clock::time_point begin = Clock::now();
  double used = daemon.processor_seconds();
  if (const auto made = Create(*stub, request); !made.ok()) {
    Complain(made.status());
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
