#include "tests/bench/node_lists.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <optional>
#include <thread>

#include "tests/bench/bench_calls.h"

namespace strata::bench {
namespace {

template <typename Request, typename Response>
Question AskAll(v1::ClusterService::Stub& stub,
                grpc::Status (v1::ClusterService::Stub::*method)(grpc::ClientContext*,
                                                                 const Request&, Response*),
                Request request) {
  const Clock::time_point begin = Clock::now();
  Question question;
  for (bool more = true; more; more = !request.page_token().empty()) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    Response page;
    const grpc::Status status = (stub.*method)(&context, request, &page);
    if (!status.ok()) {
      std::fprintf(stderr, "control_bench: %s\n", status.error_message().c_str());
      return question;
    }
    ++question.pages;
    question.nodes += page.nodes_size();
    question.longest_bytes = std::max(question.longest_bytes, page.ByteSizeLong());
    request.set_page_token(page.next_page_token());
  }
  question.seconds = Since(begin);
  return question;
}

// One after the other, until it is to stop or one fails; returns their seconds.
template <typename Time>
std::vector<double> TimeUntil(const std::atomic<bool>& stop, Time time) {
  std::vector<double> seconds;
  while (!stop) {
    const std::optional<double> one = time();
    if (!one.has_value()) break;
    seconds.push_back(*one);
    PassTime(0.005);
  }
  return seconds;
}

std::optional<double> TimeCall(v1::ClusterService::Stub& stub) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  v1::Cluster cluster;
  const Clock::time_point begin = Clock::now();
  if (!stub.GetCluster(&context, v1::GetClusterRequest(), &cluster).ok()) return std::nullopt;
  return Since(begin);
}

}  // namespace

Question AskNodes(v1::ClusterService::Stub& stub) {
  v1::ListNodesRequest request;
  request.set_page_size(1000);
  return AskAll(stub, &v1::ClusterService::Stub::ListNodes, request);
}

Question AskTopology(v1::ClusterService::Stub& stub) {
  return AskAll(stub, &v1::ClusterService::Stub::GetTopology, v1::GetTopologyRequest());
}

Waits WaitBeside(const ControllerProcess& controller, SimulatedAgents& agents, double seconds,
                 const std::function<bool()>& ask) {
  Waits waits;
  const auto stub = v1::ClusterService::NewStub(controller.Connect());
  std::atomic<bool> stop{false};
  std::thread calling([&] { waits.calls = TimeUntil(stop, [&] { return TimeCall(*stub); }); });
  std::thread beating(
      [&] { waits.heartbeats = TimeUntil(stop, [&] { return agents.TimeHeartbeat(); }); });
  const Clock::time_point begin = Clock::now();
  while (Since(begin) < seconds) {
    if (ask == nullptr) {
      PassTime(0.05);
    } else if (ask()) {
      ++waits.answers;
    } else {
      break;
    }
  }
  stop = true;
  calling.join();
  beating.join();
  return waits;
}

}  // namespace strata::bench
