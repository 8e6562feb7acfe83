#include "device/standin/nccl_processes.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

namespace strata::standin {
namespace {

constexpr char kIdBegin[] = "strata-nccl-";
constexpr int kFirstDevice = 1 << 20;  // of other processes

enum Kind : uint32_t { kHello, kIssue, kCome, kFinalize };

struct Hello {
  int32_t size, process;
};

// A call as it travels: all but where its memory is.
struct SentCall {
  int32_t place, op, type, peer, sum;
  uint64_t count;
};

template <typename T>
void Append(std::vector<std::byte>& bytes, const T& value) {
  const auto* from = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), from, from + sizeof value);
}

// As many as there are.
template <typename T>
std::vector<T> Parse(const std::vector<std::byte>& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

}  // namespace

NcclProcesses::NcclProcesses(Runtime& runtime, NcclMatching& matching)
    : runtime_(runtime), matching_(matching), wire_([this] { return RunWanted(); }) {
  matching_.tell_come = [this](const Clique& clique, const Exchange& exchange, int member,
                               OperationId id) { TellCome(clique, exchange, member, id); };
}

std::string NcclProcesses::NewId() {
  uint64_t random[2] = {};
  static_cast<void>(!getrandom(random, sizeof random, 0));
  char text[64];
  std::snprintf(text, sizeof text, "%s%016lx%016lx", kIdBegin, random[0], random[1]);
  return text;
}

bool NcclProcesses::IsId(const ncclUniqueId& id) {
  return std::strncmp(id.internal, kIdBegin, sizeof kIdBegin - 1) == 0 &&
         id.internal[sizeof id.internal - 1] == '\0';
}

bool NcclProcesses::Join(ncclComm& comm, const ncclUniqueId& id) {
  NcclWire::Frame hello{.kind = kHello};
  Append(hello.bytes, Hello{comm.clique->size(), static_cast<int32_t>(getpid())});
  comm.clique->room = wire_.Open(
      id.internal, comm.rank, comm.clique->size(), std::move(hello),
      {.hear = [this, &comm](int from,
                             NcclWire::Frame frame) { Hear(comm, from, std::move(frame)); },
       .gone = [this, &comm](int from) { HearGone(comm, from); }});
  if (comm.clique->room == nullptr) return false;
  comms_.push_back(&comm);
  return true;
}

// ---- What is told

void NcclProcesses::TellIssue(ncclComm& comm, uint64_t number, const std::vector<NcclCall>& calls) {
  Clique& clique = *comm.clique;
  for (int to = 0; to < clique.size(); ++to) {
    NcclWire::Frame frame{.kind = kIssue, .number = number};
    for (size_t place = 0; place < calls.size(); ++place) {
      const NcclCall& call = calls[place];
      if (call.IsMessage() && call.peer != to) continue;
      Append(frame.bytes, SentCall{static_cast<int32_t>(place), static_cast<int32_t>(call.op),
                                   call.type, call.peer, call.sum, call.count});
    }
    if (to == comm.rank || frame.bytes.empty()) continue;
    wire_.Send(*clique.room, to, frame);
    if (clique.members[to] != nullptr) CheckEnd(comm, *clique.members[to]);
  }
}

void NcclProcesses::TellCome(const Clique& clique, const Exchange& exchange, int member,
                             OperationId id) {
  NcclWire::Frame frame{.kind = kCome,
                        .index = static_cast<uint32_t>(exchange.places[member]),
                        .number = exchange.numbers[member]};
  frame.bytes = ReadInput(runtime_.machine(), id, *exchange.calls[member], exchange.ranks[member],
                          clique.size());
  for (const int to : exchange.ranks) {
    if (to != exchange.ranks[member]) wire_.Send(*clique.room, to, frame);
  }
}

void NcclProcesses::TellFinalize(const ncclComm& comm) {
  for (int to = 0; to < comm.clique->size(); ++to) {
    if (to != comm.rank) wire_.Send(*comm.clique->room, to, {.kind = kFinalize});
  }
}

void NcclProcesses::Leave(ncclComm& comm) {
  std::erase(comms_, &comm);
  if (comm.clique->room == nullptr) return;
  for (const ncclComm* const other : comm.clique->members) {
    if (other == nullptr || other == &comm) continue;
    for (const Part& part : other->parts) {
      if (!part.meeting->is_over) runtime_.streams().Leave(part.meeting, part.member);
    }
  }
  wire_.Close(*std::exchange(comm.clique->room, nullptr));
}

// ---- What is heard

void NcclProcesses::Hear(ncclComm& comm, int from, NcclWire::Frame frame) {
  ncclComm* const other = comm.clique->members[from];
  if (frame.kind == kHello) {
    HearHello(comm, from, frame);
  } else if (other == nullptr) {
    return;  // it said something else first, and failed
  } else if (frame.kind == kIssue) {
    HearIssue(*other, frame);
  } else if (frame.kind == kCome) {
    HearCome(*other, std::move(frame));
  } else if (frame.kind == kFinalize) {
    other->is_finalized = true;
    ++comm.clique->finalized;
    CheckEnd(comm, *other);
  }
  runtime_.NoteChange();
}

