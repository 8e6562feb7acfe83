// What tests of the daemon's parts share.
#ifndef STRATA_CONTROLLER_SERVICE_TESTING_TEST_SUPPORT_H_
#define STRATA_CONTROLLER_SERVICE_TESTING_TEST_SUPPORT_H_

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "controller/logic/core.h"
#include "controller/service/streams/subscriber.h"
#include "proto/strata/v1/jobs.pb.h"

namespace strata::controller {

// A small job that passes every check; its data need not exist.
inline v1::CreateJobRequest GoodRequest(const std::string& name, int ranks = 1) {
  v1::CreateJobRequest request;
  v1::Job& job = *request.mutable_job();
  job.set_name("jobs/" + name);
  v1::JobSpec& spec = *job.mutable_spec();
  spec.set_name(name);
  v1::ModelSpec& model = *spec.mutable_model();
  model.set_family(v1::ModelSpec::FAMILY_LLAMA);
  model.set_layers(2);
  model.set_hidden(64);
  model.set_heads(4);
  model.set_ffn(128);
  spec.mutable_data()->add_train()->set_path("/data/text.txt");
  spec.mutable_train()->set_steps(100);
  spec.mutable_parallel()->set_data(ranks);
  return request;
}

// The same as the logic takes it: with folders and defaults that it looks at.
inline v1::CreateJobRequest LogicRequest(const std::string& name, int ranks = 1) {
  v1::CreateJobRequest request = GoodRequest(name, ranks);
  request.mutable_job()->set_directory("/jobs/" + name);
  request.mutable_job()->mutable_spec()->mutable_resources()->set_ranks(ranks);
  request.mutable_job()->mutable_spec()->mutable_resources()->set_device("cpu");
  request.mutable_job()->mutable_spec()->mutable_parallel()->set_virtual_shards(ranks);
  return request;
}

// Keeps what is pushed; takes at most `most` messages.
template <typename Message>
class Listening final : public Subscriber<Message> {
 public:
  explicit Listening(size_t most = 1000) : most_(most) {}
  bool Push(std::shared_ptr<const Message> message) override {
    if (messages.size() >= most_ || ended) return false;
    messages.push_back(*message);
    return true;
  }
  bool alive() const override { return !ended && messages.size() < most_; }
  bool idle() const override { return idle_now; }
  void End(const absl::Status& with) override {
    ended = true;
    status = with;
  }

  std::vector<Message> messages;
  bool idle_now = true;
  bool ended = false;
  absl::Status status;

 private:
  const size_t most_;
};

// Opens once, for all who wait.
class Gate {
 public:
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_TESTING_TEST_SUPPORT_H_
