// Streams of the stand-in: queues that run only when a host thread waits for something, in an order
// chosen by Options::stream_order. Every operation carries a vector clock of what is ordered before
// it, so that the checker knows whether two operations are ordered, whatever order they ran in.
//
// A host thread orders what it issues behind what it, or another thread with the same current
// device, waited for; threads of different devices are strangers to each other.
// What several streams do together, a collective, is a Meeting.
#ifndef STRATA_DEVICE_STANDIN_STREAMS_H_
#define STRATA_DEVICE_STANDIN_STREAMS_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/random.h"
#include "device/standin/machine.h"
#include "device/standin/order.h"

namespace strata::standin {

struct Capture;
struct Meeting;
struct Stream;

// The calling thread's (cudaSetDevice).
int& CurrentDevice();

// What the calling thread says of what it issues (order.h).
struct Label {
  std::string text;
  int64_t turn = 0;
};
Label& ThreadLabel();

// What an operation does; `id` names it to the checker.
using Action = std::function<void(OperationId id)>;

// A place in a stream's order.
struct Mark {
  int stream = -1;  // −1: none, reached from the beginning
  uint64_t place = 0;
  std::shared_ptr<StreamClock> clock;  // what is before what waited for it; known when reached
};

// A number in pinned memory that a stream waits for: until (int32_t)(*at - value) >= 0. It is then
// behind what is known to have written it; else behind all that the device's host threads have
// waited for.
struct AwaitedValue {
  const uint32_t* at = nullptr;  // null: for none
  uint32_t value = 0;
  bool IsThere() const {
    return at == nullptr ||
           static_cast<int32_t>(__atomic_load_n(at, __ATOMIC_SEQ_CST) - value) >= 0;
  }
};

// A stream's part in a meeting.
struct Part {
  std::shared_ptr<Meeting> meeting;
  int member = 0;
};

// What is put on a stream: an action, or parts in meetings, which go on side by side.
struct Made {
  Action run;
  std::vector<Part> parts;
  bool is_for_host = false;  // a host function: threads may wait for it
  std::string name;          // better than the one given where it was issued
  Mark after;  // it runs behind this, which says nothing of the memory that it may use
  std::function<void(const Mark&)> placed;  // told where it is
};
// Makes an operation when it is issued: of one in a graph, at each launch.
using ActionMaker = std::function<Made()>;

// An operation that several streams have a part in. It runs, whole, once each of them has come to
// its part; what follows a part is then ordered behind what precedes those that `orders` says.
struct Meeting {
  struct Member {
    std::string who;           // "rank 2", for messages
    Stream* stream = nullptr;  // null: the part was not issued yet
    uint64_t place = 0;
    bool is_gone = false;   // the part ends without the meeting, which then never runs
    bool has_come = false;  // and others were told: see on_come
  };
  std::vector<Member> members;
  bool is_over = false;
  bool is_stuck = false;  // it never runs
  std::function<bool(int from, int to)> orders;
  std::function<void(const std::vector<OperationId>& ids)> run;  // by member
  // Tells members in other processes of one of this one's that has come; they tell of themselves by
  // has_come. Null: all are of this process.
  std::function<void(int member, OperationId id)> on_come;
};

struct Stream {
  struct Work {
    std::string name;
    Label label;
    Action run;  // without it and parts: only waits
    std::vector<Part> parts;
    Mark wait;
    AwaitedValue awaited;
    bool is_for_host = false;
    bool learns = true;  // from what it waits for
    StreamClock host;    // what the host had waited for when it was issued
    OperationId id = kNever;
    uint64_t issued = 0;
    StreamClock learnt;                               // in meetings
    std::vector<std::shared_ptr<StreamClock>> marks;  // of its end
  };
  int id = 0, device = 0;
  std::deque<Work> queue;
  uint64_t issued = 0, done = 0;
  StreamClock clock;           // what is ordered before its next operation
  Capture* capture = nullptr;  // its calls are recorded
  bool is_elsewhere = false;   // it stands here for one of another process
};

class Streams {
 public:
  explicit Streams(Machine& machine) : machine_(machine), random_(machine.options.seed, 1) {}

