// Messages between ranks over UCX.
#ifndef STRATA_COLLECTIVES_UCX_TRANSPORT_H_
#define STRATA_COLLECTIVES_UCX_TRANSPORT_H_

#include <ucp/api/ucp.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "collectives/transport.h"
#include "collectives/ucx_worker.h"

namespace strata::collectives {

// One rank's end, as Transport (transport.h) says where nothing else is said.
class UcxTransport {
 public:
  UcxTransport(std::unique_ptr<UcxWorker> worker, int size);
  ~UcxTransport();

  // `address`: of the peer's worker. `notices_loss`: whether its end ends what is exchanged with
  // it; UCX 1.13 has no shared memory then.
  absl::Status Connect(int peer, const std::string& address, bool notices_loss);
  void Send(Transfer* transfer);
  void Receive(Transfer* transfer, uint64_t mask);
  bool Poll();
  bool Probe(uint64_t tag, uint64_t mask, uint64_t* found) const;
  void Abort();

  // Before a sleep until file() is readable; false: there is something to do at once.
  bool BeginSleep();
  int file() const { return aborted_ || !connected_ ? -1 : worker_->file(); }

 private:
  struct Connection {
    UcxTransport* transport = nullptr;
    ucp_ep_h endpoint = nullptr;
    bool notices_loss = false;
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
  std::vector<Connection> connections_;  // by world rank
  TransferList receives_;                // posted and not finished
  bool connected_ = false;               // with anybody: without, nothing comes this way
  bool lost_peer_ = false;               // since the last Poll
  bool finished_ = false;                // a transfer, since the last Poll
  bool aborted_ = false;
};

}  // namespace strata::collectives

#endif  // STRATA_COLLECTIVES_UCX_TRANSPORT_H_
