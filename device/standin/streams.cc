#include "device/standin/streams.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace strata::standin {
namespace {

bool IsEnded(const Part& part) {
  return part.meeting->is_over || part.meeting->members[part.member].is_gone;
}

bool AreEnded(const std::vector<Part>& parts) {
  return std::all_of(parts.begin(), parts.end(), IsEnded);
}

// Whether others are yet to be told that a stream has come to it.
bool IsToTell(const Part& part) {
  const Meeting& meeting = *part.meeting;
  return meeting.on_come && !meeting.is_stuck && !IsEnded(part) &&
         !meeting.members[part.member].has_come;
}

uint64_t ThreadNumber() {
  static std::atomic<uint64_t> threads = 0;
  thread_local const uint64_t number = ++threads;
  return number;
}

}  // namespace

int& CurrentDevice() {
  thread_local int device = 0;
  return device;
}

Label& ThreadLabel() {
  thread_local Label label;
  return label;
}

Stream* Streams::Create() {
  streams_.push_back(std::make_unique<Stream>());
  Stream* const stream = streams_.back().get();
  stream->id = static_cast<int>(streams_.size()) - 1;
  stream->device = CurrentDevice();
  live_.insert(stream);
  return stream;
}

Stream* Streams::Default() {
  Stream*& stream = defaults_[CurrentDevice()];
  if (stream == nullptr) stream = Create();
  return stream;
}

StreamClock Streams::HostClock() {
  StreamClock clock = devices_[CurrentDevice()];
  Merge(clock, threads_[ThreadNumber()]);
  return clock;
}

Mark Streams::Put(Stream& stream, std::string name, Made made) {
  if (made.after.stream != stream.id) Wait(stream, made.after, false);
  Stream::Work work;
  work.name = made.name.empty() ? std::move(name) : std::move(made.name);
  work.label = ThreadLabel();
  work.run = std::move(made.run);
  work.parts = std::move(made.parts);
  work.is_for_host = made.is_for_host;
  work.host = HostClock();
  work.issued = ++issued_;
  ++stream.issued;
  for (const Part& part : work.parts) {
    Meeting::Member& member = part.meeting->members[part.member];
    member.stream = &stream;
    member.place = stream.issued;
  }
  stream.queue.push_back(std::move(work));
  const Mark mark = End(stream);
  if (made.placed) made.placed(mark);
  changed();
  return mark;
}

void Streams::Wait(Stream& stream, const Mark& mark, bool learns) {
  if (mark.stream < 0) return;
  Stream::Work work;
  work.wait = mark;
  work.learns = learns;
  work.issued = ++issued_;
  ++stream.issued;
  stream.queue.push_back(std::move(work));
}

void Streams::WaitForValue(Stream& stream, const AwaitedValue& awaited) {
  Stream::Work work;
  work.awaited = awaited;
  work.wait = WriterOf(awaited);
  work.issued = ++issued_;
  ++stream.issued;
  stream.queue.push_back(std::move(work));
  changed();
}

const AwaitedValue* Streams::ValueOf(const Stream& stream) const {
  if (stream.queue.empty() || !IsReached(stream.queue.front().wait)) return nullptr;
  const AwaitedValue& awaited = stream.queue.front().awaited;
  return awaited.at == nullptr ? nullptr : &awaited;
}

bool Streams::IsValueAwaited() const {
  return std::any_of(streams_.begin(), streams_.end(),
                     [this](const auto& stream) { return ValueOf(*stream) != nullptr; });
}

bool Streams::IsValueThere() const {
  return std::any_of(streams_.begin(), streams_.end(), [this](const auto& stream) {
    const AwaitedValue* const awaited = ValueOf(*stream);
    return awaited != nullptr && awaited->IsThere();
  });
}

Mark Streams::End(Stream& stream) {
  Mark mark{stream.id, stream.issued, std::make_shared<StreamClock>(HostClock())};
  if (stream.queue.empty()) {
    Merge(*mark.clock, stream.clock);
  } else {
    stream.queue.back().marks.push_back(mark.clock);
  }
  return mark;
}

void Streams::Leave(const std::shared_ptr<Meeting>& meeting, int member) const {
  meeting->members[member].is_gone = true;
  changed();
}

bool Streams::IsReached(const Mark& mark) const {
  return mark.stream < 0 || streams_[mark.stream]->done >= mark.place;
}

bool Streams::IsReady(const Meeting& meeting) const {
  return !meeting.is_stuck &&
         std::all_of(meeting.members.begin(), meeting.members.end(), [&](const auto& member) {
           return member.stream != nullptr && !member.is_gone &&
                  member.stream->done + 1 == member.place && (!meeting.on_come || member.has_come);
         });
}

