#include "client/planning/prices.h"

#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/planning/flag_error.h"
#include "common/status_macros.h"
#include "planner/performance/catalog.h"

namespace strata::client {
namespace {

constexpr char kFlag[] = "--price";
constexpr double kMostPrice = 1e9;

absl::StatusOr<double> MoneyOf(absl::string_view text) {
  double money = 0;
  if (absl::SimpleAtod(text, &money) && std::isfinite(money) && money > 0 && money <= kMostPrice) {
    return money;
  }
  return FlagError(kFlag,
                   absl::StrCat("\"", text,
                                "\" is no positive number up to 1e9 — give MONEY of a device "
                                "and hour, or KIND=MONEY,… such as h100=2.5,a100-80=1.2"));
}

}  // namespace

double Prices::Of(absl::string_view kind) const {
  const auto* gpu = planner::Catalog::Shipped().GpuNamed(kind);
  const auto found = gpu == nullptr ? kinds.end() : kinds.find(gpu->name());
  return found == kinds.end() ? any : found->second;
}

absl::StatusOr<Prices> PricesOf(const Arguments& arguments) {
  Prices prices;
  if (!arguments.Has(kFlag)) return prices;
  bool has_any = false;
  for (const absl::string_view each : absl::StrSplit(arguments.Text(kFlag), ',')) {
    const std::pair<absl::string_view, absl::string_view> pair =
        absl::StrSplit(each, absl::MaxSplits('=', 1));
    const bool named = each.find('=') != absl::string_view::npos;
    ASSIGN_OR_RETURN(const double money, MoneyOf(named ? pair.second : each));
    if (!named) {
      if (std::exchange(has_any, true)) {
        return FlagError(kFlag, "says two prices of any kind — name the kinds: KIND=MONEY,…");
      }
      prices.any = money;
      continue;
    }
    const auto* gpu = planner::Catalog::Shipped().GpuNamed(pair.first);
    if (gpu == nullptr) {
      return FlagError(kFlag,
                       absl::StrCat("no profile of a GPU named ", pair.first, " — name one of ",
                                    planner::Catalog::Shipped().KnownNames()));
    }
    if (!prices.kinds.emplace(gpu->name(), money).second) {
      return FlagError(kFlag, absl::StrCat(pair.first, " has two prices — keep one"));
    }
  }
  return prices;
}

absl::Status NoPriceOf(absl::string_view kind) {
  return FlagError(kFlag, absl::StrCat("has no price of ", kind, " — add ",
                                       absl::AsciiStrToLower(kind), "=MONEY"));
}

Flag PriceFlag(const std::string& help) {
  return {kFlag, Flag::Kind::kText, "MONEY|KIND=MONEY,…", help};
}

}  // namespace strata::client
