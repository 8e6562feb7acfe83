#include "device/standin/nccl_world.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

namespace strata::standin {
namespace {

uint64_t worlds_made = 0;

std::string KeyOf(const ncclUniqueId& id) { return {id.internal, sizeof id.internal}; }

}  // namespace

// What a thread has issued since its ncclGroupStart.
struct NcclWorld::Group {
  uint64_t world = 0;
  int depth = 0;
  ncclResult_t error = ncclSuccess;  // the first
  std::vector<std::pair<ncclComm*, Issue>> issues;
  std::vector<ncclComm*> forming;

  ~Group() {
    if (depth == 0) return;
    const std::lock_guard<std::recursive_mutex> lock(Runtime::Mutex());
    NcclWorld& now = Of(Runtime::Get());
    if (now.number_ == world) now.Refuse(nullptr, ncclInvalidUsage, Text("the thread ends"));
  }
  std::string Text(const std::string& event) const {
    std::string text = event + " without an ncclGroupEnd for its ncclGroupStart";
    if (!issues.empty()) {
      text += ": " + TextOf(issues[0].second.calls[0]) + " by " + issues[0].first->Name() +
              " was not issued";
    }
    return text;
  }
};

NcclWorld::NcclWorld(Runtime& runtime)
    : runtime_(runtime), matching_(runtime.machine()), number_(++worlds_made) {
  if (!runtime.machine().options.ranks_are_processes) return;
  processes_ = std::make_unique<NcclProcesses>(runtime, matching_);
}

NcclWorld& NcclWorld::Of(Runtime& runtime) {
  if (runtime.extension == nullptr) runtime.extension = std::make_unique<NcclWorld>(runtime);
  return static_cast<NcclWorld&>(*runtime.extension);
}

NcclWorld::Group& NcclWorld::ThreadGroup() const {
  thread_local Group group;
  if (group.world != number_) {
    group.depth = 0;
    group = Group{};
    group.world = number_;
  }
  return group;
}

ncclResult_t NcclWorld::Refuse(ncclComm* comm, ncclResult_t result, const std::string& text) {
  if (comm != nullptr) comm->error = text;
  runtime_.machine().findings.Report(FindingKind::kCollective, text, 0, text);
  return result;
}

void NcclWorld::OnMark(Stream& stream, const char* what) {
  const Group& group = ThreadGroup();
  for (const auto& [comm, issue] : group.issues) {
    const auto& streams = issue.streams;
    if (std::find(streams.begin(), streams.end(), &stream) == streams.end()) continue;
    Refuse(comm, ncclInvalidUsage, group.Text(what));
  }
}

template <typename Condition>
bool NcclWorld::Await(const std::string& who, const char* for_what, Condition&& condition) {
  while (!condition()) {
    const bool acted = runtime_.LetOthersAct(runtime_.machine().options.patience_seconds);
    if (acted || processes_ != nullptr) continue;  // other processes take their time
    runtime_.machine().findings.Report(FindingKind::kDeadlock, who, 0,
                                       who + " waits for " + for_what);
    return false;
  }
  return true;
}

// ---- Beginnings

ncclUniqueId NcclWorld::MakeId() {
  ncclUniqueId id{};
  const std::string text = processes_ != nullptr ? NcclProcesses::NewId()
                                                 : "stand-in " + std::to_string(ids_.size() + 1);
  std::memcpy(id.internal, text.data(), text.size());
  ids_[KeyOf(id)] = nullptr;
  return id;
}

ncclComm* NcclWorld::MakeComm(bool blocking) {
  comms_.push_back(std::make_unique<ncclComm>());
  ncclComm* const comm = comms_.back().get();
  comm->device = CurrentDevice();
  comm->is_blocking = blocking;
  return comm;
}

ncclResult_t NcclWorld::Join(ncclComm_t* made, int size, const ncclUniqueId& id, int rank,
                             bool blocking) {
  *made = nullptr;
  if (processes_ != nullptr && NcclProcesses::IsId(id)) ids_.try_emplace(KeyOf(id));
  const auto found = ids_.find(KeyOf(id));
  if (found == ids_.end()) {
    return Refuse(nullptr, ncclInvalidArgument, "an id that ncclGetUniqueId has not made");
  }
  if (size < 1 || rank < 0 || rank >= size) {
    return Refuse(nullptr, ncclInvalidArgument,
                  "rank " + std::to_string(rank) + " of " + std::to_string(size));
  }
  std::shared_ptr<Clique>& clique = found->second;
  if (clique == nullptr) {
    clique = std::make_shared<Clique>();
    clique->number = ++cliques_made_;
    clique->members.resize(size);
    clique->is_gone.resize(size);
  }
  const std::string who = clique->NameOf(rank);
  if (clique->room != nullptr) {
    return Refuse(nullptr, ncclInvalidUsage, who + " joins beside another rank of its process");
  }
  if (clique->size() != size) {
    return Refuse(nullptr, ncclInvalidUsage,
                  who + " joins one of " + std::to_string(size) + " ranks, others one of " +
                      std::to_string(clique->size()));
  }
  if (clique->members[rank] != nullptr) {
    return Refuse(nullptr, ncclInvalidUsage, who + " joins twice");
  }
  for (const ncclComm* const other : clique->members) {
    if (other == nullptr || other->device != CurrentDevice()) continue;
    return Refuse(
        nullptr, ncclInvalidUsage,
        who + " joins on device " + std::to_string(other->device) + ", as has " + other->Name());
  }
  ncclComm* const comm = MakeComm(blocking);
  comm->clique = clique;
  comm->rank = rank;
  clique->members[rank] = comm;
  ++clique->joined;
  if (processes_ != nullptr && !processes_->Join(*comm, id)) {
    return Refuse(comm, ncclInvalidUsage, who + " joins twice");
  }
  runtime_.NoteChange();
  *made = comm;
  return AwaitFormed(*comm);
}

ncclResult_t NcclWorld::AwaitFormed(ncclComm& comm) {
  if (Group& group = ThreadGroup(); group.depth > 0) {
    group.forming.push_back(&comm);
    return comm.is_blocking ? ncclSuccess : ncclInProgress;
  }
  const auto formed = [&] {
    return comm.failure != ncclSuccess || (comm.clique != nullptr && comm.clique->IsFormed());
  };
  if (!comm.is_blocking) return ncclInProgress;
  if (!Await(comm.Name(), "members that have not joined", formed)) return ncclSystemError;
  return comm.failure;
}

ncclResult_t NcclWorld::Split(ncclComm& parent, int color, int key, bool blocking,
                              ncclComm_t* made) {
  *made = nullptr;
  if (const ncclResult_t state = State(parent); state != ncclSuccess) {
    if (state != ncclInProgress) return state;
    return Refuse(&parent, ncclInvalidArgument,
                  parent.Name() + " is split before its last call has ended");
  }
  if (!runtime_.streams().IsReached(parent.last)) {
    return Refuse(&parent, ncclInvalidUsage,
                  parent.Name() + " is split while operations of it are outstanding");
  }
  Clique& clique = *parent.clique;
  if (clique.room != nullptr) {
    return Refuse(&parent, ncclInvalidUsage,
                  parent.Name() + " is split: the stand-in cannot, between processes");
  }
  ncclComm* const child = color == NCCL_SPLIT_NOCOLOR ? nullptr : MakeComm(blocking);
  parent.is_splitting = true;
  const uint64_t sequence = parent.splits++;
  auto& splits = clique.splits[sequence];
  splits.resize(clique.size());
  splits[parent.rank] = Clique::Split{color, key, child, made};
  if (std::all_of(splits.begin(), splits.end(), [](const auto& s) { return s.has_value(); })) {
    FormSplits(clique, splits);
    clique.splits.erase(sequence);
    runtime_.NoteChange();
  }
  if (!parent.is_blocking) return ncclInProgress;
  const bool ended =
      Await(parent.Name(), "members that have not split it", [&] { return !parent.is_splitting; });
  return ended ? ncclSuccess : ncclSystemError;
}

void NcclWorld::FormSplits(Clique& parent, std::vector<std::optional<Clique::Split>> splits) {
  std::map<int, std::vector<std::tuple<int, int, ncclComm*>>> colors;  // key, rank before
  for (int rank = 0; rank < parent.size(); ++rank) {
    parent.members[rank]->is_splitting = false;
    const Clique::Split& split = *splits[rank];
    if (split.made != nullptr) *split.made = split.child;
    if (split.child != nullptr) colors[split.color].emplace_back(split.key, rank, split.child);
  }
  for (auto& [color, members] : colors) {
    std::sort(members.begin(), members.end());
    const auto clique = std::make_shared<Clique>();
    clique->number = ++cliques_made_;
    clique->joined = static_cast<int>(members.size());
    clique->is_gone.resize(members.size());
    for (const auto& [key, before, child] : members) {
      child->clique = clique;
      child->rank = clique->size();
      clique->members.push_back(child);
    }
  }
}

// ---- Use

ncclComm* NcclWorld::Find(ncclComm_t handle, const char* call) {
  for (const auto& comm : comms_) {
    if (comm.get() != handle) continue;
    if (comm->end.empty()) return comm.get();
    Refuse(nullptr, ncclInvalidArgument,
           std::string(call) + " on " + comm->Name() + ", which " + comm->end);
    return nullptr;
  }
  Refuse(nullptr, ncclInvalidArgument, std::string(call) + " on what is no communicator");
  return nullptr;
}

ncclResult_t NcclWorld::State(const ncclComm& comm) const {
  if (comm.failure != ncclSuccess) return comm.failure;
  if (comm.clique == nullptr || !comm.clique->IsFormed() || comm.is_splitting ||
      comm.waiting.has_value()) {
    return ncclInProgress;
  }
  if (!comm.is_finalized) return ncclSuccess;
  const bool ended = comm.clique->finalized == comm.clique->size();
  return ended && runtime_.streams().IsReached(comm.last) ? ncclSuccess : ncclInProgress;
}

ncclResult_t NcclWorld::Poll(ncclComm& comm) {
  if (comm.waiting.has_value() && --comm.polls_left <= 0) {
    const Issue issue = *std::exchange(comm.waiting, std::nullopt);
    Place(comm, issue);
  }
  if (comm.is_finalized && !runtime_.streams().IsReached(comm.last)) {
    runtime_.streams().RunTowards(comm.last);
  }
  return State(comm);
}

std::string NcclWorld::WrongMemory(const ncclComm& comm, const NcclCall& call, uint64_t begin,
                                   uint64_t bytes) {
  if (bytes == 0) return "";
  DeviceMemory& memory = runtime_.machine().memory;
  const Region* const region = memory.Find(begin);
  if (region == nullptr) return "uses what is no memory of a device: " + memory.Locate(begin);
  if (region->kind == Region::Kind::kDevice && region->device != comm.device) {
    return "uses another device's " + memory.Locate(begin);
  }
  return begin % BytesOf(call.type) == 0 ? "" : "uses a misaligned address";
}

std::string NcclWorld::WrongArgument(const ncclComm& comm, const NcclCall& call,
                                     const Stream& stream) {
  const int size = comm.clique->size();
  if (stream.device != comm.device) {
    return "is issued to a stream of device " + std::to_string(stream.device);
  }
  if (BytesOf(call.type) == 0) return "has no such type";
  if (call.peer < 0 || call.peer >= size) {
    return "names rank " + std::to_string(call.peer) + " of " + std::to_string(size);
  }
  const NcclBuffers buffers = BuffersOf(call, comm.rank, size);
  std::string wrong = WrongMemory(comm, call, buffers.read, buffers.read_bytes);
  if (wrong.empty()) wrong = WrongMemory(comm, call, buffers.write, buffers.write_bytes);
  return wrong.empty() ? WrongOverlap(call, comm.rank, size) : wrong;
}

ncclResult_t NcclWorld::StartGroup() {
  ++ThreadGroup().depth;
  return ncclSuccess;
}

ncclResult_t NcclWorld::EndGroup() {
  Group& group = ThreadGroup();
  if (group.depth == 0) {
    return Refuse(nullptr, ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  }
  if (--group.depth > 0) return ncclSuccess;
  const auto issues = std::exchange(group.issues, {});
  const auto forming = std::exchange(group.forming, {});
  ncclResult_t result = std::exchange(group.error, ncclSuccess);
  if (result != ncclSuccess) return result;
  const auto keep = [&](ncclResult_t next) {
    if (result == ncclSuccess || result == ncclInProgress) {
      result = next == ncclSuccess ? result : next;
    }
  };
  for (ncclComm* const comm : forming) keep(AwaitFormed(*comm));
  for (const auto& [comm, issue] : issues) keep(Put(*comm, issue));
  return result;
}

ncclResult_t NcclWorld::Call(ncclComm& comm, const NcclCall& call, cudaStream_t handle) {
  const std::string what = TextOf(call) + " by " + comm.Name();
  Group& group = ThreadGroup();
  const auto fail = [&](ncclResult_t result) {
    if (group.depth > 0 && group.error == ncclSuccess) group.error = result;
    return result;
  };
  Stream* const stream = runtime_.Find(handle, what.c_str());
  if (stream == nullptr) {
    return fail(Refuse(&comm, ncclInvalidArgument, what + " is issued to no stream"));
  }
  if (const ncclResult_t state = State(comm); state == ncclInProgress) {
    return fail(Refuse(&comm, ncclInvalidArgument,
                       what + " is issued before the last call has ended (ncclInProgress)"));
  } else if (state != ncclSuccess) {
    return fail(state);
  }
  if (comm.is_finalized) {
    return fail(Refuse(&comm, ncclInvalidUsage, what + " is issued after ncclCommFinalize"));
  }
  if (call.sum != ncclSum) {
    runtime_.machine().findings.Report(FindingKind::kUnsupported, what, 0, what + ": not a sum");
    return fail(ncclInvalidArgument);
  }
  if (const std::string wrong = WrongArgument(comm, call, *stream); !wrong.empty()) {
    return fail(Refuse(&comm, ncclInvalidArgument, what + " " + wrong));
  }
  if (group.depth == 0) return Put(comm, {{call}, {stream}});
  auto issue = std::find_if(group.issues.begin(), group.issues.end(),
                            [&](const auto& other) { return other.first == &comm; });
  if (issue == group.issues.end()) {
    group.issues.push_back({&comm, {}});
    issue = std::prev(group.issues.end());
  }
  issue->second.calls.push_back(call);
  auto& streams = issue->second.streams;
  if (std::find(streams.begin(), streams.end(), stream) == streams.end()) {
    streams.push_back(stream);
  }
  return ncclSuccess;
}

ncclResult_t NcclWorld::Put(ncclComm& comm, Issue issue) {
  std::vector<NcclBuffers> buffers;
  for (const NcclCall& call : issue.calls) {
    buffers.push_back(BuffersOf(call, comm.rank, comm.clique->size()));
    for (size_t other = 0; other + 1 < buffers.size(); ++other) {
      if (!Collide(buffers[other], buffers.back())) continue;
      Refuse(&comm, ncclInvalidUsage,
             "in one group, " + TextOf(issue.calls[other]) + " and " + TextOf(call) + " by " +
                 comm.Name() + " use the same memory, and one writes it");
    }
  }
  if (comm.is_blocking || polls_to_issue_ == 0) {
    Place(comm, issue);
    return ncclSuccess;
  }
  comm.polls_left = polls_to_issue_;
  comm.waiting = std::move(issue);
  return ncclInProgress;
}

void NcclWorld::Place(ncclComm& comm, const Issue& issue) {
  const OnDevice on_device(comm.device);
  Streams& streams = runtime_.streams();
  Stream& stream = *issue.streams[0];
  for (size_t i = 1; i < issue.streams.size(); ++i) {
    streams.Wait(stream, streams.End(*issue.streams[i]));
  }
  runtime_.EnqueueMade(stream, TextOf(issue.calls[0]), [this, &comm, calls = issue.calls]() {
    if (comm.end.empty()) {
      const uint64_t number = matching_.NextNumber(comm);
      Made made = matching_.Match(comm, calls, number);
      if (comm.clique->room != nullptr) processes_->TellIssue(comm, number, calls);
      return made;
    }
    Refuse(nullptr, ncclInvalidArgument,
           "a graph has " + TextOf(calls[0]) + " of " + comm.Name() + ", which " + comm.end);
    return Made{};
  });
  for (size_t i = 1; i < issue.streams.size(); ++i) {
    streams.Wait(*issue.streams[i], streams.End(stream));
  }
}

// ---- Ends

ncclResult_t NcclWorld::Finalize(ncclComm& comm) {
  if (comm.is_finalized) {
    return Refuse(&comm, ncclInvalidUsage, comm.Name() + " is finalized twice");
  }
  if (const ncclResult_t state = State(comm); state != ncclSuccess) {
    if (state != ncclInProgress) return state;
    return Refuse(&comm, ncclInvalidArgument,
                  comm.Name() + " is finalized before its last call has ended");
  }
  comm.is_finalized = true;
  ++comm.clique->finalized;
  if (comm.clique->room != nullptr) processes_->TellFinalize(comm);
  runtime_.NoteChange();
  if (!comm.is_blocking) return ncclInProgress;
  runtime_.streams().RunUntil(comm.last);
  const bool ended = Await(comm.Name(), "members that have not finalized it",
                           [&] { return State(comm) != ncclInProgress; });
  return ended ? State(comm) : ncclSystemError;
}

ncclResult_t NcclWorld::Destroy(ncclComm& comm) {
  if (State(comm) == ncclInProgress) {
    return Refuse(&comm, ncclInvalidUsage,
                  comm.Name() + " is destroyed before its last call has ended");
  }
  for (const auto& [begin, bytes] : comm.registered) {
    const Region* const region = runtime_.machine().memory.Find(begin);
    if (region != nullptr && region->Holds(begin, bytes)) continue;
    Refuse(&comm, ncclInvalidUsage,
           comm.Name() + " had memory registered when it was freed: " +
               runtime_.machine().memory.Locate(begin));
  }
  if (comm.failure == ncclSuccess) runtime_.streams().RunUntil(comm.last);
  Leave(comm);
  comm.end = "was destroyed";
  return ncclSuccess;
}

void NcclWorld::Abort(ncclComm& comm) {
  comm.waiting = std::nullopt;
  Leave(comm);
  comm.end = "was aborted";
}

// Its parts end; of what it has not issued, the other members learn only by waiting.
void NcclWorld::Leave(ncclComm& comm) {
  EndParts(comm);
  if (comm.clique == nullptr) return;
  if (processes_ != nullptr) processes_->Leave(comm);
  Clique& clique = *comm.clique;
  clique.is_gone[comm.rank] = true;
  for (auto& [sequence, splits] : clique.splits) {
    if (splits[comm.rank].has_value()) splits[comm.rank]->made = nullptr;
  }
  for (auto& [sequence, exchange] : clique.collectives) {
    exchange->meeting.members[comm.rank].is_gone = true;
  }
  for (auto& [ends, open] : clique.messages) {
    for (const auto& exchange : open) {
      if (ends.first == comm.rank) exchange->meeting.members[0].is_gone = true;
      if (ends.second == comm.rank) exchange->meeting.members[1].is_gone = true;
    }
  }
  runtime_.NoteChange();
}

void NcclWorld::EndParts(const ncclComm& comm) {
  for (const Part& part : comm.parts) {
    if (!part.meeting->is_over) runtime_.streams().Leave(part.meeting, part.member);
  }
}

void NcclWorld::Fail(int device, ncclResult_t error) {
  for (const auto& comm : comms_) {
    if (comm->device != device || !comm->end.empty()) continue;
    comm->failure = error;
    comm->error = "a failure that a test asked for";
    for (const Part& part : comm->parts) part.meeting->is_stuck = true;
  }
  runtime_.NoteChange();
}

void NcclWorld::CutOff(int device, int n, ncclResult_t error) {
  for (const auto& comm : comms_) {
    if (comm->device != device || n-- != 0) continue;
    comm->failure = error;
    EndParts(*comm);
  }
  runtime_.NoteChange();
}

}  // namespace strata::standin
