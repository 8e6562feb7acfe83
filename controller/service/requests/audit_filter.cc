#include "controller/service/requests/audit_filter.h"

#include <optional>
#include <string>

#include "controller/service/requests/filter_language.h"

namespace strata::controller {
namespace {

std::optional<FilterField> FieldOfAudit(const std::string& field) {
  using google::protobuf::Message;
  if (field == "time") {
    const auto seconds = [](const Message& record) {
      const auto& time = static_cast<const v1::AuditRecord&>(record).time();
      return static_cast<double>(time.seconds()) + 1e-9 * time.nanos();
    };
    return NumberField{seconds, /*is_time=*/true};
  }
  if (field != "identity" && field != "method" && field != "resource" && field != "outcome") {
    return std::nullopt;
  }
  const auto* const described = v1::AuditRecord::descriptor()->FindFieldByName(field);
  const auto text = [described](const Message& record) -> std::optional<std::string> {
    return record.GetReflection()->GetString(record, described);
  };
  return TextField{text, nullptr};
}

}  // namespace

absl::StatusOr<AuditFilter> ParseAuditFilter(absl::string_view filter) {
  static const auto& fields = *new FilterFields{
      FieldOfAudit, "identity, method, resource, outcome and time", "outcome != OK"};
  return ParseFilter(filter, fields);
}

}  // namespace strata::controller
