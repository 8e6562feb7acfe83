#include "controller/service/agent_service.h"

#include <atomic>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/access/network.h"
#include "controller/logic/names.h"
#include "controller/logic/refusal.h"
#include "controller/service/streams/text_limits.h"
#include "proto/strata/v1/agent.grpc.pb.h"
#include "protocol/parts.h"
#include "protocol/versions.h"

namespace strata::controller {
namespace {

using grpc::ByteBuffer;

constexpr char kMethod[] = "AgentService/Session";
// Of one node: its agent's, and those before it that have not noticed their end.
constexpr int64_t kMostSessionsOfNode = 8;
// Messages of one session that wait for the reactor; then nothing more is read from it.
constexpr int kMostWaiting = 64;
// Messages to an agent that it has not taken.
constexpr size_t kMostUnsent = 1024;
constexpr size_t kMostUnsentBytes = size_t{64} << 20;
// One message of an agent, in pieces.
constexpr size_t kMostMessageBytes = size_t{64} << 20;

using SharedMessage = std::shared_ptr<const v1::ControllerMessage>;

// The bytes of the message that was sent last: of a large job's start the same ones go to thousands
// of sessions. On the reactor's thread.
class LastSent {
 public:
  // `parts`: in pieces where it is too large for one. An agent of before there were pieces gets
  // what it can take, or loses the session.
  const std::vector<ByteBuffer>& BytesOf(const SharedMessage& message, bool parts) {
    if (message == message_ && parts == parts_) return bytes_;
    message_ = message;
    parts_ = parts;
    bytes_.clear();
    if (!parts || message->ByteSizeLong() <= protocol::kPartBytes) {
      bytes_.push_back(Serialize(*message));
      return bytes_;
    }
    for (v1::MessagePart& part : protocol::CutBytes(++number_, message->SerializeAsString())) {
      v1::ControllerMessage piece;
      protocol::CopyEnvelope(*message, piece);
      *piece.mutable_part() = std::move(part);
      bytes_.push_back(Serialize(piece));
    }
    return bytes_;
  }