bool Streams::IsRunnable(const Stream& stream) const {
  if (stream.queue.empty()) return false;
  const Stream::Work& work = stream.queue.front();
  if (!IsReached(work.wait)) return false;
  if (!work.awaited.IsThere() && !has_failed(stream.device)) return false;
  if (!stream.is_elsewhere && std::any_of(work.parts.begin(), work.parts.end(), IsToTell)) {
    return true;
  }
  return AreEnded(work.parts) || has_failed(stream.device) ||
         std::any_of(work.parts.begin(), work.parts.end(),
                     [&](const Part& part) { return !IsEnded(part) && IsReady(*part.meeting); });
}

// On the way from a stream to what it waits for, the first that can run.
Stream* Streams::FindRunnable(Stream& stream, std::set<Stream*>& seen) {
  if (!seen.insert(&stream).second) return nullptr;
  if (IsRunnable(stream)) return &stream;
  if (stream.queue.empty()) return nullptr;
  const Stream::Work& work = stream.queue.front();
  if (!IsReached(work.wait)) return FindRunnable(*streams_[work.wait.stream], seen);
  for (const Part& part : work.parts) {
    for (const Meeting::Member& member : part.meeting->members) {
      if (IsEnded(part) || member.stream == nullptr) continue;
      if (Stream* const found = FindRunnable(*member.stream, seen)) return found;
    }
  }
  return nullptr;
}

// Where a value is missing, the host's threads may be about to write it, or wait for a host
// function themselves: those run as late, and one by one.
Stream* Streams::ChooseLatest(Stream& wanted) {
  constexpr int kMoments = 20;
  for (int moment = 0; moment < kMoments; ++moment) {
    std::set<Stream*> seen;
    Stream* const next = FindRunnable(wanted, seen);
    if (next != nullptr || !IsValueAwaited()) return next;
    let_others_act_shortly();
  }
  std::map<uint64_t, Stream*> with_host_functions;  // by the first one's number
  for (const auto& stream : streams_) {
    const auto first = std::find_if(stream->queue.begin(), stream->queue.end(),
                                    [](const Stream::Work& work) { return work.is_for_host; });
    if (first != stream->queue.end()) with_host_functions[first->issued] = stream.get();
  }
  for (const auto& [number, stream] : with_host_functions) {
    std::set<Stream*> seen;
    if (Stream* const next = FindRunnable(*stream, seen)) return next;
  }
  return nullptr;
}

// What runs next of all that may, where `wanted` is waited for; null: nothing can.
Stream* Streams::Choose(Stream& wanted) {
  if (machine_.options.stream_order == StreamOrder::kLatest) return ChooseLatest(wanted);
  std::vector<Stream*> can;
  for (const auto& stream : streams_) {
    if (IsRunnable(*stream)) can.push_back(stream.get());
  }
  if (can.empty()) return nullptr;
  if (machine_.options.stream_order == StreamOrder::kRandom) return can[random_.Below(can.size())];
  return *std::min_element(can.begin(), can.end(), [](const Stream* a, const Stream* b) {
    return a->queue.front().issued < b->queue.front().issued;
  });
}

// The stream has come to its first work; false: the device has failed.
bool Streams::Begin(Stream& stream) {
  Stream::Work& work = stream.queue.front();
  if (work.id != kNever || stream.is_elsewhere) return true;
  Merge(stream.clock, work.host);
  if (stream.clock.size() <= static_cast<size_t>(stream.id)) stream.clock.resize(stream.id + 1);
  stream.clock[stream.id] = stream.done + 1;
  const std::string& label = work.label.text;
  work.id = machine_.operations.Add(label.empty() ? work.name : work.name + " of " + label,
                                    stream.id, stream.clock, stream.device);
  if (!label.empty()) {
    pieces_.push_back({label, work.label.turn, work.name, stream.id, stream.clock});
  }
  if (may_run(stream.device)) return true;
  for (const Part& part : work.parts) part.meeting->members[part.member].is_gone = true;
  work.run = nullptr;
  return false;
}

Mark Streams::WriterOf(const AwaitedValue& awaited) const {
  const auto writers = writers_.find(awaited.at);
  if (writers == writers_.end()) return {};
  for (const auto& [value, mark] : writers->second) {
    if (static_cast<int32_t>(value - awaited.value) >= 0) return mark;
  }
  return {};
}

void Streams::Finish(Stream& stream) {
  const Stream::Work work = std::move(stream.queue.front());
  stream.queue.pop_front();
  if (work.learns && work.wait.stream >= 0) Merge(stream.clock, *work.wait.clock);
  Merge(stream.clock, work.learnt);
  if (work.awaited.at != nullptr) {
    ++values_seen_;
    if (work.wait.stream < 0) {
      // Who wrote it without a word may have been told of all that host threads have waited for.
      const Mark writer = WriterOf(work.awaited);
      const bool known = writer.stream >= 0 && IsReached(writer);
      Merge(stream.clock, known ? *writer.clock : devices_[stream.device]);
    }
  }
  ++stream.done;
  for (const auto& mark : work.marks) Merge(*mark, stream.clock);
  changed();
}

void Streams::FinishIfDone(Stream& stream) {
  if (!stream.queue.empty() && AreEnded(stream.queue.front().parts)) Finish(stream);
}

