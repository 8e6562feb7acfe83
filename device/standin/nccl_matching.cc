#include "device/standin/nccl_matching.h"

#include <algorithm>

namespace strata::standin {
namespace {

constexpr size_t kOrdersKept = 256;

bool IsComplete(const Exchange& exchange) {
  return std::all_of(exchange.calls.begin(), exchange.calls.end(),
                     [](const auto& call) { return call.has_value(); });
}

// Whether something of member `from` comes to member `to`.
bool Gives(const NcclCall& call, int from, int to) {
  if (call.op == NcclOp::kBroadcast) return from == call.peer;
  if (call.op == NcclOp::kReduce) return to == call.peer;
  return true;
}

}  // namespace

std::shared_ptr<Exchange> NcclMatching::MakeExchange(const Clique& clique,
                                                     const std::vector<int>& ranks) {
  auto exchange = std::make_shared<Exchange>();
  exchange->clique = clique.number;
  exchange->calls.resize(ranks.size());
  exchange->numbers.resize(ranks.size());
  exchange->places.resize(ranks.size());
  exchange->elsewhere.resize(ranks.size());
  exchange->ranks = ranks;
  for (const int rank : ranks) {
    Meeting::Member member;
    member.who = clique.NameOf(rank);
    member.is_gone = clique.is_gone[rank];
    exchange->meeting.members.push_back(std::move(member));
  }
  if (clique.room == nullptr) return exchange;
  exchange->meeting.on_come = [this, &clique, own = exchange.get()](int member, OperationId id) {
    tell_come(clique, *own, member, id);
  };
  return exchange;
}

void NcclMatching::Compare(Exchange& exchange, int member) {
  for (size_t other = 0; other < exchange.calls.size(); ++other) {
    const auto& theirs = exchange.calls[other];
    if (static_cast<int>(other) == member || !theirs.has_value()) continue;
    if (exchange.is_broken || Agree(*theirs, *exchange.calls[member])) return;
    exchange.is_broken = true;
    const auto name = [&](size_t index) {
      return exchange.meeting.members[index].who + " issues " + TextOf(*exchange.calls[index]);
    };
    machine_.findings.Report(
        FindingKind::kCollective, exchange.name, 0,
        "members disagree about " + exchange.name + ": " + name(member) + ", " + name(other));
    return;
  }
}

// Two ranks issue what they do together in one order, also on different communicators: otherwise
// the kernels of one may keep those of the other from starting, on each of them.
void NcclMatching::CheckOrder(const Clique& clique, const std::shared_ptr<Exchange>& exchange) {
  const auto device = [&](int rank) { return clique.members[rank]->device; };
  for (int a = 0; a < clique.size(); ++a) {
    for (int b = 0; b < clique.size(); ++b) {
      if (clique.is_gone[a] || clique.is_gone[b] || device(a) >= device(b)) continue;
      const Order now{exchange, exchange->numbers[a], exchange->numbers[b]};
      auto& orders = orders_[{device(a), device(b)}];
      for (const Order& before : orders) {
        if (before.exchange->clique == clique.number || before.first == now.first ||
            before.second == now.second ||
            (before.first < now.first) == (before.second < now.second)) {
          continue;
        }
        const bool first = now.first < before.first;
        machine_.findings.Report(
            FindingKind::kCollective, exchange->name + before.exchange->name, 0,
            "different orders: " + clique.NameOf(a) + " issues " + exchange->name +
                (first ? " before " : " after ") + before.exchange->name + ", " + clique.NameOf(b) +
                (first ? " after" : " before") + " it");
      }
      orders.push_back(now);
      if (orders.size() > kOrdersKept) orders.pop_front();
    }
  }
}

void NcclMatching::Enter(ncclComm& comm, const NcclCall& call, const MemberOf& of) {
  of.exchange->calls[of.member] = call;
  if (comm.failure != ncclSuccess) of.exchange->meeting.is_stuck = true;
  Compare(*of.exchange, of.member);
}

MemberOf NcclMatching::MatchCollective(ncclComm& comm, const NcclCall& call) {
  Clique& clique = *comm.clique;
  const uint64_t sequence = comm.collectives++;
  std::shared_ptr<Exchange>& slot = clique.collectives[sequence];
  if (slot == nullptr) {
    std::vector<int> ranks(clique.size());
    for (int rank = 0; rank < clique.size(); ++rank) ranks[rank] = rank;
    slot = MakeExchange(clique, ranks);
    slot->name = "collective #" + std::to_string(sequence) + " of communicator #" +
                 std::to_string(clique.number);
    slot->meeting.orders = [call](int from, int to) { return Gives(call, from, to); };
    slot->meeting.run = [&machine = machine_, own = slot.get()](const auto& ids) {
      if (!own->is_broken) RunCollective(machine, own->calls, ids, own->elsewhere);
    };
  }
  const MemberOf of{slot, comm.rank};
  Enter(comm, call, of);
  if (IsComplete(*of.exchange)) clique.collectives.erase(sequence);
  return of;
}

MemberOf NcclMatching::MatchMessage(ncclComm& comm, const NcclCall& call) {
  Clique& clique = *comm.clique;
  const bool sends = call.op == NcclOp::kSend;
  const int from = sends ? comm.rank : call.peer, to = sends ? call.peer : comm.rank;
  const int member = sends ? 0 : 1;
  auto& open = clique.messages[{from, to}];
  const auto waiting = std::find_if(open.begin(), open.end(), [&](const auto& exchange) {
    return !exchange->calls[member].has_value();
  });
  std::shared_ptr<Exchange> exchange;
  if (waiting != open.end()) {
    exchange = *waiting;
    open.erase(waiting);
  } else {
    exchange = MakeExchange(clique, {from, to});
    exchange->name = "a message from " + clique.NameOf(from) + " to rank " + std::to_string(to);
    exchange->meeting.orders = [](int giver, int) { return giver == 0; };
    exchange->meeting.run = [&machine = machine_, own = exchange.get()](const auto& ids) {
      if (own->is_broken) return;
      RunMessage(machine, *own->calls[0], *own->calls[1], ids, own->elsewhere);
    };
    open.push_back(exchange);
  }
  const MemberOf of{exchange, member};
  Enter(comm, call, of);
  return of;
}

Made NcclMatching::Match(ncclComm& comm, const std::vector<NcclCall>& calls, uint64_t number,
                         const std::vector<int>& places) {
  Made made;
  made.after = comm.last;
  made.name = calls.size() == 1
                  ? TextOf(calls[0])
                  : std::to_string(calls.size()) + " operations from " + TextOf(calls[0]) + " on";
  made.name += " by " + comm.Name();
  std::erase_if(comm.parts, [](const Part& part) { return part.meeting->is_over; });
  for (size_t i = 0; i < calls.size(); ++i) {
    const bool message = calls[i].IsMessage();
    const MemberOf of = message ? MatchMessage(comm, calls[i]) : MatchCollective(comm, calls[i]);
    Exchange& exchange = *of.exchange;
    exchange.numbers[of.member] = number;
    exchange.places[of.member] = places.empty() ? static_cast<int>(i) : places[i];
    if (!message && IsComplete(exchange)) CheckOrder(*comm.clique, of.exchange);
    if (comm.stream != nullptr) comm.expected[number].push_back(of);
    made.parts.push_back({std::shared_ptr<Meeting>(of.exchange, &exchange.meeting), of.member});
  }
  comm.parts.insert(comm.parts.end(), made.parts.begin(), made.parts.end());
  made.placed = [&comm](const Mark& mark) { comm.last = mark; };
  return made;
}

}  // namespace strata::standin
