#include "collectives/ucx_communicator.h"

#include <mutex>

#include "absl/strings/str_cat.h"
#include "collectives/message_communicator.h"
#include "collectives/transport.h"
#include "collectives/ucx_worker.h"
#include "common/clock.h"
#include "common/status_macros.h"

namespace strata::collectives {
namespace {

// How long a rank that leaves waits for its last bytes to reach the kernel.
constexpr double kFlushSeconds = 2;

class UcxTransport final : public Transport {
 public:
  UcxTransport(std::unique_ptr<UcxWorker> worker, int rank, std::vector<UcxWorker::Peer> peers)
      : worker_(std::move(worker)), rank_(rank), connections_(peers.size()) {
    for (size_t i = 0; i < peers.size(); ++i) {
      connections_[i].transport = this;
      connections_[i].address = std::move(peers[i]);
    }
  }
  ~UcxTransport() override;

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(connections_.size()); }

  bool Knows(int peer) const override { return !connections_[peer].address.worker_address.empty(); }
  absl::Status Connect(int peer) override;
  void Send(Transfer* transfer) override;
  void Receive(Transfer* transfer, uint64_t mask) override;
  bool Poll() override;
  bool Probe(uint64_t tag, uint64_t mask, uint64_t* found) override;
  void Wait(absl::Duration timeout) override;
  void Wake() override { worker_->Wake(); }
  void Abort() override;

 private:
  struct Connection {
    UcxTransport* transport = nullptr;
    UcxWorker::Peer address;
    ucp_ep_h endpoint = nullptr;
    ucs_status_t failure = UCS_OK;
  };

  static void OnFailure(void* argument, ucp_ep_h endpoint, ucs_status_t status);
  static void OnSent(void* request, ucs_status_t status, void* user_data);
  static void OnReceived(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info,
                         void* user_data);
  void FinishReceive(Transfer* transfer, ucs_status_t status, const ucp_tag_recv_info_t& info);
  absl::Status StatusOf(const Transfer& transfer, ucs_status_t status) const;
  void CancelReceivesFromLostPeers();
  bool Close();