 private:
  SharedMessage message_;
  bool parts_ = false;
  uint64_t number_ = 0;  // of messages in pieces
  std::vector<ByteBuffer> bytes_;
};

// Keeps itself alive until gRPC is done with it.
class Session final : public grpc::ServerBidiReactor<ByteBuffer, ByteBuffer>,
                      public AgentLink,
                      public std::enable_shared_from_this<Session> {
 public:
  Session(const AgentServiceParts& parts, LastSent* last_sent, uint64_t id,
          grpc::CallbackServerContext* context)
      : parts_(parts),
        last_sent_(last_sent),
        id_(id),
        context_(context),
        began_(parts.environment.clock->Now()) {}

  void Begin() {
    {
      const std::lock_guard lock(mutex_);
      self_ = shared_from_this();
    }
    peer_ = context_->peer();
    parts_.environment.authenticator->Authenticate(
        *context_, [self = shared_from_this()](absl::StatusOr<Identity> identity) {
          if (!identity.ok()) return self->Refuse("", identity.status());
          {
            const std::lock_guard lock(self->mutex_);
            self->identity_ = *std::move(identity);
          }
          if (const absl::Status admitted = self->Admit(); !admitted.ok()) {
            return self->Refuse("", admitted);
          }
          const std::lock_guard lock(self->mutex_);
          if (!self->finished_) self->StartRead(&self->incoming_);
        });
  }

  void OnReadDone(bool ok) override {
    FollowEarlier();
    if (!ok) return End(absl::OkStatus());
    v1::AgentMessage read;
    absl::Status status = Parse(incoming_, &read);
    if (status.ok()) status = CheckOrder(read);  // no pieces before Register
    if (absl::IsPermissionDenied(status) || absl::IsUnauthenticated(status)) {
      return Refuse(node_, status);
    }
    if (!status.ok()) return End(status);
    const bool piece = read.has_part();
    absl::StatusOr<std::optional<v1::AgentMessage>> whole = joiner_.Add(std::move(read));
    if (!whole.ok()) return End(whole.status());
    if (!whole->has_value()) return ReadOn(/*read_done=*/true);  // more of it is to come
    if (piece && (*whole)->has_register_()) {
      return End(InvalidField("register", "comes a second time"));
    }
    auto message = std::make_shared<v1::AgentMessage>(**std::move(whole));
    CutTexts(*message);  // they are kept, and shown to people
    // Of a newer version: skipped, so that agents may be upgraded first.
    if (message->message_case() == v1::AgentMessage::MESSAGE_NOT_SET) {
      return ReadOn(/*read_done=*/true);
    }
    // Not before the logic has taken the session; earlier ones go the long way.
    if (message->has_log() && admitted_) {
      AppendLog(message.get());
      return ReadOn(/*read_done=*/true);
    }
    Forward(std::move(message));
  }

  void Send(const SharedMessage& message) override {
    const std::lock_guard lock(mutex_);
    if (ending_.has_value()) return;
    for (const ByteBuffer& bytes : last_sent_->BytesOf(message, speaks_parts_)) {
      unsent_bytes_ += bytes.Length();
      unsent_.push_back(bytes);
    }
    if (unsent_.size() > kMostUnsent || unsent_bytes_ > kMostUnsentBytes) {
      unsent_.clear();
      ending_ = Refusal(absl::StatusCode::kResourceExhausted, "SLOW_READER",
                        "the agent does not take its messages");
      if (writing_) context_->TryCancel();  // or the write that is stuck would never end
    } else if (message->has_dismiss()) {
      ending_ = Refusal(absl::StatusCode::kAborted, "DISMISSED", message->dismiss().reason());
    }
    Advance();
  }

  void End(const absl::Status& status) override {
    {
      const std::lock_guard lock(mutex_);
      if (!ending_.has_value()) ending_ = status;
      Advance();
    }
    Leave();
  }

  absl::Status CheckBelieved(const Core& core) const override {
    return controller::CheckBelieved(core, identity_);
  }
  double until() const override { return identity_.end(); }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    if (!ok) {
      unsent_.clear();
      if (!ending_.has_value()) ending_ = absl::CancelledError("the agent has gone");
    }
    Advance();
  }

  void OnCancel() override {
    {
      const std::lock_guard lock(mutex_);
      unsent_.clear();
      if (!ending_.has_value()) ending_ = absl::CancelledError("the agent has gone");
      Advance();
    }
    Leave();
  }

  void OnDone() override {
    FollowEarlier();
    Leave();
    std::shared_ptr<Session> self;  // the last owner, perhaps: goes after the lock
    const std::lock_guard lock(mutex_);
    if (counted_) parts_.environment.calls->CloseStream(identity_.ToString());
    self = std::move(self_);
  }

 private:
  // gRPC calls from any of its threads, one after the other: what the call before wrote without the
  // lock is seen after this, whatever orders gRPC's threads.
  void FollowEarlier() { const std::lock_guard lock(mutex_); }

  // Before anything is read: whoever can be no node has no session, and a node few of them, of
  // which each registers soon.
  absl::Status Admit() {
    const Rights rights(identity_, v1::Policy(), {});
    if (identity_.kind != Identity::Kind::kNode) {
      RETURN_IF_ERROR(ToStatus(rights.Decide(kMethod, {})));
    }
    parts_.registration->Add([weak = weak_from_this()] {
      const auto self = weak.lock();
      if (self == nullptr || self->registered_) return;
      self->End(Refusal(absl::StatusCode::kAborted, "NOT_REGISTERED",
                        "the session did not register in time: come again"));
    });
    if (rights.unrestricted()) return absl::OkStatus();
    const std::lock_guard lock(mutex_);
    if (finished_) return absl::OkStatus();
    counted_ = parts_.environment.calls->OpenStream(identity_.ToString(), kMostSessionsOfNode);
    if (counted_) return absl::OkStatus();
    return Refusal(absl::StatusCode::kResourceExhausted, "TOO_MANY_SESSIONS",
                   absl::StrCat(identity_.ToString(), " has ", kMostSessionsOfNode,
                                " sessions open, the most of one node"));
  }

