#include "tests/bench/node_lists.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <thread>

#include "proto/strata/v1/cluster.grpc.pb.h"
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

Question AskNodesOf(v1::ClusterService::Stub& stub) {
  v1::ListNodesRequest request;
  request.set_page_size(1000);
  return AskAll(stub, &v1::ClusterService::Stub::ListNodes, request);
}

// Small calls that go through the writer, one after the other.
std::vector<double> TimeCalls(v1::ClusterService::Stub& stub, const std::atomic<bool>& stop) {
  std::vector<double> seconds;
  while (!stop) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    v1::Cluster cluster;
    const Clock::time_point begin = Clock::now();
    if (!stub.GetCluster(&context, v1::GetClusterRequest(), &cluster).ok()) break;
    seconds.push_back(Since(begin));
    PassTime(0.005);
  }
  return seconds;
}

}  // namespace

Question AskNodes(const ControllerProcess& controller) {
  return AskNodesOf(*v1::ClusterService::NewStub(controller.Connect()));
}

Question AskTopology(const ControllerProcess& controller) {
  return AskAll(*v1::ClusterService::NewStub(controller.Connect()),
                &v1::ClusterService::Stub::GetTopology, v1::GetTopologyRequest());
}

Lists AskBesideHeartbeats(const ControllerProcess& controller, int nodes, double seconds) {
  Lists lists;
  const auto asking = v1::ClusterService::NewStub(controller.Connect());
  const auto calling = v1::ClusterService::NewStub(controller.Connect());
  for (const bool busy : {false, true}) {
    std::atomic<bool> stop{false};
    std::thread caller(
        [&] { (busy ? lists.busy_seconds : lists.idle_seconds) = TimeCalls(*calling, stop); });
    const Clock::time_point begin = Clock::now();
    while (Since(begin) < seconds) {
      if (!busy) {
        PassTime(0.05);
      } else if (AskNodesOf(*asking).nodes == nodes) {
        ++lists.lists;
      }
    }
    stop = true;
    caller.join();
  }
  return lists;
}

}  // namespace strata::bench
