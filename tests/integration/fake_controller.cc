#include "tests/integration/fake_controller.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "proto/strata/v1/agent.grpc.pb.h"

namespace strata::integration {
namespace {

using Stream = grpc::ServerReaderWriter<v1::ControllerMessage, v1::AgentMessage>;

}  // namespace

class FakeController::Impl final : public v1::AgentService::Service {
 public:
  explicit Impl(const Options& options) : options_(options) {
    grpc::ServerBuilder builder;
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000);
    builder.AddListeningPort(absl::StrCat("127.0.0.1:", options.port),
                             grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }

  void End() {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::time_point());
  }

  grpc::Status Session(grpc::ServerContext*, Stream* stream) override {
    std::string node;
    v1::AgentMessage message;
    while (stream->Read(&message)) {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (message.has_register_()) {
        node = message.register_().node();
        streams_[node] = stream;
        Welcome(node, message.register_());
      }
      Answer(node, message);
      said_.push_back({node, message});
      changed_.notify_all();
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    if (streams_[node] == stream) streams_.erase(node);
    return grpc::Status::OK;
  }

  void Send(const std::string& node, v1::ControllerMessage message) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Write(node, std::move(message));
  }

  std::optional<Said> WaitFor(const Matches& matches, double seconds, size_t from) {
    std::unique_lock<std::mutex> lock(mutex_);
    std::optional<Said> found;
    changed_.wait_for(lock, std::chrono::duration<double>(seconds), [&] {
      for (; from < said_.size() && !found.has_value(); ++from) {
        if (matches(said_[from])) found = said_[from];
      }
      return found.has_value();
    });
    return found;
  }

  std::vector<Said> All() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return said_;
  }
  std::vector<v1::CommittedCheckpoint> Recorded() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return recorded_;
  }
  void ExpectRanks(const std::map<std::string, std::vector<int>>& nodes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ranks_ = 0;
    for (const auto& [node, ranks] : nodes) {
      ranks_ += ranks.size();
      for (const int rank : ranks) {
        if (rank == 0) first_ = node;
      }
    }
  }
  int port() const { return port_; }

 private:
  void Write(const std::string& node, v1::ControllerMessage message) {
    message.set_controller_term(options_.term);
    const auto found = streams_.find(node);
    if (found != streams_.end()) found->second->Write(message);
  }

  void Welcome(const std::string& node, const v1::Register& said) {
    v1::ControllerMessage message;
    v1::Welcome& welcome = *message.mutable_welcome();
    welcome.set_heartbeat_seconds(options_.heartbeat_seconds);
    welcome.set_lease_seconds(options_.lease_seconds);
    welcome.set_orphan_seconds(options_.orphan_seconds);
    welcome.set_cluster(options_.cluster);
    welcome.set_store_incarnation(options_.store);
    for (const std::string& store : options_.earlier_stores) {
      welcome.add_earlier_incarnations(store);
    }
    for (const v1::HeldEpoch& held : said.held()) {
      if (options_.keep_all) *welcome.add_keep() = held.epoch();
    }
    Write(node, std::move(message));
  }

  void Answer(const std::string& node, const v1::AgentMessage& message) {
    if (message.has_written()) {
      const v1::CheckpointFragments& written = message.written();
      auto& fragments = fragments_[{written.epoch().epoch(), written.step()}];
      for (const auto& [rank, fragment] : written.fragments()) fragments[rank] = fragment;
      if (fragments.size() != ranks_) return;
      v1::ControllerMessage answer;
      v1::WriteManifest& manifest = *answer.mutable_write_manifest();
      *manifest.mutable_epoch() = written.epoch();
      manifest.set_step(written.step());
      for (const auto& [rank, fragment] : fragments) manifest.add_fragments(fragment);
      Write(first_, std::move(answer));
    }
    if (message.has_commit() && options_.answer_commits) {
      const v1::CommittedCheckpoint& checkpoint = message.commit().checkpoint();
      if (recorded_.empty() || recorded_.back().step() != checkpoint.step()) {
        recorded_.push_back(checkpoint);
      }
      v1::ControllerMessage answer;
      *answer.mutable_commit()->mutable_epoch() = message.commit().epoch();
      answer.mutable_commit()->set_step(checkpoint.step());
      answer.mutable_commit()->set_accepted(true);
      Write(node, std::move(answer));
    }
  }

  const Options options_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Stream*> streams_;  // by node
  std::vector<Said> said_;
  std::vector<v1::CommittedCheckpoint> recorded_;
  size_t ranks_ = 0;
  std::string first_;                                                            // rank 0's node
  std::map<std::pair<int64_t, int64_t>, std::map<int, std::string>> fragments_;  // epoch and step
};

FakeController::FakeController(const Options& options) : impl_(std::make_unique<Impl>(options)) {}
FakeController::~FakeController() { impl_->End(); }
int FakeController::port() const { return impl_->port(); }
void FakeController::Send(const std::string& node, v1::ControllerMessage message) {
  impl_->Send(node, std::move(message));
}
std::optional<FakeController::Said> FakeController::WaitFor(const Matches& matches, double seconds,
                                                            size_t from) {
  return impl_->WaitFor(matches, seconds, from);
}
size_t FakeController::count() const { return impl_->All().size(); }
std::vector<FakeController::Said> FakeController::All() const { return impl_->All(); }
std::vector<v1::CommittedCheckpoint> FakeController::Recorded() const { return impl_->Recorded(); }
void FakeController::ExpectRanks(const std::map<std::string, std::vector<int>>& nodes) {
  impl_->ExpectRanks(nodes);
}

}  // namespace strata::integration