void NcclProcesses::HearHello(ncclComm& comm, int from, const NcclWire::Frame& frame) {
  const std::vector<Hello> hello = Parse<Hello>(frame.bytes);
  Clique& clique = *comm.clique;
  if (hello.size() != 1 || clique.members[from] != nullptr) return;
  if (hello[0].size != clique.size()) {
    const std::string text = clique.NameOf(from) + " joins one of " +
                             std::to_string(hello[0].size) + " ranks, " + comm.Name() + " one of " +
                             std::to_string(clique.size());
    runtime_.machine().findings.Report(FindingKind::kCollective, text, 0, text);
    return Fail(comm, ncclInvalidUsage, text);
  }
  const auto device =
      devices_.try_emplace(hello[0].process, kFirstDevice + static_cast<int>(devices_.size()));
  ncclComm& other = *elsewhere_.emplace_back(std::make_unique<ncclComm>());
  other.clique = comm.clique;
  other.rank = from;
  other.device = device.first->second;
  const OnDevice on_device(other.device);
  other.stream = runtime_.streams().Create();
  other.stream->is_elsewhere = true;
  clique.members[from] = &other;
  ++clique.joined;
}

void NcclProcesses::HearIssue(ncclComm& other, const NcclWire::Frame& frame) {
  std::vector<NcclCall> calls;
  std::vector<int> places;
  for (const SentCall& sent : Parse<SentCall>(frame.bytes)) {
    NcclCall call{.op = static_cast<NcclOp>(sent.op)};
    call.count = sent.count;
    call.type = static_cast<ncclDataType_t>(sent.type);
    call.peer = sent.peer;
    call.sum = static_cast<ncclRedOp_t>(sent.sum);
    calls.push_back(call);
    places.push_back(sent.place);
  }
  const OnDevice on_device(other.device);
  runtime_.streams().Put(*other.stream, "", matching_.Match(other, calls, frame.number, places));
}

void NcclProcesses::HearCome(ncclComm& other, NcclWire::Frame frame) {
  const auto expected = other.expected.find(frame.number);
  if (expected == other.expected.end()) return;
  std::vector<MemberOf>& members = expected->second;
  const auto of = std::find_if(members.begin(), members.end(), [&](const MemberOf& member) {
    return member.exchange->places[member.member] == static_cast<int>(frame.index);
  });
  if (of == members.end()) return;
  of->exchange->elsewhere[of->member] = std::move(frame.bytes);
  of->exchange->meeting.members[of->member].has_come = true;
  members.erase(of);
  if (members.empty()) other.expected.erase(expected);
}

// Without a word: it was killed, or aborted.
void NcclProcesses::HearGone(ncclComm& comm, int from) {
  const ncclComm* const other = comm.clique->members[from];
  if (other != nullptr && other->is_finalized) return;
  Fail(comm, ncclRemoteError, comm.clique->NameOf(from) + " has gone");
}

void NcclProcesses::Fail(ncclComm& comm, ncclResult_t result, const std::string& text) {
  if (comm.failure != ncclSuccess) return;
  comm.failure = result;
  comm.error = text;
  runtime_.NoteChange();
}

void NcclProcesses::CheckEnd(const ncclComm& comm, const ncclComm& other) {
  if (!other.is_finalized) return;
  const auto check = [&](const Exchange& exchange) {
    const auto at = std::find(exchange.ranks.begin(), exchange.ranks.end(), other.rank);
    if (at == exchange.ranks.end() || exchange.calls[at - exchange.ranks.begin()].has_value()) {
      return;
    }
    runtime_.machine().findings.Report(FindingKind::kCollective, exchange.name, 0,
                                       comm.Name() + " issues " + exchange.name + ", " +
                                           other.Name() +
                                           " finalizes without it: an operation is left out");
  };
  for (const auto& [sequence, exchange] : comm.clique->collectives) check(*exchange);
  for (const auto& [ends, open] : comm.clique->messages) {
    for (const auto& exchange : open) check(*exchange);
  }
}

int NcclProcesses::RunWanted() {
  struct Wanted {
    int device;
    Mark mark;
  };
  std::vector<Wanted> all;  // first: to run may let others act, who change what is looked at here
  for (const ncclComm* const comm : comms_) {
    for (const Part& part : comm->parts) {
      const std::vector<Meeting::Member>& members = part.meeting->members;
      const Meeting::Member& own = members[part.member];
      if (part.meeting->is_over || own.is_gone || own.has_come || own.stream == nullptr) continue;
      const bool wanted = std::any_of(members.begin(), members.end(),
                                      [](const auto& member) { return member.has_come; });
      if (wanted) all.push_back({comm->device, {own.stream->id, own.place, nullptr}});
    }
  }
  for (const Wanted& wanted : all) {
    const OnDevice on_device(wanted.device);
    if (runtime_.streams().RunTowards(wanted.mark)) return NcclWire::kAtOnce;
  }
  return all.empty() ? NcclWire::kWhenHeard : NcclWire::kSoon;
}

}  // namespace strata::standin