  std::unique_ptr<UcxWorker> worker_;
  const int rank_;
  std::vector<Connection> connections_;  // by world rank
  TransferList receives_;                // posted and not finished
  bool lost_peer_ = false;               // since the last Poll
  bool finished_ = false;                // a transfer, since the last Poll
  bool aborted_ = false;
};

absl::Status UcxTransport::Connect(int peer) {
  Connection& connection = connections_[peer];
  ucp_ep_params_t parameters = {};
  parameters.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                          UCP_EP_PARAM_FIELD_ERR_HANDLER;
  parameters.address =
      reinterpret_cast<const ucp_address_t*>(connection.address.worker_address.data());
  // UCX 1.13 uses no shared memory on connections that are to notice a lost peer. On one host speed
  // matters more, and whoever starts the processes sees them die and cancels.
  parameters.err_mode =
      connection.address.same_host ? UCP_ERR_HANDLING_MODE_NONE : UCP_ERR_HANDLING_MODE_PEER;
  parameters.err_handler.cb = OnFailure;
  parameters.err_handler.arg = &connection;
  const ucs_status_t status = ucp_ep_create(worker_->worker(), &parameters, &connection.endpoint);
  if (status != UCS_OK) return UcxError(absl::StrCat("connecting to rank ", peer).c_str(), status);
  return absl::OkStatus();
}

void UcxTransport::OnFailure(void* argument, ucp_ep_h, ucs_status_t status) {
  auto* connection = static_cast<Connection*>(argument);
  connection->failure = status;
  connection->transport->lost_peer_ = true;
}

absl::Status UcxTransport::StatusOf(const Transfer& transfer, ucs_status_t status) const {
  if (status == UCS_OK) return absl::OkStatus();
  const ucs_status_t failure = connections_[transfer.peer].failure;
  return UcxError(absl::StrCat("rank ", transfer.peer, " was lost").c_str(),
                  failure != UCS_OK ? failure : status);
}

// UCX calls back from inside progress and cancellation; for receives, from posting too.
void UcxTransport::OnSent(void* request, ucs_status_t status, void* user_data) {
  auto* transfer = static_cast<Transfer*>(user_data);
  auto* transport = static_cast<UcxTransport*>(transfer->end);
  ucp_request_free(request);
  transfer->status = transport->StatusOf(*transfer, status);
  transport->finished_ = true;
  transfer->pending.store(false, std::memory_order_release);
}

void UcxTransport::Send(Transfer* transfer) {
  ucp_request_param_t parameters = {};
  parameters.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  parameters.cb.send = OnSent;
  parameters.user_data = transfer;
  transfer->end = this;
  const ucs_status_ptr_t request =
      ucp_tag_send_nbx(connections_[transfer->peer].endpoint, transfer->from, transfer->bytes,
                       transfer->tag, &parameters);
  if (UCS_PTR_IS_PTR(request)) return;
  transfer->status = StatusOf(*transfer, UCS_PTR_RAW_STATUS(request));
  finished_ = true;
  transfer->pending.store(false, std::memory_order_release);
}

void UcxTransport::FinishReceive(Transfer* transfer, ucs_status_t status,
                                 const ucp_tag_recv_info_t& info) {
  transfer->too_long = status == UCS_ERR_MESSAGE_TRUNCATED;
  transfer->status = transfer->too_long ? absl::OkStatus() : StatusOf(*transfer, status);
  if (transfer->status.ok()) {
    transfer->tag = info.sender_tag;
    transfer->arrived_bytes = static_cast<int64_t>(info.length);
  }
  finished_ = true;
  transfer->pending.store(false, std::memory_order_release);
}

void UcxTransport::OnReceived(void* request, ucs_status_t status, const ucp_tag_recv_info_t* info,
                              void* user_data) {
  auto* transfer = static_cast<Transfer*>(user_data);
  auto* transport = static_cast<UcxTransport*>(transfer->end);
  transport->receives_.Remove(transfer);
  transport->FinishReceive(transfer, status, *info);
  ucp_request_free(request);  // last, as info lies in it
}

void UcxTransport::Receive(Transfer* transfer, uint64_t mask) {
  ucp_request_param_t parameters = {};
  // UCX 1.13 does not tell the tag of a message that was there already, unless it goes through the
  // callback.
  parameters.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
  parameters.cb.recv = OnReceived;
  parameters.user_data = transfer;
  transfer->end = this;
  receives_.Append(transfer);
  const ucs_status_ptr_t request = ucp_tag_recv_nbx(
      worker_->worker(), transfer->to, transfer->bytes, transfer->tag, mask, &parameters);
  if (!transfer->pending.load(std::memory_order_relaxed)) return;  // the callback ran
  if (UCS_PTR_IS_PTR(request)) {
    transfer->request = request;
    // A lost peer sends nothing more, but this may have taken what it sent before: Poll tells.
    lost_peer_ |= connections_[transfer->peer].failure != UCS_OK;
  } else {
    receives_.Remove(transfer);
    FinishReceive(transfer, UCS_PTR_IS_ERR(request) ? UCS_PTR_STATUS(request) : UCS_ERR_NO_MESSAGE,
                  {});
  }
}

bool UcxTransport::Poll() {
  if (aborted_) return false;
  // One round reads a bounded number of messages; a few of them, for a burst.
  constexpr int kRounds = 8;
  bool news = false;
  for (int i = 0; i < kRounds && ucp_worker_progress(worker_->worker()) != 0; ++i) news = true;
  if (lost_peer_) CancelReceivesFromLostPeers();
  news |= finished_;
  finished_ = false;
  return news;
}

void UcxTransport::CancelReceivesFromLostPeers() {
  lost_peer_ = false;
  for (Transfer* receive = receives_.first(); receive != nullptr;) {
    Transfer* const next = receive->next;  // cancelling takes it off the list
    if (connections_[receive->peer].failure != UCS_OK)
      ucp_request_cancel(worker_->worker(), receive->request);
    receive = next;
  }
}

bool UcxTransport::Probe(uint64_t tag, uint64_t mask, uint64_t* found) {
  ucp_tag_recv_info_t info = {};
  if (aborted_ || ucp_tag_probe_nb(worker_->worker(), tag, mask, 0, &info) == nullptr) return false;
  *found = info.sender_tag;
  return true;
}

void UcxTransport::Wait(absl::Duration timeout) {
  if (aborted_) {
    worker_->WaitForWake(timeout);
  } else {
    worker_->Wait(timeout);
  }
}

// Sends cannot be called back, and a large receive that has begun cannot either. Only progress
// writes to memory, so there is none any more.
void UcxTransport::Abort() {
  if (aborted_) return;
  for (Transfer* receive = receives_.first(); receive != nullptr;) {
    Transfer* const next = receive->next;
    ucp_request_cancel(worker_->worker(), receive->request);
    receive = next;
  }
  receives_ = TransferList();
  aborted_ = true;
}

// Lets the last messages leave, which were reported as sent when UCX had taken them; true when all
// connections are closed.
bool UcxTransport::Close() {
  const common::MonotonicClock clock{};
  const double deadline = clock.Now() + kFlushSeconds;
  bool closed = true;
  for (Connection& connection : connections_) {
    if (connection.endpoint == nullptr) continue;
    ucp_request_param_t parameters = {};
    if (connection.failure != UCS_OK && !connection.address.same_host) {
      parameters.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
      parameters.flags = UCP_EP_CLOSE_FLAG_FORCE;
    }
    const ucs_status_ptr_t request = ucp_ep_close_nbx(connection.endpoint, &parameters);
    if (!UCS_PTR_IS_PTR(request)) continue;
    while (ucp_request_check_status(request) == UCS_INPROGRESS && clock.Now() < deadline) {
      if (ucp_worker_progress(worker_->worker()) == 0) worker_->Wait(absl::Milliseconds(1));
    }
    closed &= ucp_request_check_status(request) != UCS_INPROGRESS;
    ucp_request_free(request);
  }
  return closed;
}

// UCX 1.13 ends the process when a worker is destroyed that has messages under way, and they cannot
// be finished without writing to memory that is no longer ours. So a worker that was aborted is
// kept until the process ends, which a rank that failed does soon.
void Abandon(std::unique_ptr<UcxWorker> worker) {
  static std::mutex mutex;
  static auto* const abandoned = new std::vector<std::unique_ptr<UcxWorker>>;
  const std::lock_guard lock(mutex);
  abandoned->push_back(std::move(worker));
}

UcxTransport::~UcxTransport() {
  if (aborted_ || !Close()) Abandon(std::move(worker_));
}

}  // namespace