void Streams::RunMeeting(Meeting& meeting) {
  std::vector<OperationId> ids;
  for (const Meeting::Member& member : meeting.members) {
    if (!Begin(*member.stream)) return;
    ids.push_back(member.stream->queue.front().id);
  }
  meeting.run(ids);
  meeting.is_over = true;
  const int count = static_cast<int>(meeting.members.size());
  for (int to = 0; to < count; ++to) {
    StreamClock& learnt = meeting.members[to].stream->queue.front().learnt;
    for (int from = 0; from < count; ++from) {
      const Stream& other = *meeting.members[from].stream;
      // Memory is a process's own: what others did orders nothing here.
      if (from == to || other.is_elsewhere || !meeting.orders(from, to)) continue;
      StreamClock before = other.clock;  // its part itself may still go on
      --before[other.id];
      Merge(learnt, before);
    }
  }
}

void Streams::Step(Stream& stream) {
  Stream::Work& work = stream.queue.front();
  if (work.parts.empty()) {
    if (work.run && Begin(stream)) work.run(work.id);
    Finish(stream);
    return;
  }
  if (has_failed(stream.device)) {
    for (const Part& part : work.parts) part.meeting->members[part.member].is_gone = true;
  }
  const std::vector<Part> parts = work.parts;
  for (const Part& part : parts) {
    if (!IsToTell(part) || !Begin(stream)) continue;
    part.meeting->members[part.member].has_come = true;
    part.meeting->on_come(part.member, work.id);
  }
  for (const Part& part : parts) {
    if (IsEnded(part) || !IsReady(*part.meeting)) continue;
    RunMeeting(*part.meeting);
    for (const Meeting::Member& member : part.meeting->members) {
      if (member.stream != &stream) FinishIfDone(*member.stream);
    }
  }
  FinishIfDone(stream);
}

std::string Streams::DescribeWait(const Stream& stream) const {
  if (stream.queue.empty() || !IsReached(stream.queue.front().wait)) return "";
  const Stream::Work& work = stream.queue.front();
  if (!work.awaited.IsThere()) {
    return "a stream waits for the value " + std::to_string(work.awaited.value) + " in " +
           machine_.memory.Locate(reinterpret_cast<uint64_t>(work.awaited.at)) +
           ", which the host does not write";
  }
  std::string text;
  for (const Part& part : work.parts) {
    if (IsEnded(part)) continue;
    for (const Meeting::Member& member : part.meeting->members) {
      std::string why;
      if (member.is_gone) {
        why = ", which has left it";
      } else if (member.stream == nullptr) {
        why = ", which has not issued it";
      } else if (member.stream->done + 1 != member.place) {
        const Stream::Work& other = member.stream->queue.front();
        why =
            ", whose stream stands at " + (other.name.empty() ? "a wait for an event" : other.name);
      } else if (part.meeting->on_come && !member.has_come) {
        why = ", whose stream has not come to it";
      }
      if (why.empty() && part.meeting->is_stuck) why = ", whose communicator has failed";
      if (!why.empty()) text += (text.empty() ? "" : "; ") + member.who + why;
    }
  }
  return text.empty() ? "" : work.name + " waits for " + text;
}

std::string Streams::DescribeWaits() const {
  std::string text;
  for (const auto& stream : streams_) {
    const std::string line = DescribeWait(*stream);
    if (!line.empty()) text += line + "\n";
  }
  return text;
}

bool Streams::IsUpToOthers() const {
  return std::any_of(streams_.begin(), streams_.end(), [this](const auto& stream) {
    if (stream->is_elsewhere || stream->queue.empty()) return false;
    const Stream::Work& work = stream->queue.front();
    return IsReached(work.wait) &&
           std::any_of(work.parts.begin(), work.parts.end(),
                       [](const Part& part) { return part.meeting->on_come && !IsEnded(part); });
  });
}

void Streams::RunUntil(const Mark& mark) {
  if (mark.stream < 0) return;
  Stream& stream = *streams_[mark.stream];
  while (stream.done < mark.place) {
    if (Stream* const next = Choose(stream)) {
      Step(*next);
    } else if (!let_others_act() && !IsUpToOthers()) {
      for (const auto& any : streams_) {
        const std::string text = DescribeWait(*any);
        if (!text.empty()) {
          machine_.findings.Report(FindingKind::kDeadlock, any->queue.front().name, 0, text);
        }
      }
      fail_all();
    }
  }
  Merge(devices_[CurrentDevice()], *mark.clock);
  Merge(threads_[ThreadNumber()], *mark.clock);
}

void Streams::RunAll() {
  const int device = CurrentDevice();
  for (size_t i = 0; i < streams_.size(); ++i) {  // other threads may create some meanwhile
    if (streams_[i]->device == device) RunUntil(End(*streams_[i]));
  }
  machine_.operations.Settle(device);
}

bool Streams::RunTowards(const Mark& mark) {
  Stream* const next = Choose(*streams_[mark.stream]);
  if (next != nullptr) Step(*next);
  return next != nullptr;
}

}  // namespace strata::standin
