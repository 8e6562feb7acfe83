#include "worker/trainer/peer_addresses.h"

#include "absl/strings/str_cat.h"

namespace strata::worker {

absl::StatusOr<std::vector<std::string>> PeerAddresses(const v1::StartRanks& start, int ranks,
                                                       int rank, absl::Span<const int> peers) {
  v1::Addresses told;
  const bool of_all = start.ranks().empty();
  if (of_all) {
    *told.mutable_addresses() = start.addresses();
  } else if (!told.ParseFromString(start.packed_addresses())) {
    return absl::InvalidArgumentError("the start's bytes are no addresses");
  }
  const int expected = of_all ? ranks : start.ranks_size();
  if (told.addresses_size() != expected) {
    return absl::InvalidArgumentError(absl::StrCat("the start has ", told.addresses_size(),
                                                   " addresses for ", expected, " ranks"));
  }
  std::vector<int> place(ranks, -1);  // of each rank in the start
  for (int i = 0; i < expected; ++i) {
    const int other = of_all ? i : start.ranks(i);
    if (other < 0 || other >= ranks) {
      return absl::InvalidArgumentError(
          absl::StrCat("the start has an address of rank ", other, " in a world of ", ranks));
    }
    place[other] = i;
  }
  std::vector<std::string> addresses(ranks);
  const auto use = [&](int other) {
    if (place[other] < 0 || told.addresses(place[other]).empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat("rank ", rank, " was not given the address of rank ", other,
                       ", with which it is to exchange data"));
    }
    addresses[other] = told.addresses(place[other]);
    return absl::OkStatus();
  };
  absl::Status status = use(rank);
  for (const int peer : peers) status.Update(use(peer));
  if (!status.ok()) return status;
  return addresses;
}

}  // namespace strata::worker