  // On the calling thread's device.
  Stream* Create();
  // What it was handed is done all the same.
  void Destroy(Stream* stream) { live_.erase(stream); }
  bool IsLive(const Stream* stream) const { return live_.count(stream) != 0; }
  // Stream 0 of the calling thread's device.
  Stream* Default();

  Mark Put(Stream& stream, std::string name, Made made);
  void Wait(Stream& stream, const Mark& mark, bool learns = true);
  void WaitForValue(Stream& stream, const AwaitedValue& awaited);
  // The end of all that the stream was handed, and what is before it.
  Mark End(Stream& stream);
  // Parts end without their meeting.
  void Leave(const std::shared_ptr<Meeting>& meeting, int member) const;

  bool IsReached(const Mark& mark) const;
  // The host waits: what it issues later is ordered behind the mark. It may have to wait for other
  // threads; if nothing they do helps, that is a deadlock, a finding, and all devices fail.
  void RunUntil(const Mark& mark);
  // All streams of the calling thread's device.
  void RunAll();
  // One operation on the way to a mark that is not reached: queries make things go on. False: none
  // can run.
  bool RunTowards(const Mark& mark);
  // What streams stand at that others have a part in and have not come to, a line each.
  std::string DescribeWaits() const;
  // How many awaited values were there when their streams came to them.
  uint64_t values_seen() const { return values_seen_; }
  // Who has come to the mark has written a number that streams may wait for.
  void NoteWriter(const uint32_t* at, uint32_t value, Mark mark) {
    constexpr size_t kMost = 256;  // who waits does so soon
    auto& writers = writers_[at];
    writers.emplace_back(value, std::move(mark));
    if (writers.size() > kMost) writers.pop_front();
  }
  std::vector<Piece> TakePieces() { return std::exchange(pieces_, {}); }
  // Whether a stream stands at a value, and whether one does that is there.
  bool IsValueAwaited() const;
  bool IsValueThere() const;

  // Decides before each operation whether it runs; false: the device has failed.
  std::function<bool(int device)> may_run = [](int) { return true; };
  std::function<bool(int device)> has_failed = [](int) { return false; };
  std::function<void()> fail_all = [] {};
  // Lets other host threads act; false: none did anything for as long as Options allow.
  std::function<bool()> let_others_act = [] { return false; };
  // The same, for a moment only.
  std::function<void()> let_others_act_shortly = [] {};
  // Something has happened that another thread may wait for.
  std::function<void()> changed = [] {};

 private:
  std::string DescribeWait(const Stream& stream) const;
  bool IsReady(const Meeting& meeting) const;
  // Whether something stands where only other processes help.
  bool IsUpToOthers() const;
  bool IsRunnable(const Stream& stream) const;
  Stream* FindRunnable(Stream& stream, std::set<Stream*>& seen);
  Stream* Choose(Stream& wanted);
  Stream* ChooseLatest(Stream& wanted);
  // Null: its head does not wait for a value, or for something else before.
  const AwaitedValue* ValueOf(const Stream& stream) const;
  void Step(Stream& stream);
  bool Begin(Stream& stream);
  void RunMeeting(Meeting& meeting);
  void FinishIfDone(Stream& stream);
  // Where the value was first written as high as that; no mark: it is not known.
  Mark WriterOf(const AwaitedValue& awaited) const;
  void Finish(Stream& stream);

  Machine& machine_;
  common::Random random_;
  std::vector<std::unique_ptr<Stream>> streams_;  // by id
  std::map<int, Stream*> defaults_;               // by device
  std::set<const Stream*> live_;
  StreamClock HostClock();
  // What host threads have waited for, by their device then, and by thread.
  std::map<int, StreamClock> devices_;
  std::map<uint64_t, StreamClock> threads_;
  uint64_t issued_ = 0;
  uint64_t values_seen_ = 0;
  std::map<const uint32_t*, std::deque<std::pair<uint32_t, Mark>>> writers_;  // by place
  std::vector<Piece> pieces_;
};

}  // namespace strata::standin

#endif  // STRATA_DEVICE_STANDIN_STREAMS_H_
