// The audit trail's lines for whoever collects them.
#include "controller/service/files/audit_log.h"

#include <cstdio>
#include <string>

#include "common/clock.h"
#include "controller/service/files/file_pool.h"
#include "controller/service/testing/test_support.h"
#include "gtest/gtest.h"

namespace strata::controller {
namespace {

TEST(AuditLog, WritesOneJsonLinePerRecord) {
  v1::AuditRecord record;
  record.set_sequence(7);
  record.mutable_time()->set_seconds(1700000000);
  record.set_identity("users/ann");
  record.set_method("JobService/CancelJob");
  record.set_outcome("PERMISSION_DENIED");
  record.set_reason("a \"quote\"\n");
  EXPECT_EQ(WriteAuditLine(record),
            "{\"audit\":7,\"time\":1700000000.0,\"identity\":\"users/ann\",\"peer\":\"\","
            "\"method\":\"JobService/CancelJob\",\"resource\":\"\",\"outcome\":"
            "\"PERMISSION_DENIED\",\"reason\":\"a "
            "\\\"quote\\\"\\n\",\"request_id\":\"\",\"certificate\":\"\"}\n");
}

TEST(AuditLog, TellsWhatIsDurable) {
  std::FILE* file = std::tmpfile();
  {
    FilePool pool({});
    AuditLog log(&pool, file);
    const common::ManualClock clock;
    const Core core(&clock);
    Effects effects;
    effects.audited.resize(2);
    log.OnEffects(core, effects);
    log.OnEffects(core, {});
    Gate done;
    ASSERT_TRUE(pool.Submit("audit", {[&] { done.Open(); }, [](const absl::Status&) {}}).ok());
    done.Wait();
  }
  std::rewind(file);
  int lines = 0;
  for (int c = 0; (c = std::fgetc(file)) != EOF;) lines += c == '\n';
  EXPECT_EQ(lines, 2);
  std::fclose(file);
}

}  // namespace
}  // namespace strata::controller
