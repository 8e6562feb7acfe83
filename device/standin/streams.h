// Streams of the stand-in: queues that run only when the host waits for something, in an order
// chosen by Options::stream_order. Every operation carries a vector clock of what is ordered before
// it, so that the checker knows whether two operations are ordered, whatever order they ran in.
#ifndef STRATA_DEVICE_STANDIN_STREAMS_H_
#define STRATA_DEVICE_STANDIN_STREAMS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "common/random.h"
#include "device/standin/machine.h"

namespace strata::standin {

struct Capture;

// What an operation does; `id` names it to the checker.
using Action = std::function<void(OperationId id)>;

// Makes the action of an operation when it is issued: of one in a graph, at each launch.
using ActionMaker = std::function<Action()>;

// A place in a stream's order.
struct Mark {
  int stream = -1;  // −1: none, reached from the beginning
  uint64_t place = 0;
  StreamClock clock;
};

struct Stream {
  struct Work {
    std::string name;
    Action run;  // empty: only waits
    Mark wait;
    OperationId id = kNever;
    uint64_t issued = 0;
  };
  int id = 0;
  std::deque<Work> queue;
  uint64_t issued = 0, done = 0;
  StreamClock clock;           // what is ordered before its next operation
  Capture* capture = nullptr;  // its calls are recorded
};

class Streams {
 public:
  explicit Streams(Machine& machine) : machine_(machine), random_(machine.options.seed, 1) {
    Create();
  }

  Stream* Create();
  // What it was handed is done all the same.
  void Destroy(Stream* stream) { live_.erase(stream); }
  bool IsLive(const Stream* stream) const { return live_.count(stream) != 0; }
  // Stream 0.
  Stream* Default() { return streams_[0].get(); }

  Mark Put(Stream& stream, std::string name, Action run);
  void Wait(Stream& stream, const Mark& mark);
  // The end of all that the stream was handed, and what is before it.
  Mark End(const Stream& stream) const;

  bool IsReached(const Mark& mark) const;
  // The host waits: what comes later is ordered behind the mark.
  void RunUntil(const Mark& mark);
  void RunAll();
  // One operation on the way to a mark that is not reached: queries make things go on.
  void RunTowards(const Mark& mark);

  // Decides before each operation whether it runs; false: the device has failed.
  std::function<bool()> may_run = [] { return true; };

 private:
  bool IsRunnable(const Stream& stream) const;
  Stream& Choose(Stream& wanted);
  void Step(Stream& stream) const;

  Machine& machine_;
  common::Random random_;
  std::vector<std::unique_ptr<Stream>> streams_;  // by id
  std::set<const Stream*> live_;
  StreamClock host_;  // what the host has waited for
  uint64_t issued_ = 0;
};

}  // namespace strata::standin

#endif  // STRATA_DEVICE_STANDIN_STREAMS_H_
