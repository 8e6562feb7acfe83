// What a device and hour costs, as --price says it.
#ifndef STRATA_CLIENT_PLANNING_PRICES_H_
#define STRATA_CLIENT_PLANNING_PRICES_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/command_line/command.h"

namespace strata::client {

struct Prices {
  double any = 0;                       // of kinds that are not named; 0: not given
  std::map<std::string, double> kinds;  // by the catalog's name

  // Of a kind, by the catalog's name or an alias, or of any other device; 0: not given.
  double Of(absl::string_view kind) const;
};

// --price MONEY, --price KIND=MONEY,…, or both; without the flag no prices. InvalidArgument: what
// is said is no price, or is of a kind that nobody knows.
absl::StatusOr<Prices> PricesOf(const Arguments& arguments);
// That --price leaves out a kind which is asked about.
absl::Status NoPriceOf(absl::string_view kind);

Flag PriceFlag(const std::string& help);

}  // namespace strata::client

#endif  // STRATA_CLIENT_PLANNING_PRICES_H_