  // The first message registers, no later one does, and all come from one agent process.
  absl::Status CheckOrder(const v1::AgentMessage& message) {
    if (node_.empty()) {
      if (!message.has_register_()) {
        return InvalidField("register", "must be a session's first message");
      }
      node_ = NodeName(message.register_().node());
      if (node_.empty()) return InvalidField("register.node", "is no node's name");
      RETURN_IF_ERROR(CheckNode());
      incarnation_ = message.incarnation();
      registered_ = true;
      const auto version = protocol::CommonVersion(message.register_().protocol(), node_);
      speaks_parts_ = version.ok() && *version >= protocol::kFirstWithParts;
      return absl::OkStatus();
    }
    if (message.has_register_()) return InvalidField("register", "comes a second time");
    if (message.incarnation() != incarnation_) {
      return InvalidField("incarnation", "is not the one that registered");
    }
    return absl::OkStatus();
  }

  void Refuse(const std::string& node, const absl::Status& status) {
    const CallDescription call = {kMethod, /*reads_only=*/true, node, ""};
    // Not the context's: the call may have been cancelled, and be over, by now.
    AuditLater(parts_.environment, call, {identity_, peer_, Rights()}, status);
    End(status);
  }

  // Whether the caller may speak for the node: no policy changes that.
  absl::Status CheckNode() const {
    const Rights rights(identity_, v1::Policy(), {});
    return ToStatus(rights.Decide(kMethod, {.name = node_}));
  }

  void AppendLog(v1::AgentMessage* message) {
    v1::AgentLog& log = *message->mutable_log();
    parts_.logs->Append(node_, log.job(), log.uid(), std::move(*log.mutable_line()));
  }

  void Forward(std::shared_ptr<v1::AgentMessage> message) {
    Reactor::Input input;
    input.session = id_;
    input.apply = [self = shared_from_this(), message](Core& core, Effects& effects) {
      self->Apply(*message, core, effects);
    };
    input.release = [self = shared_from_this(), message](const absl::Status& durable) {
      if (!durable.ok()) self->End(absl::UnavailableError(durable.message()));
      if (durable.ok() && message->has_log() && self->admitted_) self->AppendLog(message.get());
      self->ReadOn(/*read_done=*/false);
    };
    {
      const std::lock_guard lock(mutex_);
      ++waiting_;
    }
    const absl::Status posted = parts_.environment.reactor->PostUnlimited(std::move(input));
    if (!posted.ok()) return End(posted);
    ReadOn(/*read_done=*/true);
  }

  // On the reactor's thread. What a session says after its end, or after the logic was loaded anew,
  // is not heard.
  void Apply(const v1::AgentMessage& message, Core& core, Effects& effects) {
    if (message.has_register_()) {
      if (const absl::Status believed = CheckBelieved(core); !believed.ok()) {
        return Refuse(node_, believed);
      }
      const absl::Status added = parts_.sessions->Add(id_, shared_from_this());
      if (!added.ok()) return End(added);
      if (identity_.kind == Identity::Kind::kNode) {
        parts_.node_sources->Add(NetworkOfPeer(peer_));
      }
    } else if (!parts_.sessions->Has(id_)) {
      return;
    }
    if (message.has_log()) return;
    const std::string replaced = message.has_register_() ? WhomItReplaces(core) : "";
    core.OnAgent(id_, message, effects);
    if (!replaced.empty()) {
      Audit(parts_.environment, {kMethod, /*reads_only=*/false, node_, ""},
            {identity_, peer_, Rights()}, absl::AbortedError(replaced), core, effects);
    }
    const std::lock_guard lock(mutex_);
    if (message.has_register_() && !ending_.has_value()) admitted_ = true;
    parts_.observer->OnAgentMessage(node_, message);
  }