absl::StatusOr<std::unique_ptr<UcxEndpoint>> UcxEndpoint::Create(const UcxOptions& options) {
  if (options.max_operations <= 0)
    return absl::InvalidArgumentError("max_operations must be positive");
  ASSIGN_OR_RETURN(std::unique_ptr<UcxWorker> worker, UcxWorker::Open(options));
  return worker;
}

absl::StatusOr<std::unique_ptr<Communicator>> UcxEndpoint::Connect(
    std::unique_ptr<UcxEndpoint> endpoint, int rank, const std::vector<std::string>& addresses,
    const WorldKey& key) {
  std::unique_ptr<UcxWorker> worker(static_cast<UcxWorker*>(endpoint.release()));
  if (rank < 0 || static_cast<size_t>(rank) >= addresses.size() ||
      addresses[rank] != worker->Address()) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", rank, " has another address among the ", addresses.size(), " given"));
  }
  if (key.nonce.size() != kNonceBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the epoch's nonce has ", key.nonce.size(),
                                                   " bytes, and needs ", kNonceBytes));
  }
  std::vector<UcxWorker::Peer> peers(addresses.size());
  for (size_t peer = 0; peer < addresses.size(); ++peer) {
    if (addresses[peer].empty()) continue;  // not to be connected with
    auto parsed = worker->ParseAddress(addresses[peer]);
    if (!parsed.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("rank ", peer, ": ", parsed.status().message()));
    }
    peers[peer] = *std::move(parsed);
  }
  worker->Admit(key, rank, peers);
  const int max_operations = worker->options().max_operations;
  return std::make_unique<MessageCommunicator>(
      std::make_unique<UcxTransport>(std::move(worker), rank, std::move(peers)), max_operations);
}

}  // namespace strata::collectives
