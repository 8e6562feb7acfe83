// How many connections may come from where, so that nobody takes all of them, and nodes find room.
#ifndef STRATA_CONTROLLER_SERVICE_TRANSPORT_PLACES_H_
#define STRATA_CONTROLLER_SERVICE_TRANSPORT_PLACES_H_

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "common/clock.h"

namespace strata::controller {

// Whence a connection comes: "uid:1000" of a Unix socket, else its network (access/network.h).
// Empty: it has ended.
std::string SourceOf(int file);

// Sources from which nodes have spoken. From any thread.
class NodeSources {
 public:
  static constexpr size_t kMost = 20'000;  // remembered

  void Add(const std::string& source);
  bool Has(const std::string& source) const;

 private:
  mutable std::mutex mutex_;
  std::set<std::string> sources_;
};

// Of one acceptor's thread. Who closes a connection does not tell: its file is looked at when the
// number is given to another one, and when a limit is reached.
class Places {
 public:
  static constexpr double kLookSeconds = 1;  // from one look at all files to the next

  // Of `most` connections one source has at most half, and all sources that are no nodes' three
  // quarters. Borrowed: `nodes`, `clock`.
  Places(size_t most, const NodeSources* nodes, const common::Clock* clock,
         double look_seconds = kLookSeconds)
      : most_of_one_(most / 2),
        most_of_guests_(most - most / 4),
        nodes_(nodes),
        clock_(clock),
        look_seconds_(look_seconds) {}

  // Whether there is a place for this connection; then it has it until its file is closed.
  bool Take(int file);

 private:
  bool IsFull(const std::string& source);
  void Forget(int file);
  // Takes out whose files are closed, unless that was done a moment ago.
  void Look();

  const size_t most_of_one_, most_of_guests_;
  const NodeSources* const nodes_;
  const common::Clock* const clock_;
  const double look_seconds_;
  std::optional<double> looked_at_;
  std::map<int, std::string> sources_;    // by file
  std::map<std::string, size_t> counts_;  // by source
};

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_TRANSPORT_PLACES_H_
