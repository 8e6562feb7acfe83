#include "controller/service/files/audit_log.h"

#include "nlohmann/json.hpp"

namespace strata::controller {

std::string WriteAuditLine(const v1::AuditRecord& record) {
  const nlohmann::ordered_json line = {
      {"audit", record.sequence()},
      {"time", static_cast<double>(record.time().seconds()) + 1e-9 * record.time().nanos()},
      {"identity", record.identity()},
      {"peer", record.peer()},
      {"method", record.method()},
      {"resource", record.resource()},
      {"outcome", record.outcome()},
      {"reason", record.reason()},
      {"request_id", record.request_id()},
      {"certificate", record.certificate()}};
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

void AuditLog::OnEffects(const Core& /*core*/, const Effects& effects) {
  if (file_ == nullptr || effects.audited.empty()) return;
  std::string lines;
  for (const v1::AuditRecord& record : effects.audited) lines += WriteAuditLine(record);
  const auto write = [file = file_, lines = std::move(lines)] {
    std::fwrite(lines.data(), 1, lines.size(), file);
    std::fflush(file);
  };
  // A file that takes nothing any more loses lines; the store has them.
  static_cast<void>(pool_->Submit("audit", {write, [](const absl::Status&) {}}).ok());
}

}  // namespace strata::controller
