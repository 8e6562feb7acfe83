// What is done with a store before it is served.
#ifndef STRATA_CONTROLLER_SERVICE_STORE_PREPARATION_H_
#define STRATA_CONTROLLER_SERVICE_STORE_PREPARATION_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/entropy.h"
#include "controller/store/store.h"

namespace strata::controller {

struct StorePreparation {
  std::vector<std::string> discard;  // TABLE/KEY of records that go
  bool restored = false;             // it was put back from a backup: see restored_store.h
};

// All of it in one commit, told on stderr. `directory`: where jobs without folders of their own
// have theirs. DataLoss: the store is empty though jobs have left something there, or records
// cannot be read. NotFound: a record that is to go is not there.
absl::Status PrepareStore(Store& store, const std::string& directory,
                          const StorePreparation& preparation, const common::Entropy& entropy);

}  // namespace strata::controller

#endif  // STRATA_CONTROLLER_SERVICE_STORE_PREPARATION_H_