  // What the audit trail tells of a registration that takes a living agent's place: it may be
  // somebody with that node's key. Empty: it takes nobody's.
  std::string WhomItReplaces(const Core& core) const {
    const std::optional<v1::Node> node = core.FindNode(node_);
    const bool another = node.has_value() && node->state() == v1::Node::READY &&
                         node->incarnation() != 0 && node->incarnation() != incarnation_;
    if (!another) return "";
    return absl::StrCat("agent ", absl::Hex(incarnation_), " has taken the place of agent ",
                        absl::Hex(node->incarnation()), ", which was heard from until then");
  }

  // After a read was dealt with, or the reactor has taken a message: goes on reading unless it is
  // doing so already or too many messages wait.
  void ReadOn(bool read_done) {
    const std::lock_guard lock(mutex_);
    if (read_done) {
      reading_ = false;
    } else {
      --waiting_;
    }
    if (reading_ || waiting_ >= kMostWaiting || ending_.has_value()) return;
    reading_ = true;
    StartRead(&incoming_);
  }

  // With mutex_ held: starts whatever is next.
  void Advance() {
    if (writing_ || finished_) return;
    if (!unsent_.empty()) {
      writing_ = true;
      outgoing_ = std::move(unsent_.front());
      unsent_bytes_ -= outgoing_.Length();
      unsent_.pop_front();
      return StartWrite(&outgoing_);
    }
    if (!ending_.has_value()) return;
    finished_ = true;
    const grpc::Status result = ToGrpc(*ending_);
    const CallEnvironment& environment = parts_.environment;
    environment.observer->OnCall(kMethod, CodeName(result.error_code()),
                                 environment.clock->Now() - began_);
    Finish(result);
  }

  // Tells the logic, once.
  void Leave() {
    if (left_.exchange(true)) return;
    Reactor::Input input;
    input.apply = [sessions = parts_.sessions, id = id_](Core& core, Effects& effects) {
      if (!sessions->Has(id)) return;
      sessions->Remove(id);
      core.OnSessionEnd(id, effects);
    };
    input.release = [](const absl::Status&) {};
    // Refused only when the reactor has ended, and the logic with it.
    static_cast<void>(parts_.environment.reactor->PostUnlimited(std::move(input)).ok());
  }

  const AgentServiceParts parts_;
  LastSent* const last_sent_;
  const uint64_t id_;
  grpc::CallbackServerContext* const context_;  // until the call is over
  std::string peer_;
  const double began_;
  std::shared_ptr<Session> self_;
  Identity identity_;    // once it is known; nothing is read before
  ByteBuffer incoming_;  // of the read that is under way
  std::string node_;     // once registered; written by the first read's callback only
  uint64_t incarnation_ = 0;
  protocol::Joiner<v1::AgentMessage> joiner_{kMostMessageBytes};  // of reads' callbacks
  std::atomic<bool> speaks_parts_{false};
  std::atomic<bool> registered_{false};  // Register was read
  std::atomic<bool> left_{false};
  std::atomic<bool> admitted_{false};  // the logic has heard Register

  std::mutex mutex_;     // guards what follows
  int waiting_ = 0;      // for the reactor
  bool reading_ = true;  // until what was read is dealt with
  std::deque<ByteBuffer> unsent_;
  size_t unsent_bytes_ = 0;
  ByteBuffer outgoing_;
  bool writing_ = false;
  bool finished_ = false;
  bool counted_ = false;  // among the node's sessions
  std::optional<absl::Status> ending_;
};

class AgentService final
    : public v1::AgentService::WithRawCallbackMethod_Session<v1::AgentService::Service> {
 public:
  explicit AgentService(const AgentServiceParts& parts) : parts_(parts) {}

  grpc::ServerBidiReactor<ByteBuffer, ByteBuffer>* Session(
      grpc::CallbackServerContext* context) override {
    const auto session =
        std::make_shared<controller::Session>(parts_, &last_sent_, ++last_id_, context);
    session->Begin();
    return session.get();
  }

 private:
  const AgentServiceParts parts_;
  LastSent last_sent_;
  std::atomic<uint64_t> last_id_{0};
};

}  // namespace

std::unique_ptr<grpc::Service> MakeAgentService(const AgentServiceParts& parts) {
  return std::make_unique<AgentService>(parts);
}

}  // namespace strata::controller
