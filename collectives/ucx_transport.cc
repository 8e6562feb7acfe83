#include "collectives/ucx_transport.h"

#include <poll.h>

#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/clock.h"

namespace strata::collectives {
namespace {

// How long a rank that leaves waits for its last bytes to reach the kernel.
constexpr double kFlushSeconds = 2;
constexpr int kCloseLookMs = 1;

}  // namespace

UcxTransport::UcxTransport(std::unique_ptr<UcxWorker> worker, int size)
    : worker_(std::move(worker)), connections_(size) {
  for (Connection& connection : connections_) connection.transport = this;
}

absl::Status UcxTransport::Connect(int peer, const std::string& address, bool notices_loss) {
  Connection& connection = connections_[peer];
  connection.notices_loss = notices_loss;
  ucp_ep_params_t parameters = {};
  parameters.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                          UCP_EP_PARAM_FIELD_ERR_HANDLER;
  parameters.address = reinterpret_cast<const ucp_address_t*>(address.data());
  parameters.err_mode = notices_loss ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE;
  parameters.err_handler.cb = OnFailure;
  parameters.err_handler.arg = &connection;
  const ucs_status_t status = ucp_ep_create(worker_->worker(), &parameters, &connection.endpoint);
  if (status != UCS_OK) return UcxError(absl::StrCat("connecting to rank ", peer).c_str(), status);
  connected_ = true;
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
  if (aborted_ || !connected_) return false;
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

bool UcxTransport::Probe(uint64_t tag, uint64_t mask, uint64_t* found) const {
  ucp_tag_recv_info_t info = {};
  if (aborted_ || !connected_ ||
      ucp_tag_probe_nb(worker_->worker(), tag, mask, 0, &info) == nullptr)
    return false;
  *found = info.sender_tag;
  return true;
}

bool UcxTransport::BeginSleep() { return aborted_ || !connected_ || worker_->BeginSleep(); }

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
    if (connection.failure != UCS_OK && connection.notices_loss) {
      parameters.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
      parameters.flags = UCP_EP_CLOSE_FLAG_FORCE;
    }
    const ucs_status_ptr_t request = ucp_ep_close_nbx(connection.endpoint, &parameters);
    if (!UCS_PTR_IS_PTR(request)) continue;
    while (ucp_request_check_status(request) == UCS_INPROGRESS && clock.Now() < deadline) {
      if (ucp_worker_progress(worker_->worker()) == 0 && worker_->BeginSleep()) {
        pollfd waiting = {.fd = worker_->file(), .events = POLLIN, .revents = 0};
        poll(&waiting, 1, kCloseLookMs);
      }
    }
    closed &= ucp_request_check_status(request) != UCS_INPROGRESS;
    ucp_request_free(request);
  }
  return closed;
}

namespace {

// UCX 1.13 ends the process when a worker is destroyed that has messages under way, and they cannot
// be finished without writing to memory that is no longer ours. So a worker that was aborted is
// kept until the process ends, which a rank that failed does soon.
void Abandon(std::unique_ptr<UcxWorker> worker) {
  static std::mutex mutex;
  static auto* const abandoned = new std::vector<std::unique_ptr<UcxWorker>>;
  const std::lock_guard lock(mutex);
  abandoned->push_back(std::move(worker));
}

}  // namespace

UcxTransport::~UcxTransport() {
  if (aborted_ || !Close()) Abandon(std::move(worker_));
}

}  // namespace strata::collectives
