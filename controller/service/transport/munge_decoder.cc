#include "controller/service/transport/munge_decoder.h"

#include <utility>

#include "controller/service/transport/peer_user.h"
#include "security/munge.h"

namespace strata::controller {

MungeDecoder::MungeDecoder(std::string socket) : socket_(std::move(socket)) {
  for (size_t i = 0; i < kThreads; ++i) threads_.emplace_back([this] { Run(); });
}

MungeDecoder::~MungeDecoder() {
  std::deque<Waiting> left;
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    left.swap(waiting_);
  }
  changed_.notify_all();
  for (const Waiting& one : left) one.done(absl::UnavailableError("the controller is ending"));
  for (std::thread& thread : threads_) thread.join();
}

void MungeDecoder::Decode(std::string credential, Done done) {
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.size() < kMostWaiting) {
      waiting_.push_back({std::move(credential), std::move(done)});
      changed_.notify_one();
      return;
    }
  }
  done(absl::ResourceExhaustedError("too many MUNGE credentials wait to be decoded"));
}

void MungeDecoder::Run() {
  for (;;) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return closing_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    const absl::StatusOr<security::MungeUser> user =
        security::MungeDecode(next.credential, socket_);
    if (user.ok()) {
      next.done(UserOfUid(user->uid, user->gid, "munge"));
    } else {
      next.done(user.status());
    }
  }
}

}  // namespace strata::controller
