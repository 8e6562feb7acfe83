// A rank's messages to all others: to those of its host through shared memory, to others over UCX.
#ifndef STRATA_COLLECTIVES_PROCESS_TRANSPORT_H_
#define STRATA_COLLECTIVES_PROCESS_TRANSPORT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "collectives/shared_transport.h"
#include "collectives/transport.h"
#include "collectives/ucx_transport.h"
#include "common/descriptor.h"

namespace strata::collectives {

class ProcessTransport final : public Transport {
 public:
  struct Peer {
    bool known = false;
    std::string door;  // SharedDoor's name; empty: over UCX
    std::string ucx;   // its worker's address
    bool ucx_notices_loss = true;
  };

  // `shared` may be null: no peer has a door then. Unavailable: no eventfd.
  static absl::StatusOr<std::unique_ptr<ProcessTransport>> Create(
      int rank, std::vector<Peer> peers, std::unique_ptr<SharedTransport> shared,
      std::unique_ptr<UcxTransport> ucx);

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(peers_.size()); }
  bool Knows(int peer) const override { return peers_[peer].known; }
  absl::Status Connect(int peer) override;
  void Send(Transfer* transfer) override;
  void Receive(Transfer* transfer, uint64_t mask) override;
  absl::Status Read(const Transfer& receive, int64_t offset, void* to, int64_t bytes) override {
    return shared_->Read(receive, offset, to, bytes);
  }
  absl::Status Release(const Transfer& receive) override { return shared_->Release(receive); }
  bool Poll() override;
  bool Probe(uint64_t tag, uint64_t mask, uint64_t* found) override;
  void Wait(absl::Duration timeout) override;
  void Wake() override;
  void Abort() override;

 private:
  ProcessTransport(int rank, std::vector<Peer> peers, std::unique_ptr<SharedTransport> shared,
                   std::unique_ptr<UcxTransport> ucx, common::Descriptor wake)
      : rank_(rank),
        peers_(std::move(peers)),
        shared_(std::move(shared)),
        ucx_(std::move(ucx)),
        wake_(std::move(wake)) {}
  bool IsShared(int peer) const { return !peers_[peer].door.empty(); }

  const int rank_;
  const std::vector<Peer> peers_;
  const std::unique_ptr<SharedTransport> shared_;
  const std::unique_ptr<UcxTransport> ucx_;
  const common::Descriptor wake_;
};

}  // namespace strata::collectives

#endif  // STRATA_COLLECTIVES_PROCESS_TRANSPORT_H_
