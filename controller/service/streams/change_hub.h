// The changes of one kind of resource, in order, to everybody who watches, from where each of them
// left off. Lives on the reactor's thread.
#ifndef STRATA_CONTROLLER_SERVICE_STREAMS_CHANGE_HUB_H_
#define STRATA_CONTROLLER_SERVICE_STREAMS_CHANGE_HUB_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "controller/logic/refusal.h"
#include "controller/service/streams/subscriber.h"

namespace strata::controller {

// Response: a resource_version and the resource, or a bookmark.
template <typename Response>
class ChangeHub {
 public:
  using Wants = std::function<bool(const Response&)>;
  using Watcher = std::shared_ptr<Subscriber<Response>>;
  using Change = std::shared_ptr<const Response>;
  struct Options {
    size_t most_changes = 2048;            // kept to continue from
    size_t most_bytes = size_t{32} << 20;  // of these changes
    size_t most_watchers = 4096;
    double bookmark_seconds = 5;
  };

  // Borrowed: clock.
  ChangeHub(const common::Clock* clock, const Options& options)
      : clock_(clock), options_(options) {}

  bool IsFull() const { return watches_.size() >= options_.most_watchers; }
  absl::Status TooManyWatch() const {
    return Refusal(absl::StatusCode::kResourceExhausted, "TOO_MANY_STREAMS",
                   absl::StrCat(watches_.size(), " streams watch already"));
  }
  // Whether all changes after `version` are kept.
  bool Keeps(int64_t version) const { return version >= floor_; }
  absl::Status NotKept(int64_t version, int64_t current) const {
    return Refusal(absl::StatusCode::kOutOfRange, "RESOURCE_VERSION_UNKNOWN",
                   absl::StrCat("changes after version ", version,
                                " are not known any more (versions ", floor_, " to ", current,
                                " are): list them all, then watch from the list's version"));
  }

  // What is kept of the changes that it wants after `version`, then whatever comes.
  void Add(Wants wants, int64_t version, Watcher watcher) {
    for (const Change& change : changes_) {
      if (change->resource_version() <= version || !wants(*change)) continue;
      if (!watcher->Push(change)) return;
    }
    watches_.push_back({std::move(wants), std::move(watcher)});
  }

  // In order of their versions.
  void Publish(Change change) {
    std::erase_if(watches_, [&](const Watch& watch) {
      return watch.wants(*change) && !watch.watcher->Push(change);
    });
    Keep(std::move(change));
  }

  // Now and then tells those who have read everything how far that is.
  void Tick(int64_t version) {
    std::erase_if(watches_, [](const Watch& watch) { return !watch.watcher->alive(); });
    if (clock_->Now() < next_bookmark_) return;
    next_bookmark_ = clock_->Now() + options_.bookmark_seconds;
    auto bookmark = std::make_shared<Response>();
    bookmark->set_resource_version(version);
    std::erase_if(watches_, [&](const Watch& watch) {
      return watch.watcher->idle() && !watch.watcher->Push(bookmark);
    });
  }

  // Nothing of what was before `version` is kept.
  void Forget(int64_t version) {
    changes_.clear();
    bytes_ = 0;
    floor_ = version;
  }

  void EndAll(const absl::Status& status) {
    for (const Watch& watch : watches_) watch.watcher->End(status);
    watches_.clear();
  }

 private:
  struct Watch {
    Wants wants;
    Watcher watcher;
  };

  void Keep(Change change) {
    // What loading itself changed comes after Forget, with versions that loading has counted.
    if (changes_.empty()) floor_ = std::min(floor_, change->resource_version() - 1);
    bytes_ += change->ByteSizeLong();
    changes_.push_back(std::move(change));
    while (changes_.size() > options_.most_changes || bytes_ > options_.most_bytes) {
      bytes_ -= changes_.front()->ByteSizeLong();
      floor_ = changes_.front()->resource_version();
      changes_.pop_front();
    }
  }

  const common::Clock* const clock_;
  const Options options_;
  std::vector<Watch> watches_;
  std::deque<Change> changes_;  // with a version above floor_, all of them
  size_t bytes_ = 0;
  int64_t floor_ = 0;
  double next_bookmark_ = 0;
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_STREAMS_CHANGE_HUB_H_
