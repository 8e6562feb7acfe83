#include "worker/trainer/peer_addresses.h"

#include "absl/strings/str_cat.h"

namespace strata::worker {

absl::StatusOr<std::vector<std::string>> PeerAddresses(const v1::StartRanks& start, int ranks,
                                                       int rank, absl::Span<const int> peers) {
  const bool of_all = start.ranks().empty();
  if (start.addresses_size() != (of_all ? ranks : start.ranks_size())) {
    return absl::InvalidArgumentError(absl::StrCat("the start has ", start.addresses_size(),
                                                   " addresses for ",
                                                   of_all ? ranks : start.ranks_size(), " ranks"));
  }
  std::vector<int> place(ranks, -1);  // of each rank in the start
  for (int i = 0; i < start.addresses_size(); ++i) {
    const int told = of_all ? i : start.ranks(i);
    if (told < 0 || told >= ranks) {
      return absl::InvalidArgumentError(
          absl::StrCat("the start has an address of rank ", told, " in a world of ", ranks));
    }
    place[told] = i;
  }
  std::vector<std::string> addresses(ranks);
  const auto use = [&](int other) {
    if (place[other] < 0 || start.addresses(place[other]).empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat("rank ", rank, " was not given the address of rank ", other,
                       ", with which it is to exchange data"));
    }
    addresses[other] = start.addresses(place[other]);
    return absl::OkStatus();
  };
  absl::Status status = use(rank);
  for (const int peer : peers) status.Update(use(peer));
  if (!status.ok()) return status;
  return addresses;
}

}  // namespace strata::worker
