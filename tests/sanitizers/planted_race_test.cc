// The thread sanitizer finds a planted race, also inside a gRPC handler (whose threads belong to a
// library that is not instrumented), and reports nothing for the same handler with a mutex.
#include <barrier>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "tests/sanitizers/counter.grpc.pb.h"

namespace strata {
namespace {

constexpr int kRaceFound = 66;  // the thread sanitizer's exit status

// Counts calls, with or without holding the mutex. Each call waits for a second one to arrive.
class CountingService final : public v1::Counter::Service {
 public:
  explicit CountingService(bool with_mutex) : with_mutex_(with_mutex) {}

  grpc::Status Count(grpc::ServerContext* /*context*/, const google::protobuf::Empty* /*request*/,
                     google::protobuf::Empty* /*response*/) override {
    both_arrived_.arrive_and_wait();
    std::unique_lock lock(mutex_, std::defer_lock);
    if (with_mutex_) lock.lock();
    ++calls_;
    return grpc::Status::OK;
  }

  int calls() {
    const std::lock_guard lock(mutex_);
    return calls_;
  }

 private:
  const bool with_mutex_;
  std::barrier<> both_arrived_{2};
  std::mutex mutex_;
  int calls_ = 0;
};

// Two calls at once; returns how many were counted, or -1 if a call failed.
int CountTwoCalls(bool with_mutex) {
  CountingService service(with_mutex);
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return -1;
  const auto channel =
      grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials());

  const auto call = [&channel](bool& ok) {
    grpc::ClientContext context;
    google::protobuf::Empty response;
    ok = v1::Counter::NewStub(channel)->Count(&context, {}, &response).ok();
  };
  bool first_ok = false;
  bool second_ok = false;
  std::thread second(call, std::ref(second_ok));
  call(first_ok);
  second.join();
  server->Shutdown();
  server->Wait();
  return first_ok && second_ok ? service.calls() : -1;
}

void RaceOfTwoThreads() {
  int count = 0;
  std::thread other([&count] { ++count; });
  ++count;
  other.join();
}

TEST(PlantedRace, BetweenTwoThreadsIsFound) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(RaceOfTwoThreads(), testing::ExitedWithCode(kRaceFound), "data race");
}

TEST(PlantedRace, InGrpcHandlersIsFound) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(CountTwoCalls(/*with_mutex=*/false), testing::ExitedWithCode(kRaceFound),
              "SUMMARY: ThreadSanitizer: data race tests/sanitizers/planted_race_test.cc");
}

TEST(PlantedRace, CorrectGrpcHandlersGiveNoReport) {
  EXPECT_EQ(CountTwoCalls(/*with_mutex=*/true), 2);
}

}  // namespace
}  // namespace strata
